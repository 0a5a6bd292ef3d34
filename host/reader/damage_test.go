package reader

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestDamagedHeader flips each bit of a batch's header that no CRC covers or that is read before the CRC is checked. Wherever a
// read begins, no batch is passed over and none is given out that is not the log's: what comes before the damage comes, and then
// an error. That goes for a base offset that moves the batch inside of its segment: its neighbours tell.
func TestDamagedHeader(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		a, b := tens(t, 1, 0, 4, 100), tens(t, 2, 40, 2, 100)
		if !indexed {
			a.OffsetIndex = nil
		}
		for k := range 4 {
			for bit := range 27 * 8 { // up to the last offset's delta
				bad := *a
				bad.Log = slices.Clone(a.Log)
				bad.Log[100*k+bit/8] ^= 0x80 >> (bit % 8)
				r := newReader(t, Better, memrsm.New(memrsm.Inline, &bad, b), remotePartition(t, a, b))
				for _, offset := range []int64{0, int64(10 * k), int64(10*k + 9), int64(10*k + 10)} {
					got := one(t, r, ask("a", offset, 1<<20))
					checkDamaged(t, fmt.Sprintf("bit %d of batch %d, index %v, from %d", bit, k, indexed, offset), got, offset, int64(10*k))
				}
			}
		}
	}
}

// checkDamaged holds an answer from offset on against a log of tens whose batch at bad is damaged.
func checkDamaged(t *testing.T, what string, got PartitionData, offset, bad int64) {
	t.Helper()
	first := offset / 10 * 10
	next := first
	for w := format.Walk(got.Records); w.Next(); next += 10 {
		if h := w.Header(); h.BaseOffset != next || h.LastOffset != next+9 || h.LeaderEpoch != 0 || next == bad {
			t.Fatalf("%s: batch %d-%d of epoch %d, want %d", what, h.BaseOffset, h.LastOffset, h.LeaderEpoch, next)
		}
	}
	switch end := map[bool]int64{true: bad, false: 60}[first <= bad]; {
	case first == bad && got.Code == None:
		t.Fatalf("%s: %s, want an error", what, bases(got))
	case next == first && got.Code == None, got.Code == OffsetOutOfRange, got.Code == None && next != end:
		t.Fatalf("%s: %v, %s: %v", what, got.Code, bases(got), got.Err)
	}
}

// TestSwappedBatchesAreTold: of two batches in each other's place one is passed over. A read that begins with it fails, and one that
// comes by has a finding.
func TestSwappedBatchesAreTold(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		a, b := tens(t, 1, 0, 4, 100), tens(t, 2, 40, 2, 100)
		if !indexed {
			a.OffsetIndex = nil
		}
		bad := *a
		bad.Log = slices.Concat(a.Log[:100], a.Log[200:300], a.Log[100:200], a.Log[300:])
		for _, offset := range []int64{0, 5, 10, 15, 20, 25} {
			r := newReader(t, Better, memrsm.New(memrsm.Inline, &bad, b), remotePartition(t, a, b))
			got := one(t, r, ask("a", offset, 1<<20))
			told := slices.ContainsFunc(got.Findings, func(f finding.Finding) bool { return !f.Repaired })
			if got.Code == None && bases(got) != "[0]" && !told {
				t.Errorf("index %v, from %d: %s without a word", indexed, offset, bases(got))
			}
		}
	}
}
