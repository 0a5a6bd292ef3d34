package reader

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// Defaults of the reader pool: Kafka's remote.log.reader.threads and remote.log.reader.max.pending.tasks.
const (
	DefaultThreads = 10
	DefaultPending = 100
)

// pool bounds how many remote reads run at once, and is fair between clients: a free reader goes to the clients in turn,
// and within a client in order of arrival. Where the queue is full its callers wait outside of it, in order of arrival,
// until their deadline; Kafka answers them with UNKNOWN_SERVER_ERROR.
//
//	caller -> outside (any number) -> queue (pending at most) -> running (threads at most)
type pool struct {
	mu      sync.Mutex
	threads int
	pending int
	running int
	queued  int
	clients map[string]*list.List // of *waiter in the queue, by client; none is empty
	turn    *list.List            // of client ids that have somebody in the queue, whose turn it is next in front
	outside *list.List            // of *waiter
	pace    pace                  // of what leaves the queue
	paused  bool                  // until a timer goes on with it
}

// waiter is one read that waits. Its fields but ready are guarded by pool.mu.
type waiter struct {
	client  string
	ready   chan struct{} // closed when it may run
	granted bool
	at      *list.Element // in its client's list, or outside
	queued  bool
}

func newPool(threads, pending int) *pool {
	p := &pool{clients: map[string]*list.List{}, turn: list.New(), outside: list.New()}
	p.resize(threads, pending)
	return p
}

// resize changes the bounds; 0 is the default. What runs goes on, and who may run now begins.
func (p *pool) resize(threads, pending int) {
	if threads <= 0 {
		threads = DefaultThreads
	}
	if pending <= 0 {
		pending = DefaultPending
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.threads, p.pending = threads, pending
	p.grantLocked()
}

// PoolStats says how busy the readers are.
type PoolStats struct {
	Threads int
	Running int
	Queued  int // in the queue
	Outside int // waiting to be let into it
}

func (p *pool) stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PoolStats{Threads: p.threads, Running: p.running, Queued: p.queued, Outside: p.outside.Len()}
}

// do runs fn when its turn comes. An error is DEADLINE or CANCELLED, and fn did not run.
func (p *pool) do(ctx context.Context, client string, fn func(*turn)) error {
	if err := p.enter(ctx, client); err != nil {
		return err
	}
	defer p.leave()
	fn(&turn{pool: p, began: time.Now()})
	return nil
}

func (p *pool) enter(ctx context.Context, client string) error {
	p.mu.Lock()
	if p.running < p.threads && p.queued == 0 {
		p.running++
		p.mu.Unlock()
		return nil
	}
	w := &waiter{client: client, ready: make(chan struct{})}
	if p.queued < p.pending {
		p.enqueueLocked(w)
	} else {
		w.at = p.outside.PushBack(w)
	}
	p.grantLocked()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.giveUp(w)
	return abi.Errorf("remote read", "", abi.KindOf(ctx.Err()), "all remote readers were busy: %w", context.Cause(ctx))
}

// giveUp takes a waiter out. One that was granted its turn at the same moment passes it on.
func (p *pool) giveUp(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case w.granted:
		p.running--
	case w.queued:
		p.dequeueLocked(w)
	default:
		p.outside.Remove(w.at)
	}
	p.grantLocked()
}

func (p *pool) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.grantLocked()
}

// overtake takes a place beyond the bound.
func (p *pool) overtake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
}

// took takes note of how long a read was at work.
func (p *pool) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace.ended(d)
}

func (p *pool) enqueueLocked(w *waiter) {
	q, ok := p.clients[w.client]
	if !ok {
		q = list.New()
		p.clients[w.client] = q
		p.turn.PushBack(w.client)
	}
	w.at, w.queued = q.PushBack(w), true
	p.queued++
}

func (p *pool) dequeueLocked(w *waiter) {
	q := p.clients[w.client]
	q.Remove(w.at)
	w.queued = false
	p.queued--
	if q.Len() > 0 {
		return
	}
	delete(p.clients, w.client)
	for e := p.turn.Front(); e != nil; e = e.Next() {
		if e.Value == w.client {
			p.turn.Remove(e)
			return
		}
	}
}

// grantLocked lets run who may, at their pace: the first of the client whose turn it is, which then goes to the end of the
// line.
func (p *pool) grantLocked() {
	for p.admitLocked(); p.running < p.threads && p.turn.Len() > 0; p.admitLocked() {
		now := time.Now()
		if wait := p.pace.wait(now); wait > 0 {
			p.pauseLocked(wait)
			return
		}
		p.pace.began(now, p.threads)
		front := p.turn.Front()
		w := p.clients[front.Value.(string)].Front().Value.(*waiter)
		p.turn.MoveToBack(front)
		p.dequeueLocked(w)
		w.granted = true
		p.running++
		close(w.ready)
	}
}

// pauseLocked goes on with granting after d. The timer holds nothing that must be waited for: of a pool that nobody uses it
// finds nobody to grant.
func (p *pool) pauseLocked(d time.Duration) {
	if p.paused {
		return
	}
	p.paused = true
	time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.paused = false
		p.grantLocked()
	})
}

// admitLocked fills the queue from outside.
func (p *pool) admitLocked() {
	for p.queued < p.pending && p.outside.Len() > 0 {
		p.enqueueLocked(p.outside.Remove(p.outside.Front()).(*waiter))
	}
}
