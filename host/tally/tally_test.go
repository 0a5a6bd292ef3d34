package tally

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestHistogram: a duration is in the bucket of its bound and in those above, and what is longer than all counts too.
func TestHistogram(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, Bounds[0], Bounds[0] + 1, time.Second, 2 * time.Minute} {
		h.Observe(d)
	}
	got := h.Durations()
	want := Durations{Count: 5, Sum: 2*Bounds[0] + 1 + time.Second + 2*time.Minute, Buckets: [len(Bounds)]int64{2, 3, 3, 3, 3, 3, 3, 4, 4, 4}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTable: keys beyond the bound share one value, dropped ones begin anew.
func TestTable(t *testing.T) {
	table := Table[string, atomic.Int64]{Max: 2}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				table.At("a").Add(1)
				table.At("b").Add(1)
			}
		})
	}
	wg.Wait()
	table.At("c").Add(5)
	table.At("d").Add(6)
	table.Keep(func(k string) bool { return k != "b" })
	table.At("e").Add(7)
	got := map[string]int64{"rest": table.Rest.Load()}
	table.Each(func(k string, v *atomic.Int64) { got[k] = v.Load() })
	if len(got) != 3 || got["a"] != 400 || got["e"] != 7 || got["rest"] != 11 {
		t.Errorf("got %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { table.At("a").Add(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
