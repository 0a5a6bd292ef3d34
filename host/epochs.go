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

// told is what the newest segment of a partition says of the log up to its end, where no local tier does.
type told struct {
	epochs []abi.LeaderEpoch // empty: there are none that can be used, or they were not asked for
	stable int64             // first offset of the oldest transaction without a marker in the remote tier; math.MaxInt64: all have one
}

// epochReader reads what segments tell from the store, apart from the requests that want them: one that gives up harms nobody
// else, and the next one finds what came. It is safe for concurrent use.
type epochReader struct {
	read func(ctx context.Context, seg *rlmm.Segment, epochs bool) (told, error)

	mu      sync.Mutex
	closed  bool
	running map[*epochLoad]context.CancelFunc
	wg      sync.WaitGroup
}

// epochLoad is one read on its way.
type epochLoad struct {
	done    chan struct{} // closed when it is over, and the rest is there
	lineage epoch.Lineage
	stable  int64
	err     error
}

// begin reads what seg tells, with epochs or without, and makes of what comes what then makes of it.
func (e *epochReader) begin(seg *rlmm.Segment, epochs bool, then func(*rlmm.Segment, told, error) (epoch.Lineage, int64, error)) *epochLoad {
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
		t, err := e.read(ctx, seg, epochs)
		l.lineage, l.stable, l.err = then(seg, t, err)
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
func (l *epochLoad) wait(ctx context.Context, subject string) (lineage epoch.Lineage, stable int64, err error) {
	select {
	case <-l.done: // also where ctx has ended
		return l.lineage, l.stable, l.err
	default:
	}
	select {
	case <-l.done:
		return l.lineage, l.stable, l.err
	case <-ctx.Done():
		return epoch.Lineage{}, 0, abi.Errorf("read leader epochs", subject, abi.KindOf(ctx.Err()), "they have not come from the store yet: %w", context.Cause(ctx))
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
