package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/abi"
)

// Defaults of the reader pool: Kafka's remote.log.reader.threads and remote.log.reader.max.pending.tasks.
const (
	DefaultThreads = 10
	DefaultPending = 100
)

// pool bounds how many remote reads run and how many wait. A full queue delays its callers until their deadline, where
// Kafka answers them with UNKNOWN_SERVER_ERROR.
type pool struct {
	queue chan struct{} // a token for each that runs or waits in turn
	slots chan struct{} // a token for each that runs
}

func newPool(threads, pending int) *pool {
	if threads <= 0 {
		threads = DefaultThreads
	}
	if pending <= 0 {
		pending = DefaultPending
	}
	return &pool{queue: make(chan struct{}, threads+pending), slots: make(chan struct{}, threads)}
}

// do runs fn when its turn comes. An error is DEADLINE or CANCELLED, and fn did not run.
func (p *pool) do(ctx context.Context, fn func()) error {
	if err := enter(ctx, p.queue, "the reader queue is full"); err != nil {
		return err
	}
	defer func() { <-p.queue }()
	if err := enter(ctx, p.slots, "all remote readers are busy"); err != nil {
		return err
	}
	defer func() { <-p.slots }()
	fn()
	return nil
}

func enter(ctx context.Context, c chan struct{}, why string) error {
	select {
	case c <- struct{}{}:
		return nil
	default:
	}
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return abi.Errorf("remote read", "", abi.KindOf(ctx.Err()), "%s: %w", why, context.Cause(ctx))
	}
}
