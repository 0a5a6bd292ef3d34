package budget

import (
	"context"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
)

// Share is a part of a Pool for one purpose: what is not read into buffers, and must be bounded before it is there. Who asks
// for more than is left waits in the order of asking. What a Share hands out is in use for the Pool too, at once: the Share is
// the bound, and leases come when the Pool has room again. So nobody who holds bytes of a Share waits for another one's lease
// without end.
type Share struct {
	pool *Pool
	size int64 // 0: no bound

	mu    sync.Mutex // guards what follows
	used  int64
	peak  int64
	queue []*sharer
	short chan struct{} // closed while somebody waits
}

// sharer is one that waits for n bytes of a Share.
type sharer struct {
	n     int64
	ready chan struct{} // closed when it has them
}

// Share makes a Share of n bytes; 0 or less: it counts, and bounds nothing.
func (p *Pool) Share(n int64) *Share {
	return &Share{pool: p, size: max(0, n), short: make(chan struct{})}
}

// Held is bytes of a Share that somebody has. It is for one goroutine at a time; nil holds nothing.
type Held struct {
	share *Share
	n     int64
}

// Try takes n bytes if they need not be waited for, and is nil elsewhere. More than the Share's size is its size: such a one is
// alone.
func (s *Share) Try(n int64) *Held {
	h := s.try(s.clamp(n))
	s.pool.giveWay()
	return h
}

func (s *Share) try(n int64) *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || !s.fitsLocked(n) {
		return nil
	}
	s.takeLocked(n)
	return &Held{s, n}
}

// Take is Try that waits. An error is DEADLINE or CANCELLED, and nothing was taken.
func (s *Share) Take(ctx context.Context, n int64) (*Held, error) {
	if h := s.Try(n); h != nil {
		return h, nil
	}
	n = s.clamp(n)
	w := &sharer{n, make(chan struct{})}
	s.mu.Lock()
	if s.queue = append(s.queue, w); len(s.queue) == 1 {
		close(s.short)
	}
	s.serveLocked() // what was given back since
	s.mu.Unlock()
	select {
	case <-w.ready:
		s.pool.giveWay()
		return &Held{s, n}, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.queue {
		if other == w {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.easedLocked()
			s.serveLocked() // those behind it may need less
			return nil, abi.Errorf("wait for memory", "memory.max", abi.KindOf(ctx.Err()), "%d bytes are wanted, and %d of %d are in use: %w",
				n, s.used, s.size, context.Cause(ctx))
		}
	}
	return &Held{s, n}, nil // served at the same moment
}

// Short gives a channel that is closed while somebody waits: who holds bytes for later gives them back then.
func (s *Share) Short() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.short
}

// Wanted is the number of bytes that are waited for now.
func (s *Share) Wanted() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.queue {
		n += w.n
	}
	return n
}

// InUse is the number of bytes that are held now; peak is the most that it has been.
func (s *Share) InUse() (now, peak int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.peak
}

// Size is the number of bytes that may be held at once; 0: any.
func (s *Share) Size() int64 { return s.size }

// With gives what h and more hold together; neither is used any more. They are of one Share.
func (h *Held) With(more *Held) *Held {
	if h == nil {
		return more
	}
	return &Held{h.share, h.n + more.n}
}

// Keep gives back what is above n bytes. It takes nothing where there is less.
func (h *Held) Keep(n int64) {
	if h == nil || h.n <= n {
		return
	}
	h.share.give(h.n - n)
	h.n = n
}

// Give gives back all. Once more is none.
func (h *Held) Give() { h.Keep(0) }

func (s *Share) clamp(n int64) int64 {
	if n = max(0, n); s.size > 0 {
		n = min(n, s.size)
	}
	return n
}

func (s *Share) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	s.pool.count(-n)
	s.serveLocked()
}

func (s *Share) fitsLocked(n int64) bool { return s.size == 0 || s.used+n <= s.size }

func (s *Share) takeLocked(n int64) {
	s.used += n
	s.peak = max(s.peak, s.used)
	s.pool.count(n)
}

// serveLocked gives to those who wait what they can have now, in their order.
func (s *Share) serveLocked() {
	for len(s.queue) > 0 && s.fitsLocked(s.queue[0].n) {
		s.takeLocked(s.queue[0].n)
		close(s.queue[0].ready)
		s.queue = s.queue[1:]
		s.easedLocked()
	}
}

// easedLocked opens a new channel where nobody waits any more.
func (s *Share) easedLocked() {
	if len(s.queue) == 0 {
		s.short = make(chan struct{})
	}
}
