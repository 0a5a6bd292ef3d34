package reader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestUnusableOffsetIndexIsScanned: whatever is wrong with an offset index, each offset is read, and a finding that is
// repaired names the segment.
func TestUnusableOffsetIndexIsScanned(t *testing.T) {
	entry := kafkabytes.AppendEntry
	good := tens(t, 1, 0, 4, 100).OffsetIndex
	for _, tt := range []struct {
		name  string
		index []byte
		err   error
	}{
		{name: "cut", index: good[:11]},
		{name: "of another format", index: []byte("thirteen char")},
		{name: "offsets beyond 2^31", index: entry(entry(nil, 19, 100), 1<<31+5, 200)},
		{name: "positions that fall", index: entry(entry(nil, 19, 200), 29, 100)},
		{name: "gone", err: abi.Errorf("fetch_index", "x", abi.NotFound, "gone")},
		{name: "gone, while the log is there", err: abi.Errorf("fetch_index", "x", abi.Corrupt, "gone")},
		{name: "too large", err: abi.Errorf("fetch_index", "x", abi.Exhausted, "too large")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forms(t, func(t *testing.T, form memrsm.Form) {
				s := tens(t, 1, 0, 4, 100)
				s.OffsetIndex = tt.index
				store := memrsm.New(form, s)
				store.Before = func(_ context.Context, c memrsm.Call) error {
					if c.Index == abi.OffsetIndex {
						return tt.err
					}
					return nil
				}
				r := newReader(t, Better, store, remotePartition(t, s))
				for offset := int64(0); offset < 40; offset++ {
					got := one(t, r, ask("a", offset, 100))
					want(t, fmt.Sprint("offset ", offset), got, None, fmt.Sprintf("[%d]", offset/10*10))
					if offset == 0 {
						continue // no index is needed
					}
					if len(got.Findings) != 1 || !got.Findings[0].Repaired || !strings.Contains(got.Findings[0].What, s.Meta.Key()) {
						t.Fatalf("offset %d: findings %v", offset, got.Findings)
					}
				}
				if n := indexCalls(store, abi.OffsetIndex); n > 2 {
					t.Errorf("the index was asked for %d times", n)
				}
			})
		})
	}
}

func indexCalls(store *memrsm.Store, typ abi.IndexType) (n int) {
	for _, c := range store.Calls() {
		if c.Index == typ {
			n++
		}
	}
	return n
}

// TestIndexIsAskedForAgain: an index that could not be used is used again once it is good.
func TestIndexIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tens(t, 1, 0, 4, 100)
		bad := *s
		bad.OffsetIndex = s.OffsetIndex[:11]
		store := memrsm.New(memrsm.Inline, &bad)
		r := newReader(t, Better, store, remotePartition(t, s))
		if got := one(t, r, ask("a", 15, 100)); len(got.Findings) != 1 {
			t.Fatalf("findings %v", got.Findings)
		}
		store.Put(s)
		time.Sleep(faultKept)
		got := one(t, r, ask("a", 15, 100))
		want(t, "good again", got, None, "[10]")
		if len(got.Findings) != 0 {
			t.Errorf("findings %v", got.Findings)
		}
	})
}

// TestMisleadingIndex: an entry that leads too far is told, the entry before it is taken, and the store is asked for a better
// index.
func TestMisleadingIndex(t *testing.T) {
	good := tens(t, 1, 0, 40, 100)
	for at := range len(good.OffsetIndex) / 8 {
		for bit := range 64 {
			s := *good
			s.OffsetIndex = slices.Clone(good.OffsetIndex)
			s.OffsetIndex[8*at+bit/8] ^= 0x80 >> (bit % 8)
			r := newReader(t, Better, memrsm.New(memrsm.Inline, &s), remotePartition(t, good))
			for _, offset := range []int64{int64(10*at + 5), int64(10*at + 15), int64(10*at + 19), int64(10*at + 20), 395} {
				what := fmt.Sprintf("entry %d, bit %d, offset %d", at, bit, offset)
				want(t, what, one(t, r, ask("a", min(offset, 399), 100)), None, fmt.Sprintf("[%d]", min(offset, 399)/10*10))
			}
		}
	}
}

