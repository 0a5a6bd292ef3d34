package rlmm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// The tests of this file are rows and letters of spec section 11: what went wrong for Kafka, and does not here.

// TestDefect13OverlappingUploads: two leaders upload the same offsets, cut differently; none is hidden (KAFKA-15168).
func TestDefect13OverlappingUploads(t *testing.T) {
	p := partition(t, all(copied(1, 0, 99), copied(2, 100, 199), copied(3, 50, 149), copied(4, 150, 249))...)
	for offset := range int64(250) {
		if _, ok := p.Lookup(0, offset); !ok {
			t.Errorf("offset %d is hidden", offset)
		}
	}
	want(t, "reachable", reachable(p), "[1 3 2 4]")
}

// TestDefect14OverlapsDeletedEpochs: a segment that overlaps epoch starts that were deleted since is the lineage's, so
// that it is read and counted as such (KAFKA-16511, KAFKA-16890). The table is all of TestWithinLineage.
func TestDefect14OverlapsDeletedEpochs(t *testing.T) {
	s := announce(1, 14, 150, 5, 14, 7, 15, 9, 100)
	if !WithinLineage(&s.SegmentMetadata, lineage(7, 51, 9, 100), 210) {
		t.Error("it is not")
	}
}

// TestDefect32InvalidEvents: what can't be applied is dropped, and what comes behind it counts (KAFKA-15632).
func TestDefect32InvalidEvents(t *testing.T) {
	s := NewStore()
	for _, bad := range [][]byte{nil, {1, 77, 0}, {2}, {1, 0, 0, 5}} {
		if s.Apply(bad) == nil {
			t.Errorf("% x was applied", bad)
		}
	}
	events := []any{move(1, format.CopySegmentFinished), announce(1, 0, 9), move(1, format.DeleteSegmentFinished), move(1, format.CopySegmentFinished)}
	var failed []int
	for i, e := range events {
		value, err := format.AppendRemoteLogMetadata(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if s.Apply(value) != nil {
			failed = append(failed, i)
		}
	}
	p, _ := s.Partition(tp)
	want(t, "dropped", fmt.Sprint(failed), "[0 2]")
	want(t, "lookup", at(p, p.Lookup, 0, 5), "[5:1]")
	if d := p.Dropped(); d.Count != 2 || len(d.First) != 2 {
		t.Errorf("counted: %+v", d)
	}
}

// TestDefect35CountsOnce: a segment that two uploads brought is read once, and where the log begins is told by what a
// lookup reaches, never by sums of sizes (KAFKA-20732).
func TestDefect35CountsOnce(t *testing.T) {
	p := partition(t, all(copied(1, 0, 99), copied(2, 0, 99), copied(3, 100, 199))...)
	want(t, "reachable", reachable(p), "[2 3]")
	if start, ok := p.LogStartInLineage(lineage(0, 0)); start != 0 || !ok {
		t.Errorf("log start %d, %v", start, ok)
	}
	if first, last, _ := p.Range(); first != 0 || last != 199 {
		t.Errorf("range %d to %d", first, last)
	}
}

// TestDefectA1Nested: a later segment inside an earlier one hides the offsets behind it in Kafka, not here (spec 5.4).
func TestDefectA1Nested(t *testing.T) {
	p := partition(t, all(copied(1, 10, 200), copied(2, 50, 100))...)
	offsets := []int64{10, 49, 50, 100, 101, 150, 200, 201}
	want(t, "as Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:1 49:1 50:2 100:2 101:- 150:- 200:- 201:-]")
	want(t, "lookup", at(p, p.Lookup, 0, offsets...), "[10:1 49:1 50:2 100:2 101:1 150:1 200:1 201:-]")
	wantHighest(t, "nested", p, 0, 200)

	p = partition(t, all(copied(1, 0, 300), copied(2, 50, 100), copied(3, 60, 80))...)
	want(t, "twice", at(p, p.Lookup, 0, 59, 70, 90, 101), "[59:2 70:3 90:2 101:1]")
}

// TestDefectA2SameStart: a later segment that begins with an earlier one and ends before it makes Kafka forget the rest of
// that, and its place in the lists of its epoch.
func TestDefectA2SameStart(t *testing.T) {
	p := partition(t, all(copied(1, 10, 150), copied(2, 10, 100))...)
	offsets := []int64{10, 100, 101, 150, 151}
	want(t, "as Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:2 100:2 101:- 150:- 151:-]")
	want(t, "lookup", at(p, p.Lookup, 0, offsets...), "[10:2 100:2 101:1 150:1 151:-]")
	want(t, "the epoch's list", numbers(p.EpochSegments(0)), "[1 2]")
	apply(t, p, move(2, format.DeleteSegmentStarted))
	want(t, "deleted, as Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:- 100:- 101:- 150:- 151:-]")
	want(t, "deleted", at(p, p.Lookup, 0, offsets...), "[10:1 100:1 101:1 150:1 151:-]")
}

// TestDefectA3Swap: while overlapping segments supersede each other, a lookup never finds nothing.
func TestDefectA3Swap(t *testing.T) {
	p := partition(t, copied(0, 10, 100)...)
	var done atomic.Bool
	hammer.Run(t, 4, 1, func(g, _ int) {
		if g == 0 {
			for n := byte(1); n < 250; n++ {
				apply(t, p, copied(n, int64(10-n%2), 100+int64(n))...)
				if n > 1 {
					apply(t, p, move(n-1, format.DeleteSegmentStarted), move(n-1, format.DeleteSegmentFinished))
				}
			}
			done.Store(true)
			return
		}
		for !done.Load() {
			if _, ok := p.Lookup(0, 50); !ok {
				t.Error("a lookup found nothing during a swap")
				return
			}
		}
	})
}

// TestDefectFHighestStays: as in Kafka, and on purpose, the highest offset does not fall when retention deletes what it
// points at: clients would see LATEST_TIERED go back. Where nothing is left a lookup says so, and Range tells what can be
// read.
func TestDefectFHighestStays(t *testing.T) {
	p := partition(t, all(copied(1, 0, 9), copied(2, 10, 19))...)
	apply(t, p, move(2, format.DeleteSegmentStarted), move(2, format.DeleteSegmentFinished))
	if _, h := p.HighestInLineage(lineage(0, 0), 100); h != 19 {
		t.Errorf("highest %d, want 19", h)
	}
	want(t, "lookup", at(p, p.Lookup, 0, 9, 19), "[9:1 19:-]")
	if _, last, _ := p.Range(); last != 9 {
		t.Errorf("the range ends at %d, want 9", last)
	}
}

func lineage(pairs ...int64) epoch.Lineage {
	var out []abi.LeaderEpoch
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, abi.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return epoch.Of(out)
}

// TestSpans holds the chunked list against a plain one, over several chunks and groups.
func TestSpans(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s spans
		var plain []span
		for range 12_000 {
			x := span{start: r.Int64N(1500), rec: &record{}}
			x.end = x.start + r.Int64N(1+r.Int64N(1+r.Int64N(500)))
			switch n := len(plain); {
			case n > 0 && r.IntN(10) < int([]int{3, 6, 1}[seed%3]):
				i := r.IntN(n)
				if !s.has(plain[i].start, plain[i].rec) || !s.remove(plain[i].start, plain[i].rec) || s.remove(plain[i].start, plain[i].rec) {
					t.Fatalf("seed %d: a span was not there", seed)
				}
				plain = slices.Delete(plain, i, i+1)
			case seed%3 != 2 && r.IntN(3000) == 0:
				s.cut(x.start)
				plain = slices.DeleteFunc(plain, func(o span) bool { return o.start >= x.start })
			default:
				if seed%3 == 2 { // in order: several groups
					x.start, x.end = int64(len(plain)), x.end+int64(len(plain))-x.start
				}
				s.insert(x)
				i := slices.IndexFunc(plain, func(o span) bool { return o.start > x.start })
				if i < 0 {
					i = len(plain)
				}
				plain = slices.Insert(plain, i, x)
			}
		}
		checkSpans(t, seed, &s, plain)
		if seed%3 == 2 && len(s.groups) < 2 {
			t.Errorf("seed %d: one group alone", seed)
		}
	}
}

