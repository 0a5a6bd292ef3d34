package damage

import (
	"fmt"
	"os"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

// heapMost is what this process may have on its heap while damages are made: several hosts of memoryMax each, and what the tests
// themselves hold. Something that reads /dev/zero passes it within a moment.
const heapMost = 1 << 30

// running is the damages that are looked at now.
var running sync.Map

// watchHeap ends the process where its heap is larger than heapMost, with the damages that were looked at. It ends with the test.
func watchHeap(t testing.TB) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if metrics.Read(heap); heap[0].Value.Uint64() < heapMost {
				continue
			}
			fmt.Fprintf(os.Stderr, "%d MiB on the heap, with these damages:\n", heap[0].Value.Uint64()>>20)
			running.Range(func(d, _ any) bool {
				fmt.Fprintln(os.Stderr, d)
				return true
			})
			os.Exit(3)
		}
	}()
	t.Cleanup(func() {
		close(over)
		<-ended
	})
}
