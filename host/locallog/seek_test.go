package locallog

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// threeSegments is a log of the offsets 0-89 in three segments of ten batches of three records, with an index entry for each
// batch but the first.
func threeSegments(t testing.TB) []*kafkabytes.Segment {
	t.Helper()
	var segs []*kafkabytes.Segment
	for n := range int64(3) {
		var batches []kafkabytes.Batch
		for b := range int64(10) {
			base := n*30 + b*3
			batches = append(batches, kafkabytes.Batch{Base: base, Last: base + 2, ProducerID: -1})
		}
		segs = append(segs, kafkabytes.NewSegment(t, tp, byte(n+1), batches...))
	}
	return segs
}

// writeThree writes threeSegments after damage was done to them.
func writeThree(t testing.TB, damage func(segs []*kafkabytes.Segment)) string {
	t.Helper()
	dir := t.TempDir()
	segs := threeSegments(t)
	damage(segs)
	kafkabytes.WriteLog(t, dir, tp, segs...)
	kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", "t 0 90")
	kafkabytes.WriteFile(t, filepath.Join(dir, ".kafka_cleanshutdown"), nil)
	return dir
}

// rightOrCorrupt holds what Find and Scan give for each offset below 90 against what was written: the batch of the offset, or
// CORRUPT. It counts the latter.
func rightOrCorrupt(t *testing.T, l *Log) (corrupt int) {
	t.Helper()
	for offset := range int64(90) {
		want := offset - offset%3
		s, ok, err := l.Find(offset, 90)
		switch {
		case abi.KindOf(err) == abi.Corrupt:
			corrupt++
		case err != nil || !ok || s.First.BaseOffset != want || s.First.LastOffset != want+2:
			t.Errorf("find %d: batch %d-%d, %v, %v", offset, s.First.BaseOffset, s.First.LastOffset, ok, err)
		}
		next := want
		if offset%10 != 0 {
			continue
		}
		err = l.Scan(offset, func(b *Batch) (bool, error) {
			if b.BaseOffset != next || b.LastOffset != next+2 {
				t.Errorf("scan from %d: batch %d-%d, want %d", offset, b.BaseOffset, b.LastOffset, next)
				return true, nil
			}
			next += 3
			return false, nil
		})
		if next != 90 && abi.KindOf(err) != abi.Corrupt {
			t.Errorf("scan from %d: it ends at %d, %v", offset, next, err)
		}
		if t.Failed() {
			return corrupt
		}
	}
	return corrupt
}

// TestDamagedOffsetIndexSkipsNothing: whatever bit of an offset index is another, or bytes are missing, each offset is found.
func TestDamagedOffsetIndexSkipsNothing(t *testing.T) {
	size := len(threeSegments(t)[1].OffsetIndex)
	for _, n := range []int{1, 2} {
		for at := n - 1; at < size; at += 3 {
			damages := map[string]func(x []byte) []byte{
				"8 bytes are missing": func(x []byte) []byte { return slices.Delete(x, at, min(at+8, size)) },
				"it ends":             func(x []byte) []byte { return x[:at] },
				"zeros from there on": func(x []byte) []byte { clear(x[at:]); return x },
			}
			for _, bit := range []int{0, 7} {
				damages[fmt.Sprint("bit ", bit)] = func(x []byte) []byte { x[at] ^= 1 << bit; return x }
			}
			for name, damage := range damages {
				t.Run(fmt.Sprintf("segment %d byte %d %s", n, at, name), func(t *testing.T) {
					d := openDir(t, writeThree(t, func(s []*kafkabytes.Segment) { s[n].OffsetIndex = damage(s[n].OffsetIndex) }))
					if corrupt := rightOrCorrupt(t, find(t, d, "t", 0)); corrupt > 0 {
						t.Errorf("the data is good, and %d offsets are said to be corrupt", corrupt)
					}
				})
			}
		}
	}
}

// TestWrongBaseOffsetsAreNotServed: base offsets are under no CRC. Whatever bit of one is another, each offset is found in its
// batch, or CORRUPT.
func TestWrongBaseOffsetsAreNotServed(t *testing.T) {
	size := len(kafkabytes.Batch{Base: 0, Last: 2, ProducerID: -1}.Bytes(t))
	for n := range 3 {
		for _, batch := range []int{0, 1, 8, 9} {
			if n == 2 && batch == 9 {
				continue // the log's end: what follows it does not contradict it
			}
			for _, bit := range []int{0, 6, 7, 13, 33, 56, 57, 58, 62, 63} {
				t.Run(fmt.Sprintf("segment %d batch %d bit %d", n, batch, bit), func(t *testing.T) {
					dir := writeThree(t, func(s []*kafkabytes.Segment) { s[n].Log[batch*size+bit/8] ^= 1 << (bit % 8) })
					if rightOrCorrupt(t, find(t, openDir(t, dir), "t", 0)) == 0 {
						t.Error("the damage is not noticed")
					}
				})
			}
		}
	}
}

// TestIndexThatMisleadsIsAFinding: it is told once, with the file, and as repaired; an entry that names the end of several
// batches, as older brokers wrote it, misleads nobody.
func TestIndexThatMisleadsIsAFinding(t *testing.T) {
	entry := func(last, batch int64) []byte {
		return kafkabytes.AppendEntry(nil, last, batch*int64(len(kafkabytes.Batch{Base: 0, Last: 2, ProducerID: -1}.Bytes(t))))
	}
	for _, tt := range []struct {
		name string
		x    []byte
		told int
	}{
		{"an entry two batches behind", entry(11, 5), 1},
		{"an entry in the middle of a batch", kafkabytes.AppendEntry(nil, 11, 100), 1},
		{"an entry two batches behind, and a right one", append(entry(11, 5), entry(20, 6)...), 1},
		{"an entry of several batches", entry(11, 2), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := openDir(t, writeThree(t, func(s []*kafkabytes.Segment) { s[1].OffsetIndex = tt.x }))
			var mu sync.Mutex
			var told []finding.Finding
			d.Report(func(f finding.Finding) { mu.Lock(); told = append(told, f); mu.Unlock() })
			l := find(t, d, "t", 0)
			told = append(told, l.Findings...)
			for range 2 {
				if rightOrCorrupt(t, l) > 0 {
					t.Error("the data is good")
				}
			}
			if len(told) != tt.told || tt.told > 0 && (!told[0].Repaired || filepath.Base(told[0].Path) != format.SegmentFileName(30, ".index")) {
				t.Errorf("findings %v", told)
			}
		})
	}
}