func checkSpans(t *testing.T, seed uint64, s *spans, plain []span) {
	t.Helper()
	if got := slices.Collect(s.at(-1)); !slices.Equal(got, plain) {
		t.Fatalf("seed %d: %d spans in another order than the %d wanted", seed, len(got), len(plain))
	}
	for offset := int64(-1); offset < 2100; offset += 7 {
		var want *record
		below := slices.DeleteFunc(slices.Clone(plain), func(x span) bool { return x.start > offset })
		slices.Reverse(below)
		if i := slices.IndexFunc(below, func(x span) bool { return x.end >= offset }); i >= 0 {
			want = below[i].rec
		}
		if s.holding(offset) != want {
			t.Fatalf("seed %d, offset %d: another span", seed, offset)
		}
		if !slices.Equal(slices.Collect(s.before(offset)), below) {
			t.Fatalf("seed %d, offset %d: other spans below it", seed, offset)
		}
	}
	for c, chunk := range s.chunks {
		if len(chunk) == 0 || len(chunk) > chunkSize || s.starts[c] != chunk[0].start || s.ends[c] != maxEnd(chunk) {
			t.Fatalf("seed %d: chunk %d of %d spans, start %d, end %d", seed, c, len(chunk), s.starts[c], s.ends[c])
		}
	}
	for g, end := range s.groups {
		if end != slices.Max(s.ends[g*groupSize:min((g+1)*groupSize, len(s.ends))]) {
			t.Fatalf("seed %d: group %d ends at %d", seed, g, end)
		}
	}
	if len(s.groups) != (len(s.chunks)+groupSize-1)/groupSize {
		t.Fatalf("seed %d: %d groups of %d chunks", seed, len(s.groups), len(s.chunks))
	}
}

// TestAllInPages: All goes over pages, and never cuts one among equal starts.
func TestAllInPages(t *testing.T) {
	p := newPartition(tp)
	for i := range 3 * pageSize {
		start := int64(i / 100)
		p.putLocked(&record{id: abi.UUID{14: byte(i >> 8), 15: byte(i)}, start: start, end: start, state: format.CopySegmentStarted})
	}
	n, last := 0, int64(0)
	for s := range p.All() {
		if s.StartOffset < last {
			t.Fatal("out of order")
		}
		n, last = n+1, s.StartOffset
	}
	if n != 3*pageSize || p.Len() != n {
		t.Errorf("%d segments of %d", n, p.Len())
	}
	for range p.All() {
		break
	}
}
