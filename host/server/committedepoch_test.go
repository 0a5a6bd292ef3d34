package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCommittedEpochAboveTheLineage: a leader epoch that was committed where later ones were known is -1 here, in all versions and
// for one topic or all; else a Java client would pass over all metadata. One that the lineage has stays.
func TestCommittedEpochAboveTheLineage(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	topic, err := v.host.Topic("payments")
	if err != nil {
		t.Fatal(err)
	}
	latest := topic.Partition(0).LatestLeaderEpoch()
	for epoch, want := range map[int32]int32{-1: -1, latest: latest, latest + 1: -1, latest + 5: -1} {
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Group, commit.Generation = "readers", -1
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = 0, 7, epoch
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "payments", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		if resp := ask[*kmsg.OffsetCommitResponse](w, commit, 8); resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("commit: code %d", resp.Topics[0].Partitions[0].ErrorCode)
		}
		check := func(version int16, offset int64, got int32) {
			t.Helper()
			if offset != 7 || got != want {
				t.Errorf("epoch %d, version %d: offset %d, epoch %d, want %d", epoch, version, offset, got, want)
			}
		}
		q := kmsg.NewPtrOffsetFetchRequest()
		q.Group, q.Topics = "readers", []kmsg.OffsetFetchRequestTopic{{Topic: "payments", Partitions: []int32{0}}}
		for _, topics := range [][]kmsg.OffsetFetchRequestTopic{q.Topics, nil} {
			q.Topics = topics
			one := ask[*kmsg.OffsetFetchResponse](w, q, 7).Topics[0].Partitions[0]
			check(7, one.Offset, one.LeaderEpoch)
		}
		many := kmsg.NewPtrOffsetFetchRequest()
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.Topics = "readers", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "payments", TopicID: topic.ID, Partitions: []int32{0}}}
		many.Groups = []kmsg.OffsetFetchRequestGroup{g}
		for version := int16(8); version <= 10; version++ {
			one := ask[*kmsg.OffsetFetchResponse](w, many, version).Groups[0].Topics[0].Partitions[0]
			check(version, one.Offset, one.LeaderEpoch)
		}
	}
}
