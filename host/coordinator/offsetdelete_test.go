package coordinator

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDeleteOffsetsOfMembers: offsets of topics that members of a group of KIP-848 read stay, by whatever they named them,
// and those of others are deleted, as in a group of the classic protocol.
func TestDeleteOffsetsOfMembers(t *testing.T) {
	pattern := "ord.*"
	for name, want := range map[string]func(*kmsg.ConsumerGroupHeartbeatRequest){
		"names":   func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicNames = []string{"orders"} },
		"pattern": func(q *kmsg.ConsumerGroupHeartbeatRequest) { q.SubscribedTopicRegex = &pattern },
	} {
		t.Run(name, func(t *testing.T) {
			o := open(t, "")
			s := o.connect(t)
			for _, topic := range []Topic{orders, payments} {
				if code := mustCommit(t, s, commitOf("g", topic, 0, 5)); code != 0 {
					t.Fatalf("code %d", code)
				}
			}
			q := beat("g", "m", 0)
			want(q)
			if code := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q).ErrorCode; code != 0 {
				t.Fatalf("code %d", code)
			}
			del := kmsg.NewPtrOffsetDeleteRequest()
			del.Group = "g"
			for _, topic := range []string{"orders", "payments"} {
				del.Topics = append(del.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
			}
			resp := do[*kmsg.OffsetDeleteResponse](t, s, del)
			if got, want := fmt.Sprint(resp.ErrorCode, resp.Topics), "0 [{orders [{0 86}]} {payments [{0 0}]}]"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", -1))
			if a, b := offsetOf(t, s, "g", orders, 0), offsetOf(t, s, "g", payments, 0); a != 5 || b != -1 {
				t.Errorf("offsets %d and %d are left", a, b)
			}
		})
	}
}
