package coordinator

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookAgain is how kfake's loop says here that a group is not any more what it was when somebody looked. No client sees it.
const lookAgain int16 = math.MinInt16

// inLoop has kfake ask fn before it handles a request; an answer of fn is the request's. kfake handles requests and runs fn in
// one goroutine, so that what fn sees of a group is so when the request is handled, but for what timers do: they let members
// go and end rebalances, and begin nothing. fn must not ask kfake by a request.
func (c *Coordinator) inLoop(key kmsg.Key, fn func(kmsg.Request) kmsg.Response) {
	c.inner.ControlKey(int16(key), func(q kmsg.Request) (kmsg.Response, error, bool) {
		c.inner.DropControl() // it would keep a request of each connection that ever was
		c.inLoop(key, fn)
		resp := fn(q)
		return resp, nil, resp != nil
	})
}

// watch has kfake ask about the requests for which it counts on something that only holds until another request comes.
func (c *Coordinator) watch() {
	c.inLoop(kmsg.ConsumerGroupHeartbeat, func(q kmsg.Request) kmsg.Response {
		c.kinds.beaten(q.(*kmsg.ConsumerGroupHeartbeatRequest).Group)
		return nil
	})
	c.inLoop(kmsg.JoinGroup, func(q kmsg.Request) kmsg.Response {
		join := q.(*kmsg.JoinGroupRequest)
		if may, stirs := c.mayStir(join); stirs && may || !stirs && c.kinds.mayJoin(join.Group) {
			return nil
		}
		return Refuse(q, lookAgain, "")
	})
	c.inLoop(kmsg.LeaveGroup, func(q kmsg.Request) kmsg.Response {
		if c.mayLeave(q.(*kmsg.LeaveGroupRequest)) {
			return nil
		}
		return Refuse(q, lookAgain, "")
	})
}
