package reader

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// unordered is a segment of eight batches of ten offsets and 100 bytes, with these timestamps; of some the greatest comes early.
func unordered(t testing.TB) *segment {
	var bs []batch
	for i, ts := range []int64{100, 300, 200, 400, 400, 350, 700, 600} {
		bs = append(bs, batch{Base: int64(10 * i), Last: int64(10*i + 9), Size: 100, Timestamp: ts})
	}
	s := kafkabytes.NewSegment(t, id("a"), 1, bs...)
	s.TimeIndex = timeIndex([2]int64{300, 19}, [2]int64{400, 39}, [2]int64{700, 69})
	return s
}

func timeIndex(entries ...[2]int64) (index []byte) {
	for _, e := range entries {
		index = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(index, uint64(e[0])), uint32(e[1]))
	}
	return index
}

// timesOf are timestamps to ask unordered for, and the offsets of the answers.
var timesOf = map[int64]int64{0: 0, 100: 0, 101: 10, 300: 10, 301: 30, 400: 30, 401: 60, 700: 60, 701: -1, MaxTimestamp: 60}

// lookUp asks for one timestamp.
func lookUp(r *Reader, ts int64) OffsetData {
	return r.ListOffsets(context.Background(), &ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer,
		Partitions: []ListOffsetsPartition{{Topic: "a", Timestamp: ts, CurrentLeaderEpoch: epoch.Undefined}}})[0]
}

// TestByTimeWithoutItsIndexes: whatever is wrong with the time index, the offset index or both, each timestamp is found, and
// a finding that is repaired names the segment.
func TestByTimeWithoutItsIndexes(t *testing.T) {
	for _, tt := range []struct {
		name          string
		times, others bool // which index is not good
	}{{"time", true, false}, {"offset", false, true}, {"both", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			forms(t, func(t *testing.T, form memrsm.Form) {
				s := unordered(t)
				if tt.times {
					s.TimeIndex = s.TimeIndex[:17]
				}
				if tt.others {
					s.OffsetIndex = s.OffsetIndex[:11]
				}
				var told []finding.Finding
				for range 2 {
					r := newReader(t, Better, memrsm.New(form, s), remotePartition(t, s))
					r.report = func(f finding.Finding) { told = append(told, f) }
					for ts, want := range timesOf {
						if got := lookUp(r, ts); got.Offset != want || got.Code != None {
							t.Errorf("%d: offset %d, %v, want %d", ts, got.Offset, got.Err, want)
						}
					}
				}
				if len(told) == 0 || slices.ContainsFunc(told, func(f finding.Finding) bool { return !f.Repaired || !strings.Contains(f.What, s.Meta.Key()) }) {
					t.Errorf("findings %v", told)
				}
			})
		})
	}
}

// TestByTimeMisled flips each bit of the time index and of the offset index: no answer is wrong.
func TestByTimeMisled(t *testing.T) {
	for _, which := range []string{"time", "offset"} {
		t.Run(which, func(t *testing.T) {
			good := unordered(t)
			for bit := range 8 * max(len(good.TimeIndex), len(good.OffsetIndex)) {
				s := *good
				s.TimeIndex, s.OffsetIndex = slices.Clone(good.TimeIndex), slices.Clone(good.OffsetIndex)
				index := map[string][]byte{"time": s.TimeIndex, "offset": s.OffsetIndex}[which]
				if bit/8 >= len(index) {
					break
				}
				index[bit/8] ^= 0x80 >> (bit % 8)
				r := newReader(t, Better, memrsm.New(memrsm.Inline, &s), remotePartition(t, good))
				for ts, want := range timesOf {
					if got := lookUp(r, ts); got.Offset != want || got.Code != None {
						t.Fatalf("bit %d, %d: offset %d, %v, want %d", bit, ts, got.Offset, got.Err, want)
					}
				}
			}
		})
	}
}

// TestByTimeDamagedBatch flips each bit of a batch: an answer is right, or an error.
func TestByTimeDamagedBatch(t *testing.T) {
	for bit := range 800 {
		good := unordered(t)
		s := *good
		s.Log = slices.Clone(good.Log)
		s.Log[300+bit/8] ^= 0x80 >> (bit % 8)
		r := newReader(t, Better, memrsm.New(memrsm.Inline, &s), remotePartition(t, good))
		for ts, want := range timesOf {
			if got := lookUp(r, ts); got.Code == None && got.Offset != want || got.Code != None && got.Code != CorruptMessage {
				t.Fatalf("bit %d, %d: offset %d, %v, want %d", bit, ts, got.Offset, got.Err, want)
			}
		}
	}
}

