package trace

import (
	"errors"
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	now := time.Unix(1000, 0)
	tr := New("r1", func() time.Time { return now })
	m := tr.Mark()
	now = now.Add(3 * time.Millisecond)
	tr.Add(m, "locality", "remote", []Attr{A("offset", 7)}, "log start %d", 5)
	tr.AddTook(time.Millisecond, "source", "location", nil, "a file")
	m = tr.Mark()
	now = now.Add(2 * time.Millisecond)
	cause := errors.New("gone")
	if err := tr.Fail(m, "transfer", cause); err != cause {
		t.Errorf("Fail gave %v", err)
	}
	want := []Step{
		{Name: "locality", Outcome: "remote", Detail: "log start 5", Start: 0, Took: 3 * time.Millisecond},
		{Name: "source", Outcome: "location", Detail: "a file", Start: 2 * time.Millisecond, Took: time.Millisecond},
		{Name: "transfer", Outcome: "failed", Detail: "gone", Start: 3 * time.Millisecond, Took: 2 * time.Millisecond, Err: cause},
	}
	got := tr.Steps()
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Name != w.Name || g.Outcome != w.Outcome || g.Detail != w.Detail || g.Start != w.Start || g.Took != w.Took || g.Err != w.Err {
			t.Errorf("step %d:\n got %+v\nwant %+v", i, g, w)
		}
	}
	if len(got[0].Attrs) != 1 || got[0].Attrs[0] != A("offset", 7) || tr.Elapsed() != 5*time.Millisecond || tr.ID != "r1" || !tr.On() {
		t.Errorf("attrs %v, elapsed %v", got[0].Attrs, tr.Elapsed())
	}
}

// TestNil: what nobody watches costs nothing and keeps errors.
func TestNil(t *testing.T) {
	var tr *Trace
	cause := errors.New("gone")
	allocs := testing.AllocsPerRun(100, func() {
		m := tr.Mark()
		tr.Add(m, "a", "b", nil, "c")
		if tr.Fail(m, "a", cause) != cause || tr.On() || tr.Steps() != nil || tr.Elapsed() != 0 {
			t.Error("a nil trace did something")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if New("", nil).Elapsed() < 0 {
		t.Error("without a clock there is no time")
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 388: "388 B", 1023: "1023 B", 1024: "1.0 KiB", 1229: "1.2 KiB",
		612 << 10: "612 KiB", 1<<20 - 1: "1024 KiB", 1 << 20: "1.0 MiB", 1153434: "1.1 MiB", 5 << 30: "5.0 GiB", 1 << 62: "4.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
