// Package trace is the steps of a read as data: what was decided, on which evidence, and how long it took. Rendering is
// the caller's.
//
// # Concurrency
//
// A Trace belongs to one read of one partition and is not safe for concurrent use. All methods work on a nil *Trace and
// do nothing there, so that a read that nobody watches pays nothing.
package trace

import (
	"fmt"
	"time"
)

// Attr is one fact of a step under a stable name.
type Attr struct {
	Key   string
	Value any // a number, a string, a bool
}

// A makes an Attr.
func A(key string, value any) Attr { return Attr{key, value} }

// Step is one step that was taken.
type Step struct {
	Name    string        // locality, epoch, segment, index, position, source, transfer, batches, aborted, local, answer
	Outcome string        // one or two words: remote, miss, location
	Detail  string        // the evidence, for people
	Attrs   []Attr        // the evidence, for programs
	Start   time.Duration // since the trace began
	Took    time.Duration
	Err     error // why it failed; the last step of its trace then
}

// Trace collects steps in the order in which they ended.
type Trace struct {
	ID    string // of the request, as in log and errors
	began time.Time
	now   func() time.Time
	steps []Step

	brief  bool // briefs take the place of steps
	briefs []Brief
}

// New begins a trace. now is the clock; nil: time.Now.
func New(id string, now func() time.Time) *Trace {
	if now == nil {
		now = time.Now
	}
	return &Trace{ID: id, began: now(), now: now}
}

// On reports whether anybody watches all of it: ask before computing evidence that costs something.
func (t *Trace) On() bool { return t != nil && !t.brief }

// Fork gives a trace on the same clock for a part of the read that another goroutine does; nil stays nil.
func (t *Trace) Fork() *Trace {
	if t == nil {
		return nil
	}
	if t.brief {
		part := NewBrief(t.ID)
		part.began = t.began
		return part
	}
	return &Trace{ID: t.ID, began: t.began, now: t.now}
}

// Join appends the steps of a part that has ended. The part must not be used afterwards.
func (t *Trace) Join(part *Trace) {
	if part == nil {
		return
	}
	if t != nil {
		t.steps = append(t.steps, part.steps...)
		t.briefs = append(t.briefs, part.briefs...)
	}
	part.Free()
}

// Steps gives what was collected.
func (t *Trace) Steps() []Step {
	if t == nil {
		return nil
	}
	return t.steps
}

// Elapsed is the time since the trace began.
func (t *Trace) Elapsed() time.Duration {
	if t == nil {
		return 0
	}
	return t.now().Sub(t.began)
}

// Mark is a moment that a step began.
type Mark struct{ at time.Duration }

// Mark begins a step.
func (t *Trace) Mark() Mark { return Mark{t.Elapsed()} }

// Since is the time since m.
func (t *Trace) Since(m Mark) time.Duration { return t.Elapsed() - m.at }

// Add ends a step that began at m. detail is a format for people.
func (t *Trace) Add(m Mark, name, outcome string, attrs []Attr, detail string, args ...any) {
	if !t.On() {
		t.Brief(m, name, outcome, 0)
		return
	}
	t.steps = append(t.steps, Step{Name: name, Outcome: outcome, Detail: fmt.Sprintf(detail, args...), Attrs: attrs,
		Start: m.at, Took: t.Elapsed() - m.at})
}

// AddTook adds a step whose time was taken elsewhere, and that ends now.
func (t *Trace) AddTook(took time.Duration, name, outcome string, attrs []Attr, detail string, args ...any) {
	t.Add(Mark{t.Elapsed() - took}, name, outcome, attrs, detail, args...)
}

// Fail ends a step that began at m with an error, and gives the error back.
func (t *Trace) Fail(m Mark, name string, err error) error {
	if t != nil && t.brief {
		t.briefs = append(t.briefs, Brief{Name: name, Outcome: "failed", Start: m.at, Took: t.Elapsed() - m.at, Err: err})
	}
	if t.On() {
		t.steps = append(t.steps, Step{Name: name, Outcome: "failed", Detail: err.Error(), Start: m.at,
			Took: t.Elapsed() - m.at, Err: err})
	}
	return err
}

// Bytes prints a number of bytes the way the trace does: 388, 1.2 KiB, 612 KiB, 1.1 MiB.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	div, exp := int64(unit), 0
	for v := n / unit; v >= unit; v /= unit {
		div *= unit
		exp++
	}
	v := float64(n) / float64(div)
	if v >= 100 {
		return fmt.Sprintf("%.0f %ciB", v, "KMGTPE"[exp])
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[exp])
}
