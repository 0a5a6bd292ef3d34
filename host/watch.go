package host

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/tally"
	"github.com/rsmhost/rsmhost/host/trace"
)

// slowEvery is how often a slow read is logged at most: where all are slow, a line tells as much as a thousand.
const slowEvery = time.Second

// watch counts the steps of all reads, and logs those that were slow.
type watch struct {
	log   *slog.Logger
	slow  atomic.Int64 // a Duration; 0: none is slow
	found atomic.Int64 // slow reads
	steps map[string]*tally.Histogram

	mu     sync.Mutex // guards what follows
	last   time.Time  // a slow read was logged
	untold int        // slow reads since
}

func (w *watch) begin(log *slog.Logger, slow time.Duration) {
	w.log, w.steps = log, map[string]*tally.Histogram{}
	w.slow.Store(int64(slow))
	for _, name := range trace.Names {
		w.steps[name] = &tally.Histogram{}
	}
}

// read takes note of one partition's read.
func (w *watch) read(r reader.Watched) {
	for i := range r.Steps {
		if h := w.steps[r.Steps[i].Name]; h != nil {
			h.Observe(r.Steps[i].Took)
		}
	}
	slow, took := time.Duration(w.slow.Load()), longest(r.Steps)
	if slow <= 0 || took < slow {
		return
	}
	w.found.Add(1)
	untold, tell := w.turn(time.Now())
	if !tell {
		return
	}
	a := r.Answer
	w.log.Warn("slow read", "request", r.Request.ID, "client", r.Request.ClientID, "partition", fmt.Sprintf("%s-%d", a.Topic, a.Partition),
		"offset", r.Asked.Offset, "ms", took.Milliseconds(), "code", a.Code.String(), "bytes", a.Size(), "late", a.Late,
		"steps", trace.Line(r.Steps), "untold", untold)
}

// turn says whether a slow read is logged now, and how many were not since the last one that was.
func (w *watch) turn(now time.Time) (untold int, tell bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.IsZero() && now.Sub(w.last) < slowEvery {
		w.untold++
		return 0, false
	}
	untold, w.untold, w.last = w.untold, 0, now
	return untold, true
}

// longest is how long a read took: from its request to its answer, or its longest step, which an earlier request may have
// begun.
func longest(steps []trace.Brief) time.Duration {
	var d time.Duration
	for i := range steps {
		d = max(d, steps[i].Took)
	}
	return d
}

// durations gives what was counted, by step.
func (w *watch) durations() map[string]tally.Durations {
	out := map[string]tally.Durations{}
	for name, h := range w.steps {
		out[name] = h.Durations()
	}
	return out
}