// TestByTimeFromLogStart: what lies below the log start is not found, also where the log starts within a segment.
func TestByTimeFromLogStart(t *testing.T) {
	s := unordered(t)
	p := remotePartition(t, s)
	p.Offsets.LogStart = 25
	r := newReader(t, Better, memrsm.New(memrsm.Inline, s), p)
	for ts, want := range map[int64]int64{0: 29, 250: 30, 300: 30, 500: 60} { // a batch has a record at each end
		if got := lookUp(r, ts); got.Offset != want || got.Code != None {
			t.Errorf("%d: offset %d, %v, want %d", ts, got.Offset, got.Err, want)
		}
	}
}

// zipped is a batch with its records in gzip.
func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	out := bytes.NewBuffer(slices.Clone(b[:format.HeaderSizeV2]))
	w := gzip.NewWriter(out)
	if _, err := w.Write(b[format.HeaderSizeV2:]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	z := out.Bytes()
	z[22] |= byte(format.CodecGzip)
	binary.BigEndian.PutUint32(z[8:], uint32(len(z)-12))
	binary.BigEndian.PutUint32(z[17:], crc32.Checksum(z[21:], crc32.MakeTable(crc32.Castagnoli)))
	return z
}

// TestByTimeInflatesAsAStream: a batch of a few kilobytes that inflates to 16 MiB is looked through without its being in memory,
// in either tier, and one that inflates to more than may be is an error that names it.
func TestByTimeInflatesAsAStream(t *testing.T) {
	const size, most = 16 << 20, 4 << 20
	s := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9})
	s.Log = zipped(t, batch{Base: 0, Last: 9, Size: size}.Bytes(t))
	s.Meta.SizeBytes = int64(len(s.Log))
	for name, p := range map[string]*Partition{"remote": remotePartition(t, s), "local": withLocal(t, remotePartition(t, s), s)} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, Better, memrsm.New(memrsm.Inline, s), p)
			for _, ts := range []int64{500, MaxTimestamp} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				got := lookUp(r, ts)
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; got.Offset != 0 || got.Code != None || took > most {
					t.Errorf("%d: offset %d, %v, and %d bytes were allocated", ts, got.Offset, got.Err, took)
				}
			}
			if _, peak := r.inflating.InUse(); peak == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

// TestTimeScanGoesOn: what a scan without a time index passed over is not passed over again.
func TestTimeScanGoesOn(t *testing.T) {
	var bs []batch
	for i := range int64(3000) {
		bs = append(bs, batch{Base: 10 * i, Last: 10*i + 9, Size: 1000, Timestamp: 1000 + i})
	}
	s := kafkabytes.NewSegment(t, id("a"), 1, bs...)
	s.TimeIndex = s.TimeIndex[:17]
	store := memrsm.New(memrsm.Ranged, s)
	r := newReader(t, Better, store, remotePartition(t, s))
	var first, second int
	for _, n := range []*int{&first, &second} {
		before := len(store.Calls())
		if got := lookUp(r, 3999); got.Offset != 29990 || got.Code != None {
			t.Fatalf("offset %d, %v", got.Offset, got.Err)
		}
		*n = len(store.Calls()) - before
	}
	if first < 10 || second > 2 {
		t.Errorf("%d calls, then %d", first, second)
	}
	if got := lookUp(r, 2000); got.Offset != 10000 || got.Code != None {
		t.Errorf("offset %d, %v", got.Offset, got.Err)
	}
}

// TestTimeIndexErrorsThatPass stay errors: a retry finds what a scan would have to look for.
func TestTimeIndexErrorsThatPass(t *testing.T) {
	s := unordered(t)
	store := memrsm.New(memrsm.Inline, s)
	store.Before = func(_ context.Context, c memrsm.Call) error {
		if c.Index == abi.TimeIndex {
			return abi.Errorf("fetch_index", "x", abi.Denied, "no")
		}
		return nil
	}
	r := newReader(t, Better, store, remotePartition(t, s))
	if got := lookUp(r, 300); got.Code == None {
		t.Error(fmt.Sprint("no error: ", got))
	}
}
