package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStaticMemberStaysAway: what a static member of KIP-848 was assigned is its own while it is away, and others' when it
// did not come back until its session ended.
func TestStaticMemberStaysAway(t *testing.T) {
	for _, back := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := open(t, "")
			s := o.connect(t)
			instance := "i"
			static := func(id string, epoch int32) *kmsg.ConsumerGroupHeartbeatResponse {
				q := beat("g", id, epoch, "orders")
				q.InstanceID = &instance
				resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q)
				if resp.ErrorCode != 0 {
					t.Fatalf("%s with epoch %d: code %d", id, epoch, resp.ErrorCode)
				}
				return resp
			}
			static("a", epochJoins)
			static("a", epochAway)
			epoch, given := epochJoins, 0
			other := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(memberInterval) {
					resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "b", epoch, "orders"))
					if resp.ErrorCode != 0 {
						t.Fatalf("code %d", resp.ErrorCode)
					}
					epoch = resp.MemberEpoch
					given = 0
					for _, topic := range resp.Assignment.Topics {
						given += len(topic.Partitions)
					}
				}
			}
			if other(memberSession - memberInterval); given != 0 {
				t.Errorf("%d partitions are another's while their member may come back", given)
			}
			want := int(orders.Partitions)
			if back {
				id := "again"
				at := static(id, epochJoins).MemberEpoch
				defer func() { // when all sessions of before have ended
					if resp := static(id, at); resp.MemberEpoch < at {
						t.Errorf("it was let go: %+v", resp)
					}
				}()
				want /= 2
			}
			if other(4 * memberInterval); given > want || !back && given != want {
				t.Errorf("back: %v; %d partitions are another's, want %d", back, given, want)
			}
			o.away.mu.Lock()
			defer o.away.mu.Unlock()
			if len(o.away.until) != 0 {
				t.Errorf("%v", o.away.until)
			}
		})
	}
}
