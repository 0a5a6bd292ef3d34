package coordinator

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// memberBytes is what a member takes beside what it says, generously.
const memberBytes = 2048

// ledger bounds what members make kfake keep: what they said when they joined, and what their leaders assigned. kfake lets
// go of it when a member leaves or its session ends, and so does the ledger.
type ledger struct {
	mu    sync.Mutex // guards what follows
	held  map[string]holding
	bytes int64
}

// holding is what one member holds.
type holding struct {
	bytes   int64
	session time.Duration // after the last that was heard of it
	until   time.Time
	in      int32  // the generation that it joined last; 0: none
	speaks  string // the protocol of that
	names   int64  // of bytes: the topics that it names
	pattern int64  // of bytes: the pattern that it named them by
	wish    *wish  // of a member of KIP-848; nil: none
}

// hold lets a member hold what it says, in place of what it held, or reports that there is no room.
func (l *ledger) hold(key string, h holding, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]holding{}
	}
	grows := h.bytes - l.held[key].bytes
	if l.bytes+grows > maxMemberData {
		l.expireLocked(now)
		grows = h.bytes - l.held[key].bytes
	}
	if grows > 0 && l.bytes+grows > maxMemberData {
		return false
	}
	h.until, h.in, h.speaks, h.wish = now.Add(h.session), l.held[key].in, l.held[key].speaks, l.held[key].wish
	l.held[key] = h
	l.bytes += grows
	return true
}

// expireLocked lets go of the members whose session ended.
func (l *ledger) expireLocked(now time.Time) {
	for key, h := range l.held {
		if h.until.Before(now) {
			l.bytes -= h.bytes
			delete(l.held, key)
		}
	}
}

// touch hears of a member.
func (l *ledger) touch(key string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[key]; ok {
		h.until = now.Add(h.session)
		l.held[key] = h
	}
}

// rename gives what is held under one key to another, with what that held before.
func (l *ledger) rename(key, to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.held[key]
	if !ok || key == to {
		return
	}
	l.bytes -= l.held[to].bytes
	delete(l.held, key)
	l.held[to] = h
}

// joined notes the generation that a member is in, and its protocol.
func (l *ledger) joined(key string, generation int32, speaks string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[key]; ok {
		h.in, h.speaks = generation, speaks
		l.held[key] = h
	}
}

// generation is the last that a member joined, if it did.
func (l *ledger) generation(key string) (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[key]
	return h.in, h.in > 0
}

// speak is the protocol of the last generation that one of some members joined; empty: none did.
func (l *ledger) speak(keys []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last holding
	for _, key := range keys {
		if h := l.held[key]; h.in > last.in {
			last = h
		}
	}
	return last.speaks
}

// wish is what a member subscribes to; nil: nobody knows.
func (l *ledger) wish(key string) *wish {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key].wish
}

// wishes notes what a member subscribes to.
func (l *ledger) wishes(key string, w *wish) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.held[key]; ok {
		h.wish = w
		l.held[key] = h
	}
}

// has reports a member that holds something.
func (l *ledger) has(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[key]
	return ok
}

// drop lets go of a member.
func (l *ledger) drop(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= l.held[key].bytes
	delete(l.held, key)
}

// Keys of the ledger: a member, what a group's leader assigned, and what a member that waits asked with.
func memberKey(group, member string) string { return "m" + group + "\x00" + member }
func groupKey(group string) string          { return "g" + group }
func waitKey(member string) string          { return "w" + member }

// timeout is one that a client gave, in milliseconds.
func timeout(ms int32) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }

// joins is what a JoinGroup holds.
func joins(client string, q *kmsg.JoinGroupRequest) holding {
	h := holding{bytes: memberBytes + int64(len(client)+len(q.Group)), session: timeout(q.SessionTimeoutMillis) + timeout(q.RebalanceTimeoutMillis)}
	for _, p := range q.Protocols {
		h.bytes += int64(len(p.Name) + len(p.Metadata))
	}
	return h
}

// beats is what a heartbeat of KIP-848 holds that says what it wants. What it leaves out stays as the member said it before;
// pattern is the bytes of the one that it names.
func (l *ledger) beats(key, client string, q *kmsg.ConsumerGroupHeartbeatRequest, pattern int64) holding {
	l.mu.Lock()
	h := holding{session: memberSession, names: l.held[key].names, pattern: l.held[key].pattern}
	l.mu.Unlock()
	if q.SubscribedTopicNames != nil {
		h.names = 0
	}
	for _, t := range q.SubscribedTopicNames {
		h.names += int64(len(t)) + 64
	}
	if q.SubscribedTopicRegex != nil {
		h.pattern = pattern
	}
	h.bytes = memberBytes + int64(len(client)+len(q.Group)) + h.names + h.pattern
	return h
}

// assigns is what a leader's SyncGroup holds.
func assigns(q *kmsg.SyncGroupRequest) holding {
	h := holding{bytes: memberBytes, session: sessionMax}
	for _, a := range q.GroupAssignment {
		h.bytes += int64(len(a.MemberID) + len(a.MemberAssignment))
	}
	return h
}

// hold holds what a member says, or gives the refusal.
func (c *Coordinator) hold(group, key string, h holding) (code int16, why string) {
	if c.members.hold(key, h, c.now()) {
		return 0, ""
	}
	err := abi.Errorf("join group", group, abi.Exhausted, "what members of groups said when they joined takes %d bytes, and no more is kept", maxMemberData)
	c.log.Warn("a member is refused", "error", err)
	return policyViolation, err.Error()
}
