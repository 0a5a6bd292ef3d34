package reader

import (
	"context"
	"time"

	"github.com/rsmhost/rsmhost/host/budget"
)

// memory is where a read gets its buffers from: the lease of its request. A remote read that has to wait for bytes lets
// another one run meanwhile: what it waits for may be held by a request that waits for a reader.
type memory struct {
	lease *budget.Lease
	pool  *pool          // nil: the read has no place in it
	away  *time.Duration // that it was out of the pool; nil with pool
}

func (m memory) get(ctx context.Context, n int) (b *budget.Buffer, err error) {
	if b = m.lease.TryGet(n); b != nil {
		return b, nil
	}
	if m.pool == nil {
		return m.lease.Get(ctx, n)
	}
	began := time.Now()
	m.pool.aside(ctx, func() { b, err = m.lease.Get(ctx, n) })
	*m.away += time.Since(began)
	return b, err
}

func (m memory) grow(ctx context.Context, b *budget.Buffer, n int) (*budget.Buffer, error) {
	return b.Grow(n, func(n int) (*budget.Buffer, error) { return m.get(ctx, n) })
}

// aside runs fn, which waits for something else than the store, outside of the pool, for one that has a place in it and
// has it again afterwards. Where ctx ended it has the place at once, beyond the bound: it is about to leave.
func (p *pool) aside(ctx context.Context, fn func()) {
	p.leave()
	fn()
	if p.enter(ctx, "") == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
}
