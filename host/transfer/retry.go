package transfer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

const (
	// maxTries is how often a store is asked for the same bytes, the first time included. Consumers ask again by themselves,
	// so this is for what passes within a request's wait.
	maxTries = 4
	// firstPause doubles with each further try: 25-50, 50-100, 100-200 ms.
	firstPause = 50 * time.Millisecond
)

// tries counts those of one read.
type tries struct {
	n       int
	corrupt bool
}

// again says whether what failed with err is to be tried once more, and waits before that as long as the store asked for,
// or a while that grows and differs between those that failed together. It does not wait where ctx would end meanwhile.
// Damaged bytes are asked for a second time, in case the way did it, and never a third.
func (t *tries) again(ctx context.Context, m *Mover, err error) bool {
	kind := abi.KindOf(err)
	if ctx.Err() != nil {
		return false
	}
	if kind == abi.Corrupt {
		first := !t.corrupt
		t.corrupt = true
		return first
	}
	if t.n++; !kind.Retriable() || t.n >= maxTries {
		return false
	}
	pause := firstPause << (t.n - 1)
	pause = pause/2 + rand.N(pause/2)
	if e := (*abi.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		pause = e.RetryAfter
	}
	if end, ok := ctx.Deadline(); ok && !m.now().Add(pause).Before(end) {
		return false
	}
	return m.sleep(ctx, pause) == nil
}

// sleep is Options.Sleep by the clock.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
