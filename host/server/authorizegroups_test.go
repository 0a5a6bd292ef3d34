package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupCodes are what a client hears about a group, by request.
func groupCodes(w *wire, group, topic string) map[string]int16 {
	out := map[string]int16{}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	out["find 3"] = ask[*kmsg.FindCoordinatorResponse](w, find, 3).ErrorCode
	out["find 4"] = ask[*kmsg.FindCoordinatorResponse](w, find, 4).Coordinators[0].ErrorCode
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation = group, -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 3}}}}
	out["commit"] = ask[*kmsg.OffsetCommitResponse](w, commit, 7).Topics[0].Partitions[0].ErrorCode
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Group, fetch.Topics = group, []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	old := ask[*kmsg.OffsetFetchResponse](w, fetch, 5)
	if out["fetch 5"] = old.ErrorCode; old.ErrorCode == 0 {
		out["fetch 5"] = old.Topics[0].Partitions[0].ErrorCode
	}
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}}}
	one := ask[*kmsg.OffsetFetchResponse](w, fetch, 8).Groups[0]
	if out["fetch 8"] = one.ErrorCode; one.ErrorCode == 0 {
		out["fetch 8"] = one.Topics[0].Partitions[0].ErrorCode
	}
	fetch.Groups[0].Topics = nil
	all := ask[*kmsg.OffsetFetchResponse](w, fetch, 8).Groups[0]
	out["fetch all"], out["topics of all"] = all.ErrorCode, int16(len(all.Topics))
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{group}
	out["describe"] = ask[*kmsg.DescribeGroupsResponse](w, describe, 5).Groups[0].ErrorCode
	out["groups listed"] = int16(len(ask[*kmsg.ListGroupsResponse](w, kmsg.NewPtrListGroupsRequest(), 4).Groups))
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.MemberID = group, "x"
	out["heartbeat"] = ask[*kmsg.HeartbeatResponse](w, beat, 4).ErrorCode
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Group, join.MemberID, join.SubscribedTopicNames, join.RebalanceTimeoutMillis, join.Topics = group+"-848", "AAAAAAAAAAAAAAAAAAAAAA", []string{topic}, 1000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	out["heartbeat 848"] = ask[*kmsg.ConsumerGroupHeartbeatResponse](w, join, 1).ErrorCode
	offsets := kmsg.NewPtrOffsetDeleteRequest()
	offsets.Group, offsets.Topics = group, []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	gone := ask[*kmsg.OffsetDeleteResponse](w, offsets, 0)
	if out["delete offsets"] = gone.ErrorCode; gone.ErrorCode == 0 {
		out["delete offsets"] = gone.Topics[0].Partitions[0].ErrorCode
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{group}
	out["delete"] = ask[*kmsg.DeleteGroupsResponse](w, del, 2).Groups[0].ErrorCode
	return out
}

// TestGroupRules: what concerns a group is held against its rules, and what concerns a topic in it against the topic's.
// The codes are those of Apache Kafka 4.3.1 with StandardAuthorizer.
func TestGroupRules(t *testing.T) {
	const noGroup, noTopic, unknownMember = groupAuthorizationFailed, topicAuthorizationFailed, 25
	for rules, want := range map[string]map[string]int16{
		"* read topic:T group:g*\n* delete group:g": {"find 3": 0, "find 4": 0, "commit": 0, "fetch 5": 0, "fetch 8": 0, "fetch all": 0, "topics of all": 1, "describe": 0,
			"groups listed": 1, "heartbeat": unknownMember, "heartbeat 848": 0, "delete offsets": 0, "delete": 0},
		"* read topic:T group:other": {"find 3": noGroup, "find 4": noGroup, "commit": noGroup, "fetch 5": noGroup, "fetch 8": noGroup, "fetch all": noGroup, "topics of all": 0,
			"describe": noGroup, "groups listed": 0, "heartbeat": noGroup, "heartbeat 848": noGroup, "delete offsets": noGroup, "delete": noGroup},
		"* read group:g*\n* delete group:g": {"find 3": 0, "find 4": 0, "commit": noTopic, "fetch 5": noTopic, "fetch 8": noTopic, "fetch all": 0, "topics of all": 0,
			"heartbeat 848": noTopic, "delete offsets": 69},
		"* read topic:T\n* describe group:g* cluster": {"find 4": 0, "commit": noGroup, "fetch 8": 0, "heartbeat": noGroup, "heartbeat 848": noGroup, "delete": noGroup},
	} {
		v, topic := ruled(t, rules)
		got := groupCodes(v.dial(t), "g", topic.Name)
		for name, code := range want {
			if got[name] != code {
				t.Errorf("%q: %s gives %d, want %d", rules, name, got[name], code)
			}
		}
	}
}

// TestGroupRulesMembers: a client whose group is allowed reads through it, and one whose isn't hears so.
func TestGroupRulesMembers(t *testing.T) {
	for name, protocol := range protocols {
		v, _ := ruled(t, "* read topic:T group:mine")
		cl := v.member(t, "mine", protocol...)
		if got := readSome(t, cl, 10); len(got) == 0 {
			t.Errorf("%s: nothing was read", name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		groups, err := kadm.NewClient(cl).ListGroups(ctx)
		if names := groups.Groups(); err != nil || !slices.Equal(names, []string{"mine"}) {
			t.Errorf("%s: %v, %v", name, fmt.Sprint(names), err)
		}
		other := v.member(t, "yours", append(protocol, kgo.RequestRetries(0))...)
		if err := other.PollFetches(ctx).Err(); !errors.Is(err, kerr.GroupAuthorizationFailed) {
			t.Errorf("%s: a group that is not allowed: %v", name, err)
		}
	}
}
