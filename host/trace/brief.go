package trace

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Names are the names of steps, in about their order.
var Names = []string{"locality", "first", "late", "look", "epoch", "segment", "index", "position", "source", "transfer", "batches", "local", "aborted", "stopped", "answer"}

// Brief is a step as a brief trace has it.
type Brief struct {
	Name, Outcome string
	N             int64 // the step's one number: an offset, a position or bytes
	Start, Took   time.Duration
	Err           error
}

// free are brief traces that nobody uses, with the room that they have.
var free = sync.Pool{New: func() any { return &Trace{brief: true, now: time.Now, briefs: make([]Brief, 0, 16)} }}

// NewBrief begins a trace that takes of each step its name, its time and one number, without memory of its own: cheap
// enough for every read. Free ends it.
func NewBrief(id string) *Trace {
	t := free.Get().(*Trace)
	t.ID, t.began = id, t.now()
	return t
}

// Free gives a brief trace back. It must not be used afterwards, nor what Briefs gave.
func (t *Trace) Free() {
	if t == nil || !t.brief {
		return
	}
	clear(t.briefs) // errors hold what they are about
	t.ID, t.briefs = "", t.briefs[:0]
	free.Put(t)
}

// Brief ends a step that began at m where the trace is a brief one, and does nothing where it is not: Add has the rest.
func (t *Trace) Brief(m Mark, name, outcome string, n int64) {
	if t != nil && t.brief {
		t.briefs = append(t.briefs, Brief{Name: name, Outcome: outcome, N: n, Start: m.at, Took: t.Elapsed() - m.at})
	}
}

// BriefTook is Brief for a step whose time was taken elsewhere, and that ends now.
func (t *Trace) BriefTook(took time.Duration, name, outcome string, n int64) {
	if t != nil && t.brief {
		t.Brief(Mark{t.Elapsed() - took}, name, outcome, n)
	}
}

// Briefs gives what a brief trace collected, until Free.
func (t *Trace) Briefs() []Brief {
	if t == nil {
		return nil
	}
	return t.briefs
}

// lineHead and lineTail bound the steps of a Line, and lineError the bytes of an error in it: a read over thousands of segments has
// tens of thousands of steps.
const (
	lineHead  = 24
	lineTail  = 8
	lineError = 512
)

// Line is the steps in one line: "locality remote 0.01ms, epoch 3 0.00ms, transfer 612450 31.20ms". Of many steps it has the first
// and the last ones, and how many lie between them and how long they took.
func Line(steps []Brief) string {
	var b strings.Builder
	for i := 0; i < len(steps); i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		if last := len(steps) - lineTail; i == lineHead && last > i+1 {
			took := time.Duration(0)
			for _, s := range steps[i:last] {
				took += s.Took
			}
			fmt.Fprintf(&b, "and %d more %.2fms", last-i, ms(took))
			i = last - 1
			continue
		}
		steps[i].write(&b)
	}
	return b.String()
}

func (s *Brief) write(b *strings.Builder) {
	b.WriteString(s.Name)
	if s.Outcome != "" {
		b.WriteString(" " + s.Outcome)
	}
	if s.N != 0 {
		fmt.Fprintf(b, " %d", s.N)
	}
	fmt.Fprintf(b, " %.2fms", ms(s.Took))
	if s.Err != nil {
		text := s.Err.Error()
		if len(text) > lineError {
			text = text[:lineError] + "..."
		}
		fmt.Fprintf(b, " (%s)", text)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
