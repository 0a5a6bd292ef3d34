package epoch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// of makes a lineage of epoch, start pairs.
func of(pairs ...int64) Lineage {
	var es []abi.LeaderEpoch
	for i := 0; i < len(pairs); i += 2 {
		es = append(es, abi.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return Of(es)
}

func show(es []abi.LeaderEpoch) string { return fmt.Sprint(es) }

func TestOfAssignsAsKafka(t *testing.T) {
	for _, tt := range []struct {
		name     string
		in, want Lineage
	}{
		{"nothing", of(), Lineage{}},
		{"in any order", of(7, 70, 0, 0, 3, 30), of(0, 0, 3, 30, 7, 70)},
		{"equal starts keep the highest", of(0, 0, 1, 0, 2, 0, 3, 30, 4, 40, 5, 60, 6, 60, 7, 70, 8, 70), of(2, 0, 3, 30, 4, 40, 6, 60, 8, 70)},
		{"a later epoch cuts what began after it", of(0, 0, 1, 50, 2, 90, 3, 40), of(0, 0, 3, 40)},
		{"an epoch twice: the last counts", of(1, 10, 1, 20), of(1, 20)},
	} {
		if show(tt.in.Entries()) != show(tt.want.Entries()) {
			t.Errorf("%s: %v, want %v", tt.name, tt.in, tt.want)
		}
	}
	entries := []abi.LeaderEpoch{{Epoch: 2, StartOffset: 20}, {Epoch: 1, StartOffset: 10}}
	Of(entries)
	if entries[0].Epoch != 2 {
		t.Error("Of changed its argument")
	}
}

// TestForOffset is spec 2.6: none below the first, an exact start, else the last that began before; also above the end.
func TestForOffset(t *testing.T) {
	l := of(0, 10, 2, 20, 5, 50)
	for _, tt := range []struct {
		offset int64
		epoch  int32
		ok     bool
	}{{-1, 0, false}, {0, 0, false}, {9, 0, false}, {10, 0, true}, {19, 0, true}, {20, 2, true}, {49, 2, true}, {50, 5, true}, {1 << 40, 5, true}} {
		if got, ok := l.ForOffset(tt.offset); got.Epoch != tt.epoch || ok != tt.ok {
			t.Errorf("offset %d: epoch %d, %v, want %d, %v", tt.offset, got.Epoch, ok, tt.epoch, tt.ok)
		}
	}
	if _, ok := (Lineage{}).ForOffset(0); ok {
		t.Error("an empty lineage has an epoch")
	}
}

// TestEndOffset is spec 2.6, and the leader's answer in the example of 1.10: asking for epoch 2 yields epoch 1, end 90.
func TestEndOffset(t *testing.T) {
	follower, gaps := of(0, 20, 1, 85, 3, 90, 4, 98), of(2, 20, 5, 50)
	for _, tt := range []struct {
		l     Lineage
		epoch int32
		found int32
		end   int64
		ok    bool
	}{
		{follower, 2, 1, 90, true},
		{follower, 0, 0, 85, true},
		{follower, 3, 3, 98, true},
		{follower, 4, 4, 120, true},
		{follower, 5, Undefined, -1, false},
		{follower, Undefined, Undefined, -1, false},
		{gaps, 1, 1, 20, true}, // below the first: it ends where that begins
		{gaps, 4, 2, 50, true},
		{Lineage{}, 0, Undefined, -1, false},
	} {
		found, end, ok := tt.l.EndOffset(tt.epoch, 120)
		if found != tt.found || end != tt.end || ok != tt.ok {
			t.Errorf("%v, epoch %d: %d, %d, %v, want %d, %d, %v", tt.l, tt.epoch, found, end, ok, tt.found, tt.end, tt.ok)
		}
	}
}

func TestStart(t *testing.T) {
	if start, ok := of(3, 10, 4, 20).Start(); !ok || start != 10 {
		t.Errorf("got %d, %v", start, ok)
	}
	if start, ok := of().Start(); ok {
		t.Errorf("an empty lineage starts at %d", start)
	}
}

func TestFromAndCutFront(t *testing.T) {
	l := of(0, 10, 2, 20, 5, 50)
	for _, tt := range []struct {
		offset    int64
		from, cut Lineage
	}{
		{0, l, l},
		{10, l, l},
		{15, l, of(0, 15, 2, 20, 5, 50)},
		{20, of(2, 20, 5, 50), of(2, 20, 5, 50)},
		{49, of(2, 20, 5, 50), of(2, 49, 5, 50)},
		{99, of(5, 50), of(5, 99)},
	} {
		if got := l.From(tt.offset); show(got) != show(tt.from.Entries()) {
			t.Errorf("from %d: %v, want %v", tt.offset, got, tt.from)
		}
		if got := l.CutFront(tt.offset); show(got.Entries()) != show(tt.cut.Entries()) {
			t.Errorf("cut at %d: %v, want %v", tt.offset, got, tt.cut)
		}
	}
	if !slices.Equal(l.Entries(), of(0, 10, 2, 20, 5, 50).Entries()) {
		t.Errorf("cutting changed the lineage: %v", l)
	}
	empty := Lineage{}
	if got := empty.CutFront(5); !got.Empty() || got.Latest() != Undefined || len(empty.From(5)) != 0 {
		t.Errorf("the empty lineage cut: %v", got)
	}
}
