package host

import (
	"context"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// epochTimeout bounds a read of leader epochs from the store: it outlives the requests that wait for it.
const epochTimeout = time.Minute

// epochReader reads leader epochs from the store, apart from the requests that want them: one that gives up harms nobody
// else, and the next one finds what came. It is safe for concurrent use.
type epochReader struct {
	read func(ctx context.Context, seg *rlmm.Segment) ([]abi.LeaderEpoch, error)

	mu      sync.Mutex
	closed  bool
	running map[*epochLoad]context.CancelFunc
	wg      sync.WaitGroup
}

// epochLoad is one read on its way.
type epochLoad struct {
	done    chan struct{} // closed when it is over, and the rest is there
	lineage epoch.Lineage
	err     error
}

// begin reads the epochs of seg, and makes a lineage of what comes by then.
func (e *epochReader) begin(seg *rlmm.Segment, then func([]abi.LeaderEpoch, error) (epoch.Lineage, error)) *epochLoad {
	l := &epochLoad{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), epochTimeout)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		cancel()
	}
	if e.running == nil {
		e.running = map[*epochLoad]context.CancelFunc{}
	}
	e.running[l] = cancel
	e.wg.Go(func() {
		defer close(l.done)
		defer e.end(l)
		l.lineage, l.err = then(e.read(ctx, seg))
	})
	return l
}

func (e *epochReader) end(l *epochLoad) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[l]()
	delete(e.running, l)
}

// wait gives what l read. An error is the read's, or DEADLINE or CANCELLED: it goes on then.
func (l *epochLoad) wait(ctx context.Context, subject string) (epoch.Lineage, error) {
	select {
	case <-l.done:
		return l.lineage, l.err
	case <-ctx.Done():
		return epoch.Lineage{}, abi.Errorf("read leader epochs", subject, abi.KindOf(ctx.Err()), "they have not come from the store yet: %w", context.Cause(ctx))
	}
}

// close ends what runs and waits for it.
func (e *epochReader) close() error {
	e.mu.Lock()
	e.closed = true
	for _, cancel := range e.running {
		cancel()
	}
	e.mu.Unlock()
	e.wg.Wait()
	return nil
}
