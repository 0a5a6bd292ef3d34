package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestPercentFor(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, 1600}, {1 << 20, 1600}, {4 << 20, 1600}, {8 << 20, 800}, {32 << 20, 200}, {64 << 20, 100}, {1 << 30, 100},
	} {
		if got := percentFor(tt.live); got != tt.want {
			t.Errorf("%d bytes: %d, want %d", tt.live, got, tt.want)
		}
	}
}

// TestSpaceCollections: after each collection the heap may grow by about what is promised: by half of it at least, and by half as
// much again at most. The percentage follows the live heap of the collection before.
func TestSpaceCollections(t *testing.T) {
	new(spacer).collected()
	for _, held := range []int{1 << 20, 20 << 20, 80 << 20} {
		keep := make([]byte, held)
		hammer.Eventually(t, 10*time.Second, func() bool {
			runtime.GC()
			live, goal := heap()
			room := goal - live
			return room >= headroom/2 && room <= max(headroom+headroom/2, live+live/2)
		})
		runtime.KeepAlive(keep)
	}
}

func heap() (live, goal uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}
