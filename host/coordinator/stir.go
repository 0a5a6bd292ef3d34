package coordinator

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaveWithin is how long members that leave wait for a group that can't be stirred.
const leaveWithin = 45 * time.Second

// completing is a group's state while its members wait in SyncGroup for what the leader assigns.
const completing = "CompletingRebalance"

// stirs are the members that join for a moment to end the waits in SyncGroup of others. kfake takes a member that leaves while it
// waits there for one that waits in JoinGroup: it never answers it, counts one too few of those that joined, and the rebalance
// of the others lasts as long as it may. A rebalance begun before answers those waits, and one that joins begins it.
type stirs struct {
	mu    sync.Mutex               // guards taken; nothing else is locked while it is held
	taken map[string]chan struct{} // by the instance that joins: closed in kfake's loop when it is handled next
}

// begin lets an instance join, until end is called.
func (s *stirs) begin(instance string) (taken <-chan struct{}, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken = map[string]chan struct{}{}
	}
	ch := make(chan struct{})
	s.taken[instance] = ch
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.taken, instance)
	}
}

// of gives what is closed when an instance is taken, if it is one that stirs.
func (s *stirs) of(instance *string) (chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if instance == nil {
		return nil, false
	}
	ch, ok := s.taken[*instance]
	return ch, ok
}

// mayStir is asked in kfake's loop, before it handles a JoinGroup: whether it is one that stirs, and whether there are waits
// that it would end.
func (c *Coordinator) mayStir(q *kmsg.JoinGroupRequest) (may, is bool) {
	taken, is := c.stirs.of(q.InstanceID)
	if !is {
		return false, false
	}
	if group := c.inner.GroupInfo(q.Group); group == nil || group.State != completing {
		return false, true
	}
	close(taken)
	return true, true
}

// mayLeave is asked in kfake's loop, before it handles a LeaveGroup. No member waits in SyncGroup but in that one state.
func (c *Coordinator) mayLeave(q *kmsg.LeaveGroupRequest) bool {
	group := c.inner.GroupInfo(q.Group)
	if group == nil || group.State != completing {
		return true
	}
	members := q.Members
	if q.Version < 3 {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: q.MemberID}}
	}
	for _, m := range members {
		if _, is := c.stirs.of(m.InstanceID); is {
			continue // it never waits there
		}
		for _, in := range group.Members {
			if m.InstanceID == nil && m.MemberID == in.MemberID || m.InstanceID != nil && in.InstanceID != nil && *m.InstanceID == *in.InstanceID {
				return false
			}
		}
	}
	return true
}

// leaveSettled lets members go, none of which waits in SyncGroup then.
func (s *Session) leaveSettled(ctx context.Context, client string, q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for end := s.c.now().Add(leaveWithin); ; {
		resp := s.forward(ctx, client, q).(*kmsg.LeaveGroupResponse)
		if resp.ErrorCode != lookAgain {
			return resp
		}
		if s.c.now().After(end) {
			return Refuse(q, coordinatorNotAvailable, "").(*kmsg.LeaveGroupResponse)
		}
		if s.c.stir(q.Group) {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Refuse(q, coordinatorNotAvailable, "").(*kmsg.LeaveGroupResponse)
		case <-s.c.draining:
			return Refuse(q, coordinatorNotAvailable, "").(*kmsg.LeaveGroupResponse)
		}
	}
}

// stir begins a rebalance of a group whose members wait in SyncGroup, which are answered REBALANCE_IN_PROGRESS. It reports
// false where it could not, as in a group that is full.
func (c *Coordinator) stir(group string) bool {
	q, ok := c.stirring(group)
	if !ok {
		return false
	}
	taken, end := c.stirs.begin(*q.InstanceID)
	defer end()
	l := c.newLink("")
	answered := make(chan struct{})
	go func() { // ends with its answer or with the link, for which this waits
		defer close(answered)
		_, _ = l.ask(context.Background(), nil, "rsmhost", q, nil)
	}()
	defer func() {
		l.close()
		<-answered
	}()
	select {
	case <-taken:
	case <-answered: // nobody waits any more, or it is not let in
		return false
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.Members = 5, group, []kmsg.LeaveGroupRequestMember{{InstanceID: q.InstanceID}}
	resp, err := c.ask(leave)
	if err != nil {
		return false
	}
	left := resp.(*kmsg.LeaveGroupResponse)
	return left.ErrorCode == 0 && !slices.ContainsFunc(left.Members, func(m kmsg.LeaveGroupResponseMember) bool { return m.ErrorCode != 0 })
}

// stirring is a JoinGroup that a group lets in: of the protocol that its members speak, and at once, as a static member's is.
func (c *Coordinator) stirring(group string) (*kmsg.JoinGroupRequest, bool) {
	look := kmsg.NewPtrDescribeGroupsRequest()
	look.Version, look.Groups = 5, []string{group}
	resp, err := c.ask(look)
	if err != nil {
		return nil, false
	}
	is := resp.(*kmsg.DescribeGroupsResponse).Groups
	if len(is) != 1 {
		return nil, false
	}
	keys := make([]string, 0, len(is[0].Members))
	for _, m := range is[0].Members {
		keys = append(keys, memberKey(group, m.MemberID))
	}
	speaks, instance := c.members.speak(keys), "rsmhost-"+rand.Text()
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.InstanceID, q.ProtocolType = 9, group, &instance, is[0].ProtocolType
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = int32(sessionMin.Milliseconds()), 1
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: speaks}}
	return q, speaks != ""
}
