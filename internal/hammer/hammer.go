// Package hammer is the one helper of tests that need real time or many goroutines. A test waits on an event where there
// is one; Eventually is for what the operating system does, and the only place that sleeps.
package hammer

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Eventually waits until cond is true, and fails the test when it is not after timeout.
func Eventually(t testing.TB, timeout time.Duration, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; !cond(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v", timeout)
		}
		time.Sleep(pause)
	}
}

// Run calls fn(p, n) for every p below P and n below N: P goroutines, released at once, each N times. It halves
// GOMAXPROCS meanwhile, so that goroutines are preempted in odd places, and returns when all have ended. fn may call t's
// Error, not its Fatal.
func Run(t testing.TB, P, N int, fn func(p, n int)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2)))
	var done sync.WaitGroup
	start := make(chan struct{})
	for p := range P {
		done.Go(func() {
			<-start
			for n := range N {
				fn(p, n)
			}
		})
	}
	close(start)
	done.Wait()
}
