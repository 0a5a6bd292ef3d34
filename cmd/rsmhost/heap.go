package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// limitHeap makes the collector work harder before the process has twice its memory.max: the budget counts the bytes of
// reads and caches, and metadata, modules and what was let go of come on top. GOMEMLIMIT in the environment wins.
func limitHeap(memoryMax int64) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(2 * memoryMax)
	}
}

// headroom is what the heap may grow by before it is collected again, where that is more than it holds. Go's own rule, as
// much as it holds, collects the few MiB of a server at work every 0.3 to 0.5 s; each time all cores mark for some 10 ms, in
// which a read waits, and that was one read in fifty (RATIONALE.md).
const headroom = 64 << 20

// leastHeap: Go lets a heap grow to 4 MiB before it collects, times the percentage that it is told.
const leastHeap = 4 << 20

// percentFor is the percentage of the live heap that it may grow by.
func percentFor(live uint64) int {
	return int(max(100, headroom*100/max(live, leastHeap)))
}

// spaceCollections keeps that up until the process ends: the percentage follows the live heap. GOGC in the environment wins.
func spaceCollections() {
	if _, set := os.LookupEnv("GOGC"); !set {
		spacing.Do(func() { new(spacer).collected() })
	}
}

var spacing sync.Once

// spacer is told of each collection: it is garbage, and its finalizer makes it anew. It holds a pointer: one that held none
// and was this small would share its memory with others, and live as long as they.
type spacer struct {
	percent int
	live    []metrics.Sample
}

func (s *spacer) collected() {
	if s.live == nil {
		s.live = []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	}
	metrics.Read(s.live)
	want := percentFor(s.live[0].Value.Uint64())
	if d := want - s.percent; d > s.percent/10 || -d > s.percent/10 { // to set it stops the world
		debug.SetGCPercent(want)
		s.percent = want
	}
	runtime.SetFinalizer(s, (*spacer).collected)
}
