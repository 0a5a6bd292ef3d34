package format

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// timeIndex makes an index of pairs of timestamp and relative offset.
func timeIndex(pairs ...int64) TimeIndex {
	x := TimeIndex{}
	for i := 0; i < len(pairs); i += 2 {
		x = binary.BigEndian.AppendUint64(x, uint64(pairs[i]))
		x = binary.BigEndian.AppendUint32(x, uint32(pairs[i+1]))
	}
	return x
}

// TestTimeIndexVector is the vector of section 6.5.
func TestTimeIndexVector(t *testing.T) {
	x := TimeIndex(unhex(t, "0000018bcfe56800000000010000018bcfe5680a0000000a"))
	wantKind(t, x.Check(100), 0)
	if x.Len() != 2 {
		t.Errorf("%d entries", x.Len())
	}
	for _, tt := range []struct{ ts, wantTs, offset int64 }{
		{-1, -1, 100}, {0, -1, 100}, {T - 1, -1, 100}, {T, T, 101}, {T + 9, T, 101}, {T + 10, T + 10, 110}, {math.MaxInt64, T + 10, 110},
	} {
		if ts, o := x.Lookup(100, tt.ts); ts != tt.wantTs || o != tt.offset {
			t.Errorf("lookup %d: (%d, %d), want (%d, %d)", tt.ts, ts, o, tt.wantTs, tt.offset)
		}
	}
	if ts, o := (TimeIndex{}).Lookup(7, T); ts != -1 || o != 7 {
		t.Errorf("an empty index has (%d, %d)", ts, o)
	}
}

func TestTimeIndexCheck(t *testing.T) {
	tests := []struct {
		name string
		x    TimeIndex
		want string // empty: fine
	}{
		{"empty", nil, ""},
		{"same again", timeIndex(T, 1, T, 1), ""},
		{"no timestamp", timeIndex(-1, 0), ""},
		{"a third of an entry", timeIndex(T, 1)[:4], "its length, 4, is not a multiple of 12"},
		{"below base", timeIndex(T, -1), "entry 0 (timestamp 1700000000000, offset 99)"},
		{"time falls", timeIndex(T, 1, T-1, 2), "entry 1"},
		{"offset falls", timeIndex(T, 2, T+1, 1), "entry 1"},
		{"preallocated", timeIndex(T, 1, 0, 0), "entry 1 (timestamp 0, offset 100)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				wantKind(t, tt.x.Check(100), 0)
				return
			}
			wantKind(t, tt.x.Check(100), abi.Corrupt, "time index", tt.want)
		})
	}
}
