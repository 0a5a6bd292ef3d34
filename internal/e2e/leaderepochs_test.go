package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/server"
)

// epochAsker asks one server about leader epochs.
type epochAsker struct {
	t   *testing.T
	cl  *kgo.Client
	ctx context.Context
}

func askEpochs[R kmsg.Response](a epochAsker, q kmsg.Request) R {
	a.t.Helper()
	resp, err := a.cl.Request(a.ctx, q)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.(R)
}

// TestLeaderEpochsAgree: all answers about a partition give one latest leader epoch, and none gives a later one: a Java client takes
// each that it hears for the partition's, and passes over all metadata with a lower one from then on.
func TestLeaderEpochsAgree(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		for _, local := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/local=%v", fixture, local), func(t *testing.T) {
				cfg := fixtureConfig(builtIn(t, filepath.Join(fixtures, fixture, "remote"), "location"), fixture)
				if !local {
					cfg.LogDirs = nil
				}
				h := openHost(t, cfg)
				cl, err := kgo.NewClient(kgo.SeedBrokers(served(t, h, server.Options{})))
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for _, topic := range h.Topics() {
					for _, p := range topic.Partitions {
						if topic.Visible() && topic.Name[0] != '_' {
							epochAsker{t, cl, ctx}.agree(topic, p)
						}
					}
				}
			})
		}
	}
}

// agree asks in all ways about one partition.
func (a epochAsker) agree(topic *host.Topic, p *host.TopicPartition) {
	latest, name, number := p.LatestLeaderEpoch(), topic.Name, p.ID.Partition
	hold := func(what string, got int32, allowed ...int32) {
		a.t.Helper()
		for _, e := range allowed {
			if got == e {
				return
			}
		}
		if len(allowed) > 0 || got > latest {
			a.t.Errorf("%s-%d: %s gives leader epoch %d, the latest is %d", name, number, what, got, latest)
		}
	}
	a.described(hold, name, number, latest, -1) // the store was not asked yet
	start := int64(0)
	for _, timestamp := range []int64{-1, -2, -3, -4, -5, -6, 0, 1 << 40} {
		q := kmsg.NewPtrListOffsetsRequest()
		q.ReplicaID = -1
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp, one.CurrentLeaderEpoch = number, timestamp, -1
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{one}}}
		got := askEpochs[*kmsg.ListOffsetsResponse](a, q).Topics[0].Partitions[0]
		hold(fmt.Sprint("ListOffsets of ", timestamp), got.LeaderEpoch)
		if timestamp == -1 {
			hold("ListOffsets of the end", got.LeaderEpoch, latest)
		}
		if timestamp == -2 {
			start = got.Offset
		}
	}
	a.described(hold, name, number, latest)
	for _, epoch := range []int32{0, latest, latest + 1, 1 << 30} {
		q := kmsg.NewPtrOffsetForLeaderEpochRequest()
		one := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		one.Partition, one.LeaderEpoch, one.CurrentLeaderEpoch = number, epoch, -1
		q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{one}}}
		hold("OffsetForLeaderEpoch", askEpochs[*kmsg.OffsetForLeaderEpochResponse](a, q).Topics[0].Partitions[0].LeaderEpoch)
		a.committed(hold, topic, number, epoch, latest)
	}
	a.fetched(hold, topic, number, start)
}

type holdEpoch func(what string, got int32, allowed ...int32)

// described is what Metadata gives.
func (a epochAsker) described(hold holdEpoch, name string, number int32, allowed ...int32) {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	for _, p := range askEpochs[*kmsg.MetadataResponse](a, q).Topics[0].Partitions {
		if p.Partition == number {
			hold("Metadata", p.LeaderEpoch, allowed...)
		}
	}
	d := kmsg.NewPtrDescribeTopicPartitionsRequest()
	d.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
	d.ResponsePartitionLimit = 1000
	for _, p := range askEpochs[*kmsg.DescribeTopicPartitionsResponse](a, d).Topics[0].Partitions {
		if p.Partition == number {
			hold("DescribeTopicPartitions", p.LeaderEpoch, allowed...)
		}
	}
}

// committed is what OffsetFetch gives of a commit with an epoch.
func (a epochAsker) committed(hold holdEpoch, topic *host.Topic, number, epoch, latest int32) {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = "epochs", -1
	one := kmsg.NewOffsetCommitRequestTopicPartition()
	one.Partition, one.Offset, one.LeaderEpoch = number, 1, epoch
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic.Name, TopicID: topic.WireID(), Partitions: []kmsg.OffsetCommitRequestTopicPartition{one}}}
	if code := askEpochs[*kmsg.OffsetCommitResponse](a, q).Topics[0].Partitions[0].ErrorCode; code != 0 {
		a.t.Fatalf("commit: code %d", code)
	}
	f := kmsg.NewPtrOffsetFetchRequest()
	f.Group, f.Topics = "epochs", []kmsg.OffsetFetchRequestTopic{{Topic: topic.Name, Partitions: []int32{number}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "epochs", []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic.Name, TopicID: topic.WireID(), Partitions: []int32{number}}}
	f.Groups = []kmsg.OffsetFetchRequestGroup{g}
	want := epoch
	if epoch > latest {
		want = -1
	}
	for _, g := range askEpochs[*kmsg.OffsetFetchResponse](a, f).Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				hold("OffsetFetch", p.LeaderEpoch, want)
			}
		}
	}
}

// fetched is what Fetch gives: the batches' epochs, and the current leader's.
func (a epochAsker) fetched(hold holdEpoch, topic *host.Topic, number int32, offset int64) {
	for range 1000 {
		q := kmsg.NewPtrFetchRequest()
		q.ReplicaID, q.MaxBytes, q.MaxWaitMillis = -1, 1<<20, 100
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes, one.CurrentLeaderEpoch = number, offset, 1<<20, -1
		q.Topics = []kmsg.FetchRequestTopic{{Topic: topic.Name, TopicID: topic.WireID(), Partitions: []kmsg.FetchRequestTopicPartition{one}}}
		q.SessionEpoch = -1
		resp := askEpochs[*kmsg.FetchResponse](a, q)
		if len(resp.Topics) == 0 {
			return
		}
		got, next := resp.Topics[0].Partitions[0], offset
		hold("CurrentLeader of a Fetch", got.CurrentLeader.LeaderEpoch)
		for w := format.Walk(got.RecordBatches); w.Next(); next = w.Header().LastOffset + 1 {
			hold(fmt.Sprint("a batch at ", w.Header().BaseOffset), w.Header().LeaderEpoch)
		}
		if next == offset {
			return
		}
		offset = next
	}
}
