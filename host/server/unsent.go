package server

import (
	"sync"
	"time"
)

// stallTime is how long a client may take nothing of its answer while others wait for the memory.
const stallTime = 2 * time.Second

// unsent bounds the bytes of answers that clients have not taken yet, of all connections together. Where there are more,
// the client that has taken nothing for the longest time loses its connection: slow ones must neither take all memory nor
// keep it from others. One answer alone is never too much.
type unsent struct {
	max int64
	now func() time.Time

	mu    sync.Mutex // guards what follows
	total int64      // without those that lost their connection
	of    map[*conn]*pending
}

// pending is an answer on its way.
type pending struct {
	bytes int64
	since time.Time // something was taken last, or it began
	shed  bool
}

func newUnsent(max int64) *unsent { return &unsent{max: max, now: time.Now, of: map[*conn]*pending{}} }

// add counts an answer of c, and gives the connections that are to be closed for it.
func (u *unsent) add(c *conn, bytes int64) (slow []*conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[c] = &pending{bytes: bytes, since: u.now()}
	u.total += bytes
	for u.total > u.max {
		slowest := u.slowestLocked(c)
		if slowest == nil {
			break
		}
		u.shedLocked(slowest)
		slow = append(slow, slowest)
	}
	return slow
}

// stalled gives the connections to be closed where others wait for n bytes of memory: those whose clients have taken nothing
// for a while, the slowest first. Where they hold less than that, next is the time until there may be another one; 0: there
// is none.
func (u *unsent) stalled(n int64) (slow []*conn, next time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n > 0 {
		slowest := u.slowestLocked(nil)
		if slowest == nil {
			break
		}
		if left := stallTime - u.now().Sub(u.of[slowest].since); left > 0 {
			return slow, left
		}
		n -= u.of[slowest].bytes
		u.shedLocked(slowest)
		slow = append(slow, slowest)
	}
	return slow, 0
}

// slowestLocked is the connection whose client has taken nothing for the longest time, but for one; nil: there is none.
func (u *unsent) slowestLocked(but *conn) (slowest *conn) {
	for c, p := range u.of {
		if c != but && !p.shed && p.bytes > 0 && (slowest == nil || p.since.Before(u.of[slowest].since)) {
			slowest = c
		}
	}
	return slowest
}

func (u *unsent) shedLocked(c *conn) {
	u.of[c].shed = true
	u.total -= u.of[c].bytes
}

// took notes that c's client takes its answer.
func (u *unsent) took(c *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[c].since = u.now()
}

// remove ends c's answer, and reports whether it lost its connection.
func (u *unsent) remove(c *conn) (shed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.of[c]
	delete(u.of, c)
	if !p.shed {
		u.total -= p.bytes
	}
	return p.shed
}

// bytes is what clients have not taken.
func (u *unsent) bytes() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total
}