// TestScanGoesOnWhereItWasCutOff: a scan that takes longer than any request comes to its end by the requests' retries.
func TestScanGoesOnWhereItWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tens(t, 1, 0, 8000, 1000)
		s.OffsetIndex = []byte("thirteen char")
		store := memrsm.New(memrsm.Ranged, s)
		delays(store, []*Partition{remotePartition(t, s)}, map[string]time.Duration{"a": time.Second})
		r := newReader(t, Better, store, remotePartition(t, s))
		for rounds := 1; ; rounds++ {
			ctx, cancel := context.WithTimeout(context.Background(), 7*time.Second)
			got := fetch(t, r, ctx, FetchRequest{MaxBytes: 1 << 20, Partitions: []FetchPartition{ask("a", 79_995, 1000)}})[0]
			cancel()
			if got.Code == None {
				want(t, "the last batch", got, None, "[79990]")
				if rounds < 2 {
					t.Error("the first request came to the end: nothing is tested")
				}
				return
			}
			if rounds > 5 {
				t.Fatalf("no end after %d rounds: %v", rounds, got.Err)
			}
		}
	})
}

// TestScanIndexIsBounded: it holds no more entries than it may, however large the segment is and wherever scans began.
func TestScanIndexIsBounded(t *testing.T) {
	var x scanIndexes
	for n := range 2 * scanSegments {
		s := tens(t, byte(n), 0, 1, 100)
		s.Meta.SegmentID[0], s.Meta.SizeBytes = byte(n>>8), 1<<30
		seg := remotePartition(t, s).Remote.Segments()[0]
		for i := range int64(5000) {
			x.passed(seg, scanEntry{last: i, pos: i * 200_000, before: unknownTime})
		}
		if n := len(x.segs[seg.SegmentID].entries); n == 0 || n > 2*scanEntries {
			t.Fatalf("%d entries", n)
		}
	}
	if len(x.segs) > scanSegments {
		t.Errorf("%d segments", len(x.segs))
	}
}

// TestShortObjectIsReadOnceItIsWhole: what was short when it was first asked for, as an upload under way is, is read as soon as
// it is whole.
func TestShortObjectIsReadOnceItIsWhole(t *testing.T) {
	for _, what := range []string{"log", "index"} {
		t.Run(what, func(t *testing.T) {
			forms(t, func(t *testing.T, form memrsm.Form) {
				s := tens(t, 1, 0, 4, 100)
				short := *s
				if what == "log" {
					short.Log = s.Log[:250]
				} else {
					short.OffsetIndex = s.OffsetIndex[:11]
				}
				store := memrsm.New(form, &short)
				r := newReader(t, Better, store, remotePartition(t, s))
				if got := one(t, r, ask("a", 35, 1000)); what == "log" && got.Code != CorruptMessage {
					t.Errorf("short: %v", got.Code)
				}
				store.Put(s)
				want(t, "whole", one(t, r, ask("a", 35, 1000)), None, "[30]")
			})
		})
	}
}

// TestAnotherSegmentsObject: an object that is not the segment's is CORRUPT wherever a read begins: its size, its offsets, or its
// leader epoch are not the metadata's.
func TestAnotherSegmentsObject(t *testing.T) {
	right := tens(t, 1, 40, 4, 100)
	epoch := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 40, Last: 49, Size: 100, Epoch: 3}, batch{Base: 50, Last: 59, Size: 100, Epoch: 3},
		batch{Base: 60, Last: 69, Size: 100, Epoch: 3}, batch{Base: 70, Last: 79, Size: 100, Epoch: 3})
	for _, tt := range []struct {
		name  string
		other *segment
		want  string
	}{
		{"smaller", tens(t, 2, 40, 3, 100), "its metadata says 400"},
		{"larger", tens(t, 2, 40, 5, 100), "the object has 500 bytes, and its metadata says 400"},
		{"earlier offsets", tens(t, 2, 0, 4, 100), "outside of the segment's offsets"},
		{"later offsets", tens(t, 2, 80, 4, 100), "outside of the segment's offsets"},
		{"another epoch", epoch, "leader epoch 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forms(t, func(t *testing.T, form memrsm.Form) {
				s := *right
				s.Log = tt.other.Log
				r := newReader(t, Better, memrsm.New(form, &s), remotePartition(t, right))
				for _, offset := range []int64{40, 55, 79} {
					got := one(t, r, ask("a", offset, 100))
					want(t, fmt.Sprint("from ", offset), got, CorruptMessage, "[]")
					if !strings.Contains(got.Err.Error(), tt.want) || !strings.Contains(got.Err.Error(), right.Meta.Key()) {
						t.Errorf("from %d: %v, want %q", offset, got.Err, tt.want)
					}
				}
			})
		})
	}
}

