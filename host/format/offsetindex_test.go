package format

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// offsetIndex makes an index of pairs of relative offset and position.
func offsetIndex(pairs ...int32) OffsetIndex {
	x := OffsetIndex{}
	for _, v := range pairs {
		x = binary.BigEndian.AppendUint32(x, uint32(v))
	}
	return x
}

// TestOffsetIndexVector is the vector of section 6.4.
func TestOffsetIndexVector(t *testing.T) {
	x := OffsetIndex(unhex(t, "000000010000000000000003000001f40000000a000003e8"))
	wantKind(t, x.Check(100), 0)
	if x.Len() != 3 {
		t.Errorf("%d entries", x.Len())
	}
	for _, tt := range []struct{ target, offset, pos int64 }{
		{0, 100, 0}, {99, 100, 0}, {100, 100, 0}, {101, 101, 0}, {102, 101, 0}, {103, 103, 500}, {109, 103, 500},
		{110, 110, 1000}, {999, 110, 1000}, {math.MaxInt64, 110, 1000}, {-1, 100, 0},
	} {
		if o, p := x.Lookup(100, tt.target); o != tt.offset || p != tt.pos {
			t.Errorf("lookup %d: (%d, %d), want (%d, %d)", tt.target, o, p, tt.offset, tt.pos)
		}
	}
	for _, tt := range []struct{ pos, size, offset int64 }{
		{0, 1, 103}, {0, 499, 103}, {0, 500, 103}, {0, 501, 110}, {500, 500, 110}, {500, 501, -1}, {0, 5000, -1},
	} {
		for name, bound := range map[string]func(int64, int64) (int64, bool){"ours": x.UpperBound, "Kafka's": x.KafkaUpperBound} {
			o, ok := bound(100, tt.pos+tt.size)
			if ok != (tt.offset >= 0) || ok && o != tt.offset {
				t.Errorf("%s upper bound of (%d, %d): %d, %v, want %d", name, tt.pos, tt.size, o, ok, tt.offset)
			}
		}
	}
}

// TestOffsetIndexUpperBound is Kafka's OffsetIndexTest (section 10.8).
func TestOffsetIndexUpperBound(t *testing.T) {
	x := offsetIndex(0, 0, 1, 10, 2, 23, 3, 37)
	for _, tt := range []struct{ pos, size, offset int64 }{
		{0, 5, 1}, {0, 10, 1}, {0, 22, 2}, {0, 23, 2}, {10, 24, 3}, {37, 1, -1}, {0, 200, -1}, {10, 200, -1},
	} {
		if o, ok := x.UpperBound(0, tt.pos+tt.size); ok != (tt.offset >= 0) || ok && o != tt.offset {
			t.Errorf("(%d, %d): %d, %v, want %d", tt.pos, tt.size, o, ok, tt.offset)
		}
	}
	if _, ok := (OffsetIndex{}).UpperBound(0, 5); ok {
		t.Error("an empty index has a bound")
	}
	if _, ok := (OffsetIndex{}).KafkaUpperBound(0, 5); ok {
		t.Error("an empty index has a bound")
	}
	if o, p := (OffsetIndex{}).Lookup(7, 9); o != 7 || p != 0 {
		t.Errorf("an empty index has (%d, %d)", o, p)
	}
}

// TestOffsetIndexQuirk is the broker's exact hit on the first entry (section 13).
func TestOffsetIndexQuirk(t *testing.T) {
	two, one := offsetIndex(4, 300, 9, 700), offsetIndex(4, 300)
	tests := []struct {
		x           OffsetIndex
		limit       int64
		ours, kafka int64
	}{
		{two, 299, 104, 104}, {two, 300, 104, 109}, {two, 301, 109, 109}, {two, 700, 109, 109}, {two, 701, -1, -1},
		{one, 299, 104, 104}, {one, 300, 104, -1}, {one, 301, -1, -1},
	}
	for _, tt := range tests {
		if o, ok := tt.x.UpperBound(100, tt.limit); ok != (tt.ours >= 0) || ok && o != tt.ours {
			t.Errorf("%d entries, limit %d: %d, %v, want %d", tt.x.Len(), tt.limit, o, ok, tt.ours)
		}
		if o, ok := tt.x.KafkaUpperBound(100, tt.limit); ok != (tt.kafka >= 0) || ok && o != tt.kafka {
			t.Errorf("Kafka's, %d entries, limit %d: %d, %v, want %d", tt.x.Len(), tt.limit, o, ok, tt.kafka)
		}
	}
}

func TestOffsetIndexCheck(t *testing.T) {
	tests := []struct {
		name string
		x    OffsetIndex
		want string // empty: fine
	}{
		{"empty", nil, ""},
		{"first at base", offsetIndex(0, 0), ""},
		{"half an entry", offsetIndex(1, 10, 2), "its length, 12, is not a multiple of 8"},
		{"below base", offsetIndex(-1, 0), "entry 0 (offset 99, position 0)"},
		{"last below base", offsetIndex(5, 10, -6, 20), "entry 1 (offset 94, position 20)"},
		{"negative position", offsetIndex(1, -5), "position -5"},
		{"offset again", offsetIndex(1, 10, 1, 20), "entry 1"},
		{"position again", offsetIndex(1, 10, 2, 10), "entry 1"},
		{"preallocated", offsetIndex(1, 10, 0, 0), "entry 1 (offset 100, position 0)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				wantKind(t, tt.x.Check(100), 0)
				return
			}
			wantKind(t, tt.x.Check(100), abi.Corrupt, "offset index", tt.want)
		})
	}
}
