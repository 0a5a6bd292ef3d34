package coordinator

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs by which a member of KIP-848 says what it does.
const (
	epochJoins int32 = 0
	epochGoes  int32 = -1
	epochAway  int32 = -2 // a static member, which may come back
)

// away are the static members of KIP-848 that went and may come back. A broker keeps what they were assigned until their
// session ends; kfake would keep it for ever, and nobody would read it.
type away struct {
	mu    sync.Mutex // held while members join, go and are let go: guards until
	until map[member]time.Time
}

type member struct{ group, id string }

// turn asks kfake what a heartbeat asks, by which a member comes or goes.
func (s *Session) turn(q *kmsg.ConsumerGroupHeartbeatRequest, do func() *kmsg.ConsumerGroupHeartbeatResponse) *kmsg.ConsumerGroupHeartbeatResponse {
	a := &s.c.away
	a.mu.Lock()
	defer a.mu.Unlock()
	resp := do()
	if q.MemberEpoch == epochAway && resp.ErrorCode == 0 {
		if a.until == nil {
			a.until = map[member]time.Time{}
		}
		a.until[member{q.Group, q.MemberID}] = s.c.now().Add(memberSession)
	}
	return resp
}

// letGo ends the sessions of those that did not come back.
func (c *Coordinator) letGo(now time.Time) error {
	c.away.mu.Lock()
	defer c.away.mu.Unlock()
	for m, until := range c.away.until {
		if until.After(now) {
			continue
		}
		if err := c.letGoLocked(m); err != nil {
			return err
		}
		delete(c.away.until, m)
	}
	return nil
}

// letGoLocked lets a member go that is still away: kfake knows its epoch.
func (c *Coordinator) letGoLocked(m member) error {
	look := kmsg.NewPtrConsumerGroupDescribeRequest()
	look.Groups = []string{m.group}
	resp, err := c.ask(look)
	if err != nil {
		return err
	}
	for _, g := range resp.(*kmsg.ConsumerGroupDescribeResponse).Groups {
		for _, is := range g.Members {
			if is.MemberID != m.id || is.MemberEpoch != epochAway {
				continue
			}
			q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			q.Group, q.MemberID, q.MemberEpoch = m.group, m.id, epochGoes
			if _, err := c.ask(q); err != nil {
				return err
			}
			c.members.drop(memberKey(m.group, m.id))
		}
	}
	return nil
}