// TestMovedBatch moves each batch of a segment by each bit of its base offset, and asks from each offset for one batch or
// several: what is given is right, and what is not given is an error.
func TestMovedBatch(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		for k := range 5 {
			for bit := 56; bit < 64; bit++ {
				s := tens(t, 1, 100, 5, 100)
				if !indexed {
					s.OffsetIndex = nil
				}
				s.Log[100*k+bit/8] ^= 0x80 >> (bit % 8)
				r := newReader(t, Better, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
				for offset := int64(100); offset < 150; offset++ {
					for _, room := range []int64{100, 250, 1000} {
						got := one(t, r, ask("a", offset, room))
						what := fmt.Sprintf("index %v, batch %d, bit %d, offset %d, %d bytes: %v %s", indexed, k, bit, offset, room, got.Code, bases(got))
						switch damaged := int64(100 + 10*k); {
						case got.Code == None && strings.Contains(bases(got), fmt.Sprint(damaged)):
							t.Fatalf("%s: the moved batch went out", what)
						case got.Code == None && !strings.HasPrefix(bases(got), fmt.Sprintf("[%d", offset/10*10)):
							t.Fatalf("%s: %v", what, got.Err)
						case got.Code != None && got.Code != CorruptMessage, got.Code != None && offset < damaged:
							t.Fatalf("%s: %v", what, got.Err)
						}
					}
				}
			}
		}
	}
}

// TestSegmentWithoutItsFirstOffsets: a segment that begins later than its metadata says, and shows no sign of compaction, is a
// finding; a compacted one is none.
func TestSegmentWithoutItsFirstOffsets(t *testing.T) {
	single := func(bases ...int64) *segment {
		var bs []batch
		for _, b := range bases {
			bs = append(bs, batch{Base: b, Last: b})
		}
		return kafkabytes.NewSegment(t, id("a"), 1, bs...)
	}
	for _, tt := range []struct {
		name       string
		seg        *segment
		start, end int64
		findings   string
	}{
		{"whole", single(0, 1, 2), 0, 2, ""},
		{"begins later", single(2, 3, 4), 0, 4, "begins with offset 2"},
		{"ends earlier", single(0, 1, 2), 0, 4, "ends with offset 2 and not with 4"},
		{"compacted batches", single(2, 4), 0, 6, ""},
		{"compacted records", tens(t, 1, 2, 1, 100), 0, 14, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.seg.Meta.StartOffset, tt.seg.Meta.EndOffset, tt.seg.OffsetIndex = tt.start, tt.end, nil
			tt.seg.Meta.LeaderEpochs = []abi.LeaderEpoch{{Epoch: 0, StartOffset: tt.start}}
			r := newReader(t, Better, memrsm.New(memrsm.Inline, tt.seg), remotePartition(t, tt.seg))
			got := one(t, r, ask("a", 0, 1000))
			var all string
			for _, f := range got.Findings {
				all += f.String()
				if f.Repaired {
					t.Errorf("%s is repaired", f)
				}
			}
			if got.Code != None || tt.findings == "" && all != "" || !strings.Contains(all, tt.findings) {
				t.Errorf("%v, findings %q, want %q", got.Code, all, tt.findings)
			}
		})
	}
}
