package reader

import (
	"context"
	"time"
)

// turn is a read's place in the pool while it has one. It is of the read's goroutine.
type turn struct {
	pool  *pool
	began time.Time
	away  time.Duration // of the time since then: out of the pool
}

// aside runs fn, which waits for something else than the store, while another read has the place. Where ctx ended the read has
// its place again at once, beyond the bound: it is about to leave.
func (t *turn) aside(ctx context.Context, fn func()) {
	began := time.Now()
	t.pool.leave()
	fn()
	if t.pool.enter(ctx, "") != nil {
		t.pool.overtake()
	}
	t.away += time.Since(began)
}

// tell tells the pool how long a read of records was at work, by which it spaces them. Searches by time, which read a hundred
// times as much, do not tell.
func (t *turn) tell() { t.pool.took(time.Since(t.began) - t.away) }
