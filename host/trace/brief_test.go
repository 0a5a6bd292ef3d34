package trace

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBrief: a brief trace has each step's name, outcome, number, time and error, also those of a part; the full ones' Add and
// Fail work on it; and a trace that is freed comes back empty.
func TestBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := NewBrief("c1.7")
		if tr.On() || len(tr.Briefs()) > 0 {
			t.Errorf("On is %v, steps %v", tr.On(), tr.Briefs())
		}
		m := tr.Mark()
		time.Sleep(10 * time.Millisecond)
		tr.Brief(m, "locality", "remote", 1234)
		part := tr.Fork()
		m = part.Mark()
		time.Sleep(2 * time.Second)
		part.BriefTook(time.Second, "source", "location", 1)
		part.Fail(m, "transfer", errors.New("gone"))
		tr.Join(part)
		tr.Add(tr.Mark(), "late", "kept", nil, "%d", 1)
		want := "locality remote 1234 10.00ms, source location 1 1000.00ms, transfer failed 2000.00ms (gone), late kept 0.00ms"
		if got := Line(tr.Briefs()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if at := tr.Briefs()[1].Start; at != 1010*time.Millisecond {
			t.Errorf("the source began at %v", at)
		}
		tr.Free()
		if tr = NewBrief("c1.8"); len(tr.Briefs()) > 0 || tr.ID != "c1.8" || tr.Elapsed() != 0 {
			t.Errorf("not a new one: %+v", tr)
		}
	})
	var none *Trace
	none.Brief(none.Mark(), "locality", "", 1)
	none.BriefTook(1, "source", "", 1)
	none.Join(nil)
	none.Free()
	if none.Briefs() != nil {
		t.Error("steps of no trace")
	}
	full := New("", nil)
	full.Brief(full.Mark(), "locality", "", 1)
	if len(full.Briefs())+len(full.Steps()) > 0 {
		t.Error("a full trace took a brief step: it would have it twice")
	}
}

// BenchmarkBrief is what watching a remote read of ten steps costs.
func BenchmarkBrief(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tr := NewBrief("c1.7")
		part := tr.Fork()
		for _, name := range Names[:8] {
			part.Brief(part.Mark(), name, "", 1)
		}
		tr.Join(part)
		tr.Brief(tr.Mark(), "locality", "", 1)
		tr.Brief(Mark{}, "answer", "", 1)
		tr.Free()
	}
}

// TestLineOfManySteps: a read over thousands of segments, and an error that quotes all of them, make no line of a megabyte.
func TestLineOfManySteps(t *testing.T) {
	var steps []Brief
	for i := range 40_000 {
		steps = append(steps, Brief{Name: "segment", N: int64(i), Took: time.Millisecond})
	}
	steps = append(steps, Brief{Name: "aborted", Err: errors.New(strings.Repeat("x", 1<<20))})
	line := Line(steps)
	if len(line) > 2<<10 || !strings.Contains(line, "segment 23 1.00ms, and 39969 more 39969.00ms, segment 39993 1.00ms") {
		t.Errorf("%d bytes: %.2000s", len(line), line)
	}
}
