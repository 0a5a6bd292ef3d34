package rlmm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
)

// TestHolding: segments in any state that hold an offset, in any leader epoch, among many that do not.
func TestHolding(t *testing.T) {
	p := partition(t, slices.Concat(copied(1, 0, 99), copied(2, 50, 149, 1, 50), []any{announce(3, 90, 199)}, copied(4, 95, 96),
		[]any{move(4, format.DeleteSegmentStarted)}, copied(5, 97, 98), []any{move(5, format.DeleteSegmentStarted), move(5, format.DeleteSegmentFinished)})...)
	for i := range int64(1000) {
		m := announce(0, 1000+i, 1000+i)
		m.SegmentID[0], m.SegmentID[14] = byte(1+i>>8), byte(i)
		apply(t, p, m)
	}
	for offset, w := range map[int64]string{-1: "[]", 0: "[1]", 50: "[1 2]", 95: "[1 2 3 4]", 97: "[1 2 3]", 150: "[3]", 200: "[]", 1500: "[0]", 2000: "[]"} {
		want(t, fmt.Sprint("offset ", offset), numbers(p.Holding(offset)), w)
	}
}
