package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestHeartbeatComesBetween: a member of KIP-848 that joins after a member of the classic protocol looked at the group, and
// before that joins, has the group alone.
func TestHeartbeatComesBetween(t *testing.T) {
	for name, of := range map[string]struct {
		before func(*testing.T, *Session)
		last   kmsg.Key // what a look ends with
	}{
		"nobody was in":            {func(*testing.T, *Session) {}, kmsg.DescribeGroups},
		"there were offsets alone": {func(t *testing.T, s *Session) { mustCommit(t, s, commitOf("g", orders, 0, 1)) }, kmsg.DescribeGroups},
		"members of KIP-848 were":  {func(t *testing.T, s *Session) { comesAndGoes(t, s) }, kmsg.OffsetCommit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := open(t, "")
				classic, next := o.connect(t), o.connect(t)
				of.before(t, next)
				o.inner.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) { // it sees what is let in
					t.Error("the member of the classic protocol is let in")
					return nil, nil, false
				})
				o.inner.ControlKey(int16(of.last), func(kmsg.Request) (kmsg.Response, error, bool) {
					o.inner.DropControl()
					o.inner.SleepControl(func() {
						if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, next, beat("g", "m", epochJoins, "orders")); resp.ErrorCode != 0 {
							t.Errorf("%+v", resp)
						}
					})
					return nil, nil, false
				})
				if resp := do[*kmsg.JoinGroupResponse](t, classic, joinOf("g", "")); resp.ErrorCode != inconsistentGroupProtocol {
					t.Errorf("code %d", resp.ErrorCode)
				}
				if n := len(o.kinds.joins); n != 0 {
					t.Errorf("%d joins are left", n)
				}
			})
		})
	}
}

// comesAndGoes is a member of KIP-848.
func comesAndGoes(t *testing.T, s *Session) {
	t.Helper()
	for _, epoch := range []int32{epochJoins, epochGoes} {
		if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", epoch, "orders")); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
	}
}

// TestKindsMeet: members of both kinds come and go at once, and no group ever has both.
func TestKindsMeet(t *testing.T) {
	o := open(t, "")
	const P = 4
	var sessions [2 * P]*Session
	for i := range sessions {
		sessions[i] = o.connect(t)
	}
	hammer.Run(t, 2*P, 50, func(p, n int) {
		s, group := sessions[p], fmt.Sprint("g", n%3)
		if p >= P {
			for _, epoch := range []int32{epochJoins, epochGoes} {
				do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat(group, fmt.Sprint("next", p), epoch, "orders"))
				oneKind(t, o, group)
			}
			return
		}
		q := joinOf(group, "")
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 6000, 1
		for range 2 {
			q.MemberID = do[*kmsg.JoinGroupResponse](t, s, q).MemberID
			oneKind(t, o, group)
		}
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = group, []kmsg.LeaveGroupRequestMember{{MemberID: q.MemberID}}
		do[*kmsg.LeaveGroupResponse](t, s, leave)
	})
}

// oneKind fails the test where a group has members of both kinds.
func oneKind(t *testing.T, o *opened, group string) {
	t.Helper()
	kinds := map[bool]int{}
	if is := o.inner.GroupInfo(group); is != nil {
		for _, m := range is.Members {
			kinds[strings.HasPrefix(m.MemberID, "next")]++
		}
	}
	if len(kinds) > 1 {
		t.Errorf("%s has %d members of KIP-848 and %d of the classic protocol", group, kinds[true], kinds[false])
	}
}
