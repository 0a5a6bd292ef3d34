package coordinator

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLedger: there is room for so much, again when a member leaves, says less, or was not heard of for its session.
func TestLedger(t *testing.T) {
	var l ledger
	start := time.Now()
	half := holding{bytes: maxMemberData / 2, session: time.Minute}
	for i, step := range []struct {
		do   func(now time.Time) bool
		at   time.Duration
		want bool
	}{
		{func(now time.Time) bool { return l.hold("a", half, now) }, 0, true},
		{func(now time.Time) bool { return l.hold("b", half, now) }, 0, true},
		{func(now time.Time) bool { return l.hold("c", half, now) }, 0, false},
		{func(now time.Time) bool { return l.hold("b", half, now) }, 0, true},
		{func(now time.Time) bool { return l.hold("b", holding{bytes: 1, session: time.Minute}, now) }, 0, true},
		{func(now time.Time) bool {
			return l.hold("c", holding{bytes: half.bytes - 1, session: time.Minute}, now)
		}, 0, true},
		{func(now time.Time) bool { return l.hold("d", holding{bytes: 1, session: time.Minute}, now) }, 0, false},
		{func(now time.Time) bool { l.touch("a", now); l.touch("b", now); return true }, 30 * time.Second, true},
		{func(now time.Time) bool { return l.hold("d", half, now) }, 59 * time.Second, false},
		{func(now time.Time) bool {
			return l.hold("d", holding{bytes: half.bytes - 1, session: time.Minute}, now)
		}, 61 * time.Second, true}, // c is gone
		{func(time.Time) bool { l.drop("a"); l.rename("d", "e"); return true }, 61 * time.Second, true},
		{func(now time.Time) bool { return l.hold("f", half, now) }, 61 * time.Second, true},
		{func(time.Time) bool {
			l.rename("f", "e")
			l.rename("none", "b")
			l.drop("none")
			return l.bytes == half.bytes+1
		}, 61 * time.Second, true},
	} {
		if got := step.do(start.Add(step.at)); got != step.want {
			t.Errorf("step %d: %v, want %v; %d bytes", i, got, step.want, l.bytes)
		}
	}
}

// TestRefusedHoldNothing: what a member said that is not let in is not kept from others.
func TestRefusedHoldNothing(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", 0, "orders")) // there is such a group
	before := o.members.bytes
	nobody := beat("g", "nobody", 5)
	nobody.SubscribedTopicRegex = kmsg.StringPtr("(?:abcdefghijklmnopqrs){900}")
	if code := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, nobody).ErrorCode; code != unknownMemberID {
		t.Errorf("code %d", code)
	}
	join := joinOf("classic", "nobody")
	join.Protocols[0].Metadata = append(join.Protocols[0].Metadata, make([]byte, 1<<20)...)
	if code := do[*kmsg.JoinGroupResponse](t, s, join).ErrorCode; code != unknownMemberID {
		t.Errorf("code %d", code)
	}
	if o.members.bytes != before {
		t.Errorf("%d bytes are held, and were %d", o.members.bytes, before)
	}
}

// TestWaitsThatWereLeftAreCounted: what a member asked with that waits in SyncGroup is held as long as it waits, also when its client went.
func TestWaitsThatWereLeftAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		leads, dies := o.connect(t), o.connect(t)
		a := <-asking[*kmsg.JoinGroupResponse](t.Context(), leads, patientJoin(""))
		joining := asking[*kmsg.JoinGroupResponse](t.Context(), dies, patientJoin(""))
		a, b := <-asking[*kmsg.JoinGroupResponse](t.Context(), leads, patientJoin(a.MemberID)), <-joining
		before := o.members.bytes
		sync := syncOf(b)
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: b.MemberID, MemberAssignment: make([]byte, 1<<20)}}
		ctx, kill := context.WithCancel(t.Context())
		dead := asking[*kmsg.SyncGroupResponse](ctx, dies, sync)
		kill()
		<-dead
		if held := o.members.bytes - before; held < 3<<20 { // and once as what the leader may have assigned
			t.Errorf("%d bytes are held while it waits", held)
		}
		<-asking[*kmsg.SyncGroupResponse](t.Context(), leads, syncOf(a))
		synctest.Wait()
		if held := o.members.bytes - before; held > 64<<10 {
			t.Errorf("%d bytes are held behind it", held)
		}
	})
}

// TestTooMuchFromMembers: a member too many is refused in words; those that are in go on, and there is room when they leave.
func TestTooMuchFromMembers(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	large := joinOf("g", "")
	large.Protocols[0].Metadata = append(large.Protocols[0].Metadata, make([]byte, 20<<20)...)
	var ids []string
	for i := range 3 {
		large.Group, large.MemberID = fmt.Sprint("g", i), ""
		resp := do[*kmsg.JoinGroupResponse](t, s, large)
		large.MemberID = resp.MemberID
		if resp = do[*kmsg.JoinGroupResponse](t, s, large); resp.ErrorCode != 0 {
			t.Fatalf("%d: %+v", i, resp)
		}
		ids = append(ids, resp.MemberID)
	}
	large.Group, large.MemberID = "one more", ""
	if resp := do[*kmsg.JoinGroupResponse](t, s, large); resp.ErrorCode != policyViolation {
		t.Errorf("%+v", resp)
	}
	next := beat("k", "m", 0, "orders")
	if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, next); resp.ErrorCode != 0 {
		t.Errorf("a small one: %+v", resp)
	}
	leave := newest(kmsg.NewPtrLeaveGroupRequest())
	leave.Group, leave.Members = "g0", []kmsg.LeaveGroupRequestMember{{MemberID: ids[0]}}
	do[*kmsg.LeaveGroupResponse](t, s, leave)
	if resp := do[*kmsg.JoinGroupResponse](t, s, large); resp.ErrorCode != memberIDRequired {
		t.Errorf("%+v", resp)
	}
}

// TestLedgerIsEven: what members hold is let go of when all have left, whatever they did before.
func TestLedgerIsEven(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	for range 3 {
		member := joined(t, s, "g")
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: member.MemberID}}
		do[*kmsg.LeaveGroupResponse](t, s, leave)
		do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("k", "m", 0, "orders"))
		do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("k", "m", -1))
		given := beat("k", "", 0, "orders") // version 0: it is given an id
		given.Version = 0
		id := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, given).MemberID
		do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("k", *id, -1))
		refused := joinOf("g", "")
		refused.SessionTimeoutMillis = 1
		do[*kmsg.JoinGroupResponse](t, s, refused)
	}
	if o.members.bytes != 0 || len(o.members.held) != 0 {
		t.Errorf("%d bytes: %v", o.members.bytes, o.members.held)
	}
}

// TestPatternsAreCounted: a pattern counts as what it takes when it is compiled, as long as its member is in, whatever that
// says later: short ones that are long when they are written out would fill the memory else, 700 KB of 28 bytes each.
func TestPatternsAreCounted(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	q := beat("g", "m", 0, "orders")
	pattern := "(?:abcdefghijklmnopqrs){950}"
	q.SubscribedTopicRegex = &pattern
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q)
	if resp.ErrorCode != 0 || o.members.bytes < 700_000 {
		t.Fatalf("%d bytes; %+v", o.members.bytes, resp)
	}
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", resp.MemberEpoch, "payments"))
	if o.members.bytes < 700_000 {
		t.Errorf("%d bytes, once it said something else", o.members.bytes)
	}
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", -1))
	if o.members.bytes != 0 {
		t.Errorf("%d bytes, once it left", o.members.bytes)
	}
}
