package coordinator

import (
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
