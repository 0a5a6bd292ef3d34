package coordinator

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// lookAtMost is how often a member looks at its group before it is told to try later: each time a heartbeat came between.
const lookAtMost = 10

// kinds keeps each group of kfake's of one kind. A heartbeat of KIP-848 makes a group without members one of KIP-848, and
// kfake lets members of the classic protocol into that all the same. Then it panics, in this process, where it counts those of
// one kind by what the others said. So makeClassic looks before a member joins, and kfake's loop tells here what came between.
//
// INVARIANT: a JoinGroup is handled only where its group was seen to be none of KIP-848 after the last heartbeat of that.
type kinds struct {
	mu    sync.Mutex // guards what follows; nothing else is locked while it is held
	joins map[string]*joining
}

// joining is a group that members of the classic protocol are about to join.
type joining struct {
	members int   // that hold it; with the last one it ends
	beats   int64 // heartbeats of KIP-848 since it is here
	looked  int64 // beats before the last look that found it none of KIP-848
}

// begin begins a join of a group, until end is called. A join that is under way inside after that is not let in.
func (k *kinds) begin(group string) (end func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.joins == nil {
		k.joins = map[string]*joining{}
	}
	j := k.joins[group]
	if j == nil {
		j = &joining{looked: -1}
		k.joins[group] = j
	}
	j.members++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if j.members--; j.members == 0 {
			delete(k.joins, group)
		}
	}
}

// look looks at a group that a join has begun of, and notes what it found unless it was the wrong kind.
func (k *kinds) look(group string, makeClassic func() int16) int16 {
	k.mu.Lock()
	j := k.joins[group]
	before := j.beats
	k.mu.Unlock()
	code := makeClassic()
	if code == 0 {
		k.mu.Lock()
		defer k.mu.Unlock()
		j.looked = max(j.looked, before)
	}
	return code
}

// beaten is told in kfake's loop, before it handles a heartbeat of KIP-848.
func (k *kinds) beaten(group string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if j := k.joins[group]; j != nil {
		j.beats++
	}
}

// mayJoin is asked in kfake's loop, before it handles a JoinGroup.
func (k *kinds) mayJoin(group string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	j := k.joins[group]
	return j != nil && j.looked == j.beats
}

// joinClassic joins a group that it has made one of the classic protocol, and does both again where that was for nothing.
func (s *Session) joinClassic(ctx context.Context, client string, q *kmsg.JoinGroupRequest) kmsg.Response {
	defer s.c.kinds.begin(q.Group)()
	for range lookAtMost {
		code := s.c.kinds.look(q.Group, func() int16 { return s.makeClassic(ctx, client, q.Group, q.ProtocolType) })
		if code != 0 {
			return Refuse(q, code, "")
		}
		if resp := s.joinMade(ctx, client, q); resp.ErrorCode != lookAgain {
			return resp
		}
	}
	return Refuse(q, coordinatorNotAvailable, "")
}
