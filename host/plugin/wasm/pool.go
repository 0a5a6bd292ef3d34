package wasm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// streamsPerInstance says how many more instances there may be for calls that stream: those wait for their readers most
// of the time, and would keep the others from planning.
const streamsPerInstance = 3

// spareAge is how long an instance beyond the usual number is kept. Making another takes a Go guest 5 to 12 ms.
const spareAge = 10 * time.Second

// pool bounds the instances of a plugin and keeps those that are not in use. A call holds a place from before it leases
// an instance until it has given it back, so there are never more instances than places.
type pool struct {
	places    chan struct{} // one in it for every call that runs or could become a stream
	streams   chan struct{} // one in it for every call that streams
	maxQueued int64
	queued    atomic.Int64

	mu   sync.Mutex
	idle []*instance
}

func newPool(instances, maxQueued int) *pool {
	return &pool{
		places:    make(chan struct{}, instances),
		streams:   make(chan struct{}, instances*streamsPerInstance),
		maxQueued: int64(maxQueued),
	}
}

// place is what a call occupies. It is given back once.
type place struct{ in chan struct{} }

func (p *place) leave() { <-p.in }

// enter waits for a place. The error is EXHAUSTED where the queue is full, else what ended the context.
func (p *pool) enter(ctx context.Context) (*place, error) {
	select {
	case p.places <- struct{}{}:
		return &place{p.places}, nil
	default:
	}
	defer p.queued.Add(-1)
	if p.queued.Add(1) > p.maxQueued {
		return nil, abi.E("", "", abi.Exhausted, abi.Text("all instances are busy and the queue is full"))
	}
	select {
	case p.places <- struct{}{}:
		return &place{p.places}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// toStream moves a call to the places of streams where there is one. Else it stays, and holds up others: that is the bound.
func (p *pool) toStream(at *place) {
	select {
	case p.streams <- struct{}{}:
		at.leave()
		at.in = p.streams
	default:
	}
}

// take gives an idle instance, the one that was used last: its memory is warm, and those that a burst left behind stay at
// the other end. nil: there is none.
func (p *pool) take() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	i := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return i
}

// put keeps an instance for the next call, and gives those that are to be closed: what a burst of streams left behind goes
// when it was not needed for spareAge, one with each call.
func (p *pool) put(i *instance, now time.Time) (spare []*instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i.used = now
	p.idle = append(p.idle, i)
	if oldest := p.idle[0]; len(p.idle) > cap(p.places) && now.Sub(oldest.used) > spareAge {
		p.idle = append(p.idle[:0], p.idle[1:]...)
		spare = append(spare, oldest)
	}
	return spare
}
