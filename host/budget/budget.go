// Package budget bounds the bytes that reads and caches hold, all together, and hands out the buffers that reads are made
// into: a fresh 1 MiB slice costs as much as reading it (measured: 98 us against 53-65 us).
//
// # Waiting
//
// Whoever asks for a buffer when the budget is full waits until others gave theirs back, in the order of asking, or until
// its context ends. What one request holds is one Lease, because it is let go of together. A lease that holds bytes
// already comes before those that hold none, the oldest first. Two things go over the limit, so that nothing stands still:
// a lease when no other holds anything, and the oldest lease when every other that holds bytes waits for more. So the
// budget is exceeded by what one request needs, at most.
//
//	limit  |################ leases ################|## caches ##|  free  |
//
// What a cache holds is counted too. A cache never waits, and is asked to give back when a lease would have to.
//
// # Concurrency
//
// A Pool is safe for concurrent use, and so is a Lease; a Buffer belongs to whoever got it. Lock order: a Share's lock, then the
// Pool's, which comes last. It is not held while a cache is asked to shrink.
package budget

import (
	"context"
	"slices"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
)

// Pool is the budget and the buffers. The zero value has no limit.
type Pool struct {
	spare spare

	mu      sync.Mutex
	limit   int64 // 0: none
	used    int64 // by leases and by caches
	peak    int64 // the most that used was
	holders int   // leases that hold bytes
	blocked int   // those of them that wait for more
	born    int64 // leases so far
	queue   []*waiter
	caches  []func(n int64)
}

// waiter is one that waits for n bytes.
type waiter struct {
	lease *Lease
	n     int64
	ready chan struct{} // closed when it has them
}

// Lease is what one request holds. It needs no end: it is over when all its buffers are released.
type Lease struct {
	pool  *Pool
	cache bool // nobody waits for what it holds

	// Under the pool's lock.
	held    int64
	waiting int
	born    int64 // 0: it never asked
}

// New makes a Pool of limit bytes; 0 or less: no limit.
func New(limit int64) *Pool { return &Pool{limit: max(0, limit)} }

// Limit is the number of bytes that may be in use; 0: any.
func (p *Pool) Limit() int64 { return p.limit }

// InUse is the number of bytes that are handed out and reserved now.
func (p *Pool) InUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Peak is the most that InUse has been.
func (p *Pool) Peak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// Wanted is the number of bytes that are waited for now.
func (p *Pool) Wanted() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.queue {
		n += w.n
	}
	return n
}

// Lease begins a request's lease, which holds nothing yet.
func (p *Pool) Lease() *Lease { return &Lease{pool: p} }

// Extra begins a lease for what is good to have: only its TryGet may be used, and it gets nothing that others wait for.
func (p *Pool) Extra() *Lease { return &Lease{pool: p, cache: true} }

// OnShortage has shrink called when bytes are short: it gives back n that its cache reserved, or what it has, by Unreserve
// and before it returns. It may be called by any reader, and while the cache is used.
func (p *Pool) OnShortage(shrink func(n int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.caches = append(p.caches, shrink)
}

// Reserve counts n bytes that a cache wants to keep. It never waits: false means that there is no room.
func (p *Pool) Reserve(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit > 0 && (p.used+n > p.limit || len(p.queue) > 0) {
		return false
	}
	p.addLocked(n)
	return true
}

// Unreserve gives back n bytes that were reserved.
func (p *Pool) Unreserve(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addLocked(-n)
	p.serveLocked()
}

// count counts n bytes that a Share hands out, or -n that it has again. Leases and caches see them as in use.
func (p *Pool) count(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.addLocked(n); n < 0 {
		p.serveLocked()
	}
}

// giveWay asks the caches for what is in use above the limit since a Share handed it out.
func (p *Pool) giveWay() {
	p.mu.Lock()
	over := p.used - p.limit
	p.mu.Unlock()
	if p.limit > 0 && over > 0 {
		p.shrink(over)
	}
}

// acquire takes n bytes for l. An error is DEADLINE or CANCELLED, and nothing was taken.
func (p *Pool) acquire(ctx context.Context, l *Lease, n int64) error {
	if p.take(l, n) {
		return nil
	}
	p.shrink(n)
	w := &waiter{lease: l, n: n, ready: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, w)
	p.changeLocked(l, 0, +1)
	p.serveLocked() // it may have been the last one that did not wait
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
		p.shrink(n) // what could be given since, by who did not see this one wait
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, w)
	if i < 0 { // served at the same moment
		return nil
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	p.changeLocked(l, 0, -1)
	p.serveLocked() // those behind it may need less
	return abi.Errorf("wait for memory", "memory.max", abi.KindOf(ctx.Err()), "%d bytes are wanted, and %d of %d are in use: %w",
		n, p.used, p.limit, context.Cause(ctx))
}

// take takes n bytes for l if it need not wait for them.
func (p *Pool) take(l *Lease, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.born == 0 {
		p.born++
		l.born = p.born
	}
	inTurn := len(p.queue) == 0 || l.held > 0 && !l.cache
	if p.limit > 0 && !(inTurn && p.used+n <= p.limit) {
		return false
	}
	p.changeLocked(l, n, 0)
	return true
}

// release gives back n bytes of l.
func (p *Pool) release(l *Lease, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(l, -n, 0)
	p.serveLocked()
}

// shrink asks the caches to give way to n bytes.
func (p *Pool) shrink(n int64) {
	p.mu.Lock()
	caches := p.caches
	p.mu.Unlock()
	for _, shrink := range caches {
		shrink(n)
	}
}

// serveLocked gives to those who wait what they can have now.
func (p *Pool) serveLocked() {
	for {
		w := p.nextLocked()
		if w == nil {
			return
		}
		i := slices.Index(p.queue, w)
		p.queue = slices.Delete(p.queue, i, i+1)
		p.changeLocked(w.lease, w.n, -1)
		close(w.ready)
	}
}

// nextLocked is the one whose turn it is, nil where that one must wait.
func (p *Pool) nextLocked() *waiter {
	if len(p.queue) == 0 {
		return nil
	}
	next := p.queue[0]
	for _, w := range p.queue {
		if w.lease.held > 0 && (next.lease.held == 0 || w.lease.born < next.lease.born) {
			next = w
		}
	}
	l := next.lease
	alone := p.holders == 0 || p.holders == 1 && l.held > 0
	stuck := l.held > 0 && p.blocked == p.holders
	if p.used+next.n <= p.limit || alone || stuck {
		return next
	}
	return nil
}

// changeLocked changes what l holds and how many of its readers wait.
func (p *Pool) changeLocked(l *Lease, bytes int64, waiting int) {
	p.countLocked(l, -1)
	l.held += bytes
	l.waiting += waiting
	p.addLocked(bytes)
	p.countLocked(l, +1)
}

func (p *Pool) countLocked(l *Lease, d int) {
	if l.held == 0 || l.cache {
		return
	}
	p.holders += d
	if l.waiting > 0 {
		p.blocked += d
	}
}

func (p *Pool) addLocked(n int64) {
	p.used += n
	p.peak = max(p.peak, p.used)
}
