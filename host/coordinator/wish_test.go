package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// reader is a member of KIP-848 as its client keeps it, with rights that may change.
type reader struct {
	t     *testing.T
	s     *Session
	id    string
	epoch int32
	owned []kmsg.ConsumerGroupHeartbeatRequestTopic
	may   atomic.Pointer[map[string]bool] // nil: everything
}

func newReader(t *testing.T, o *opened, id string, may ...string) *reader {
	r := &reader{t: t, id: id, owned: []kmsg.ConsumerGroupHeartbeatRequestTopic{}}
	r.grant(may...)
	allowed := func(topic string) bool { return (*r.may.Load())[topic] }
	r.s = o.Connect("192.0.2.7", Rights{See: allowed, Read: allowed, Since: func() any { return r.may.Load() }})
	t.Cleanup(r.s.Close)
	return r
}

func (r *reader) grant(may ...string) {
	is := map[string]bool{}
	for _, topic := range may {
		is[topic] = true
	}
	r.may.Store(&is)
}

// beat sends a heartbeat, of a member that joins with this wish and then says only what it owns, and checks that it is assigned
// nothing that it may not read.
func (r *reader) beat(pattern string, names ...string) {
	r.t.Helper()
	q := beat("g", r.id, r.epoch)
	q.Topics = r.owned
	if r.epoch == 0 {
		q.SubscribedTopicNames = append([]string{}, names...)
		q.SubscribedTopicRegex = &pattern
	}
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](r.t, r.s, q)
	if resp.ErrorCode != 0 {
		r.t.Fatalf("%s: code %d", r.id, resp.ErrorCode)
	}
	r.epoch = resp.MemberEpoch
	if resp.Assignment == nil {
		return
	}
	r.owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, t := range resp.Assignment.Topics {
		if name := nameOf(t.TopicID); !(*r.may.Load())[name] {
			r.t.Errorf("%s is assigned %s", r.id, name)
		}
		r.owned = append(r.owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
	}
}

func nameOf(id abi.UUID) string {
	return map[abi.UUID]string{orders.ID: "orders", payments.ID: "payments"}[id]
}

// owns is what a reader owns, in order.
func (r *reader) owns() []string {
	out := []string{}
	for _, t := range r.owned {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprint(nameOf(t.TopicID), p))
		}
	}
	slices.Sort(out)
	return out
}

// settle has readers beat until nothing changes any more.
func settle(readers ...*reader) map[string][]string {
	owned := map[string][]string{}
	for range 10 {
		for _, r := range readers {
			r.beat("")
			owned[r.id] = r.owns()
		}
	}
	return owned
}

var everyPartition = []string{"orders0", "orders1", "orders2", "orders3", "payments0", "payments1"}

// TestAPatternAssignsWhatItsMemberMayRead: of members with different rights each gets partitions that it may read, and no
// partition is left that somebody may read; also after the rights have changed, in either direction.
func TestAPatternAssignsWhatItsMemberMayRead(t *testing.T) {
	for name, subscribe := range map[string]func(r *reader){
		"patterns":  func(r *reader) { r.beat(".*") },
		"names too": func(r *reader) { r.beat("orders|pay.*", "payments") },
	} {
		t.Run(name, func(t *testing.T) {
			o := open(t, "")
			narrow, wide := newReader(t, o, "narrow", "payments"), newReader(t, o, "wide", "orders", "payments")
			subscribe(narrow)
			subscribe(wide)
			owned := settle(narrow, wide)
			if len(owned["narrow"]) == 0 || !slices.Equal(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(owned))...))), everyPartition) {
				t.Errorf("%v", owned)
			}
			narrow.grant()
			if owned := settle(narrow, wide); len(owned["narrow"]) != 0 || !slices.Equal(owned["wide"], everyPartition) {
				t.Errorf("one may read nothing any more: %v", owned)
			}
			wide.grant("payments")
			narrow.grant("orders")
			owned = settle(narrow, wide)
			if !slices.Equal(owned["wide"], everyPartition[4:]) || !slices.Equal(owned["narrow"], everyPartition[:4]) {
				t.Errorf("their rights were exchanged: %v", owned)
			}
		})
	}
}

// TestAPatternFindsWhatIsServedLater: and nothing of a topic whose id nobody knows, which others of the same kind may have.
func TestAPatternFindsWhatIsServedLater(t *testing.T) {
	o := open(t, "")
	o.topics.serve(orders)
	expectKnown(t, o, "payments", false)
	r := newReader(t, o, "r", "orders", "payments", "idless")
	r.beat(".*")
	if owned := settle(r); !slices.Equal(owned["r"], everyPartition[:4]) {
		t.Errorf("%v", owned)
	}
	o.topics.serve(orders, payments, Topic{Name: "idless", Partitions: 1})
	expectKnown(t, o, "payments", true)
	if owned := settle(r); !slices.Equal(owned["r"], everyPartition) {
		t.Errorf("%v", owned)
	}
}

// TestDescriptionsShowThePattern: a member is shown with what it said, not with what that means.
func TestDescriptionsShowThePattern(t *testing.T) {
	o := open(t, "")
	r := newReader(t, o, "r", "payments")
	r.beat("o.*|p.*", "orders")
	q := newest(kmsg.NewPtrConsumerGroupDescribeRequest())
	q.Groups = []string{"g"}
	m := do[*kmsg.ConsumerGroupDescribeResponse](t, r.s, q).Groups[0].Members
	if len(m) != 1 || m[0].SubscribedTopicRegex == nil || *m[0].SubscribedTopicRegex != "o.*|p.*" || !slices.Equal(m[0].SubscribedTopics, []string{"orders"}) {
		t.Errorf("%+v", m)
	}
}

// expectKnown waits until kfake has a topic, or has not.
func expectKnown(t *testing.T, o *opened, topic string, want bool) {
	t.Helper()
	hammer.Eventually(t, 10*time.Second, func() bool { _, ok := o.known.named(topic); return ok == want })
}
