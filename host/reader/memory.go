package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/host/budget"
)

// memory is where a read gets its buffers from: the lease of its request. A remote read that has to wait for bytes lets
// another one run meanwhile: what it waits for may be held by a request that waits for a reader.
type memory struct {
	lease *budget.Lease
	turn  *turn // nil: the read has no place in the pool
}

func (m memory) get(ctx context.Context, n int) (b *budget.Buffer, err error) {
	if b = m.lease.TryGet(n); b != nil {
		return b, nil
	}
	if m.turn == nil {
		return m.lease.Get(ctx, n)
	}
	m.turn.aside(ctx, func() { b, err = m.lease.Get(ctx, n) })
	return b, err
}

func (m memory) grow(ctx context.Context, b *budget.Buffer, n int) (*budget.Buffer, error) {
	return b.Grow(n, func(n int) (*budget.Buffer, error) { return m.get(ctx, n) })
}
