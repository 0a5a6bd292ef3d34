package coordinator

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// beatEvery keeps the shortest session that there may be.
const beatEvery = sessionMin / 3

// keepIn keeps a member in while it waits in JoinGroup or SyncGroup, until stop is called. Its client can't send heartbeats
// then, and a broker needs none; kfake ends its session all the same, and never answers what it waits with.
func (c *Coordinator) keepIn(group, member string, instance *string, generation int32) (stop func()) {
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.InstanceID, beat.Generation = 3, group, member, instance, generation
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop, which waits for it
		defer close(ended)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-tick.C:
				_, _ = c.ask(beat) // what it says the wait's answer will say
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

// settleEvery is how often a static member that came back looks whether it may join.
const settleEvery = 100 * time.Millisecond

// settle waits while a group's members wait for what its leader assigns. A static member that came back then takes the
// place of one that waits: kfake takes that for one that joins, counts one too few from then on, and the rebalance lasts
// as long as it may. A broker needs no such wait; the leader mostly assigns in milliseconds.
func (s *Session) settle(ctx context.Context, client, group, instance string) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = 5, []string{group}
	for {
		resp, err := s.ask(ctx, client, q)
		if err != nil {
			return
		}
		is := resp.(*kmsg.DescribeGroupsResponse).Groups
		if len(is) != 1 || is[0].State != "CompletingRebalance" || !slices.ContainsFunc(is[0].Members, func(m kmsg.DescribeGroupsResponseGroupMember) bool {
			return m.InstanceID != nil && *m.InstanceID == instance
		}) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-s.c.draining:
			return
		}
	}
}
