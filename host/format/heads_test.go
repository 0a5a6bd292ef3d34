package format

import (
	"runtime"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// sameHeads holds RecordHeads against the records that Records gave.
func sameHeads(t testing.TB, b []byte, recs []Record) {
	t.Helper()
	var got, want []RecordHead
	for _, r := range recs {
		want = append(want, RecordHead{r.Offset, r.Timestamp})
	}
	err := RecordHeads(b, 0, func(r RecordHead) bool { got = append(got, r); return true })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d heads of %d records, or others: %v", len(got), len(want), err)
	}
}

// bomb is a batch of one record that inflates to size bytes and more.
func bomb(t testing.TB, p packing, size int) []byte {
	return recompress(t, newBatch(t, plainHeader(20), []Record{{Offset: 20, Value: make([]byte, size)}}), p)
}

// TestRecordHeadsHoldNothingOfWhatIsInflated: a batch of 64 MiB takes what InflateMemory says, and no more.
func TestRecordHeadsHoldNothingOfWhatIsInflated(t *testing.T) {
	const size, other = 64 << 20, 2 << 20
	for _, p := range packings[1:] {
		t.Run(p.name, func(t *testing.T) {
			b := bomb(t, p, size)
			most := InflateMemory(b)
			if most <= 0 || p.name != "snappy/raw" && most > size/4 {
				t.Errorf("InflateMemory: %d", most)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n := 0
			if err := RecordHeads(b, 0, func(RecordHead) bool { n++; return true }); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			runtime.ReadMemStats(&after)
			if took := int64(after.TotalAlloc - before.TotalAlloc); took > most+other {
				t.Errorf("%d bytes were allocated, InflateMemory says %d", took, most)
			}
		})
	}
}

// TestRecordHeadsBound: a batch that inflates to more than the bound is EXHAUSTED, with the batch and the bound.
func TestRecordHeadsBound(t *testing.T) {
	for _, p := range packings[1:] {
		t.Run(p.name, func(t *testing.T) {
			err := RecordHeads(bomb(t, p, 4<<20), 1<<20, func(RecordHead) bool { return true })
			wantKind(t, err, abi.Exhausted, "offsets 20-20", "more than the limit of 1048576 bytes", p.codec.String())
		})
	}
}

// TestRecordHeadsStop: what lies behind the record that was wanted is not looked at.
func TestRecordHeadsStop(t *testing.T) {
	for _, p := range packings {
		t.Run(p.name, func(t *testing.T) {
			b := recompress(t, newBatch(t, plainHeader(20), someRecords(20, 5000)), p)
			n := 0
			if err := RecordHeads(b, 0, func(RecordHead) bool { n++; return n < 7 }); err != nil || n != 7 {
				t.Errorf("%d records, %v", n, err)
			}
		})
	}
}

// TestRecordHeadsDamaged: records that don't fit the header, and streams that are cut, are CORRUPT and name the batch.
func TestRecordHeadsDamaged(t *testing.T) {
	all := func(RecordHead) bool { return true }
	for _, p := range packings {
		t.Run(p.name, func(t *testing.T) {
			h := plainHeader(20)
			good := newBatch(t, h, someRecords(20, 50))
			cut := slices.Clone(good[:len(good)-9])
			cut[11] -= 9 // the low byte of the length
			wantKind(t, RecordHeads(recompress(t, cut, p), 0, all), abi.Corrupt, "offsets 20-69")
			long := slices.Concat(good, []byte{0})
			long[11]++
			wantKind(t, RecordHeads(recompress(t, long, p), 0, all), abi.Corrupt, "offsets 20-69")
			more := slices.Clone(good)
			more[60]++ // the low byte of the count
			wantKind(t, RecordHeads(recompress(t, more, p), 0, all), abi.Corrupt, "offsets 20-69")
			if packed := recompress(t, good, p); p.codec != CodecNone {
				for n := HeaderSizeV2; n < len(packed); n += 7 {
					short := slices.Clone(packed[:n])
					short[10], short[11] = byte((n-12)>>8), byte(n-12)
					if err := RecordHeads(short, 0, all); err == nil {
						t.Fatalf("cut at %d of %d: no error", n, len(packed))
					}
				}
			}
		})
	}
}
