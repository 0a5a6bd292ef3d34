package hammer

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// fataled records that a test would have failed.
type fataled struct {
	testing.TB
	failed bool
}

func (f *fataled) Helper()               {}
func (f *fataled) Fatalf(string, ...any) { f.failed = true; runtime.Goexit() }

func TestEventually(t *testing.T) {
	calls := 0
	Eventually(t, time.Minute, func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	f := &fataled{TB: t}
	done := make(chan struct{})
	go func() { // ends by Fatalf
		defer close(done)
		Eventually(f, time.Millisecond, func() bool { return false })
	}()
	if <-done; !f.failed {
		t.Error("what never comes did not fail the test")
	}
}

func TestRun(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var calls atomic.Int64
	var seen [4][50]atomic.Bool
	Run(t, 4, 50, func(p, n int) {
		calls.Add(1)
		seen[p][n].Store(true)
	})
	if calls.Load() != 200 || runtime.GOMAXPROCS(0) != before {
		t.Errorf("%d calls, GOMAXPROCS %d, want 200 and %d", calls.Load(), runtime.GOMAXPROCS(0), before)
	}
	for p := range seen {
		for n := range seen[p] {
			if !seen[p][n].Load() {
				t.Errorf("%d, %d was not called", p, n)
			}
		}
	}
}
