package server

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestOnce: an answer tells of each group, and each of its partitions, once, however often it is asked for.
func TestOnce(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	twice := []string{"g", "h", "g", "g"}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = slices.Clone(twice)
	if got := ask[*kmsg.DescribeGroupsResponse](w, describe, 6).Groups; len(got) != 2 || got[1].Group != "h" {
		t.Errorf("described: %+v", got)
	}
	members := kmsg.NewPtrConsumerGroupDescribeRequest()
	members.Groups = slices.Clone(twice)
	if got := ask[*kmsg.ConsumerGroupDescribeResponse](w, members, 1).Groups; len(got) != 2 {
		t.Errorf("described, KIP-848: %+v", got)
	}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = slices.Clone(twice)
	if got := ask[*kmsg.DeleteGroupsResponse](w, remove, 2).Groups; len(got) != 2 {
		t.Errorf("deleted: %+v", got)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = slices.Clone(twice)
	if got := ask[*kmsg.FindCoordinatorResponse](w, find, 4).Coordinators; len(got) != 2 {
		t.Errorf("coordinators: %+v", got)
	}
}

// TestOffsetsOnce: in all versions, and what is asked for of each topic and group is.
func TestOffsetsOnce(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	name := v.host.Topics()[0].Name
	for version := int16(1); version <= 9; version++ {
		q := kmsg.NewPtrOffsetFetchRequest()
		if version < 8 {
			q.Group = "g"
			q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: name, Partitions: []int32{0, 1, 0, 0}}, {Topic: name, Partitions: []int32{1, 2}}}
			got := ask[*kmsg.OffsetFetchResponse](w, q, version).Topics
			if len(got) != 2 || len(got[0].Partitions) != 2 || len(got[1].Partitions) != 1 {
				t.Errorf("version %d: %+v", version, got)
			}
			continue
		}
		for _, g := range []string{"g", "h", "g"} {
			one := kmsg.NewOffsetFetchRequestGroup()
			one.Group = g
			one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: name, Partitions: []int32{0, 1, 0, 0}}, {Topic: name, Partitions: []int32{1, 2}}}
			q.Groups = append(q.Groups, one)
		}
		got := ask[*kmsg.OffsetFetchResponse](w, q, version).Groups
		if len(got) != 2 {
			t.Errorf("version %d: %+v", version, got)
			continue
		}
		for _, g := range got {
			if len(g.Topics) != 2 || len(g.Topics[0].Partitions) != 2 || len(g.Topics[1].Partitions) != 1 {
				t.Errorf("version %d: %+v", version, g)
			}
		}
	}
}
