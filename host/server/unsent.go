package server

import (
	"sync"
	"time"
)

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
func (u *unsent) add(c *conn, bytes int) (slow []*conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[c] = &pending{bytes: int64(bytes), since: u.now()}
	u.total += int64(bytes)
	for u.total > u.max {
		var slowest *conn
		for other, p := range u.of {
			if other != c && !p.shed && (slowest == nil || p.since.Before(u.of[slowest].since)) {
				slowest = other
			}
		}
		if slowest == nil {
			break
		}
		u.of[slowest].shed = true
		u.total -= u.of[slowest].bytes
		slow = append(slow, slowest)
	}
	return slow
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
