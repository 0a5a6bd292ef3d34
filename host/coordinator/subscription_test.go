package coordinator

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestMemberWantsSomethingElse: a member of KIP-848 that subscribes to another topic says that alone, as the Java client
// does: it is assigned the new one, and others get the old one when it was given up and no sooner.
func TestMemberWantsSomethingElse(t *testing.T) {
	pattern := "pay.*"
	for name, want := range map[string]func(*kmsg.ConsumerGroupHeartbeatRequest){
		"names": func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicNames = []string{"payments"} },
		"pattern": func(q *kmsg.ConsumerGroupHeartbeatRequest) {
			q.SubscribedTopicNames, q.SubscribedTopicRegex = []string{}, &pattern
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := open(t, "")
			s := o.connect(t)
			epoch := map[string]int32{}
			heard := func(q *kmsg.ConsumerGroupHeartbeatRequest) (topics map[[16]byte]int, told bool) {
				t.Helper()
				resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q)
				if resp.ErrorCode != 0 {
					t.Fatalf("%s: code %d", q.MemberID, resp.ErrorCode)
				}
				epoch[q.MemberID] = resp.MemberEpoch
				if resp.Assignment == nil {
					return nil, false
				}
				topics = map[[16]byte]int{}
				for _, a := range resp.Assignment.Topics {
					topics[a.TopicID] += len(a.Partitions)
				}
				return topics, true
			}
			alive := func(member string) *kmsg.ConsumerGroupHeartbeatRequest {
				q := beat("g", member, epoch[member])
				q.Topics, q.RebalanceTimeoutMillis = nil, -1
				return q
			}
			owns := func(member string, owned ...kmsg.ConsumerGroupHeartbeatRequestTopic) *kmsg.ConsumerGroupHeartbeatRequest {
				q := alive(member)
				q.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, owned...)
				return q
			}
			heard(beat("g", "a", 0, "orders"))
			heard(owns("a", kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: orders.ID, Partitions: []int32{0, 1, 2, 3}}))

			q := alive("a")
			want(q)
			if topics, told := heard(q); !told || topics[orders.ID] != 0 {
				t.Fatalf("it is to give up nothing: %v %v", topics, told)
			}
			heard(beat("g", "b", 0, "orders"))
			if topics, _ := heard(alive("b")); topics[orders.ID] != 0 {
				t.Errorf("another is given what was not given up: %v", topics)
			}
			heard(owns("a"))
			heard(alive("b"))
			ask := newest(kmsg.NewPtrConsumerGroupDescribeRequest())
			ask.Groups = []string{"g"}
			got := map[string]string{}
			for _, m := range do[*kmsg.ConsumerGroupDescribeResponse](t, s, ask).Groups[0].Members {
				for _, a := range m.Assignment.TopicPartitions {
					got[m.MemberID] += fmt.Sprint(a.Topic, a.Partitions)
				}
			}
			if got["a"] != "payments[0 1]" || got["b"] != "orders[0 1 2 3]" {
				t.Errorf("%v", got)
			}
		})
	}
}
