package reader

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// delivered is the base offsets of the batches of data that a client makes of a read_committed answer.
func delivered(t testing.TB, p PartitionData) string {
	t.Helper()
	out, left, dropped := []int64{}, slices.Clone(p.Aborted), map[int64]bool{}
	for w := format.Walk(p.Records); w.Next(); {
		h := w.Header()
		for len(left) > 0 && left[0].FirstOffset <= h.LastOffset {
			dropped[left[0].ProducerID], left = true, left[1:]
		}
		if h.IsControl() {
			if abort, _, err := format.EndOfTransaction(w.Bytes()); err != nil || abort {
				delete(dropped, h.ProducerID)
			}
			continue
		}
		if !h.IsTransactional() || !dropped[h.ProducerID] {
			out = append(out, h.BaseOffset)
		}
	}
	return fmt.Sprint(out)
}

// transactionLog is two segments: producer 7 aborts from 10, 8 commits from 20 and aborts from 60, 9 aborts from 0; the markers of
// the first three lie behind gap bytes in the second segment.
//
//	first   0 of 9, 10 of 7, 20 of 8, 30 plain
//	second  40 plain, gap, 7 aborts at 50, 8 commits at 51, 9 aborts at 52, 60 of 8, 8 aborts at 70, 80 plain
func transactionLog(t testing.TB, gap int) (first, second *segment) {
	t.Helper()
	first = kafkabytes.NewSegment(t, id("a"), 1, txn(0, 9, 9), txn(10, 19, 7), txn(20, 29, 8), batch{Base: 30, Last: 39})
	second = kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 40, Last: 44}, batch{Base: 45, Last: 49, Size: gap}, kafkabytes.Marker(50, 7, false),
		kafkabytes.Marker(51, 8, true), kafkabytes.Marker(52, 9, false), txn(60, 69, 8), kafkabytes.Marker(70, 8, false), batch{Base: 80, Last: 89})
	for _, e := range []format.AbortedTxn{{ProducerID: 7, FirstOffset: 10, LastOffset: 50, LastStableOffset: 0},
		{ProducerID: 9, FirstOffset: 0, LastOffset: 52, LastStableOffset: 53}, {ProducerID: 8, FirstOffset: 60, LastOffset: 70, LastStableOffset: 71}} {
		second.TxnIndex = kafkabytes.AppendAborted(second.TxnIndex, e)
	}
	first.Meta.TxnIndexEmpty, second.Meta.TxnIndexEmpty = false, false
	return first, second
}

// flipped is an index with bits of a byte changed.
func flipped(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = slices.Clone(b)
		b[at] ^= 0x05
		return b
	}
}

// TestReadCommittedBelievesTheData: whatever becomes of a transaction index, a client is given no aborted record and all others,
// whether the markers lie in the answer, near behind it or far. It need not be told of an index that nobody needed.
func TestReadCommittedBelievesTheData(t *testing.T) {
	const entry = 34
	for name, damage := range map[string]func([]byte) []byte{
		"good":                 func(b []byte) []byte { return b },
		"missing":              func([]byte) []byte { return nil },
		"empty":                func([]byte) []byte { return []byte{} },
		"a producer id":        flipped(9),
		"the next producer id": flipped(entry + 9),
		"a first offset":       flipped(17),
		"a last offset":        flipped(25),
		"a last stable offset": flipped(33),
		"a version":            flipped(1),
		"cut in an entry":      func(b []byte) []byte { return b[:60] },
		"another segment's": func([]byte) []byte {
			return kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 3, FirstOffset: 1, LastOffset: 41, LastStableOffset: 42})
		},
		"a commit taken for abort": func(b []byte) []byte {
			return kafkabytes.AppendAborted(slices.Clone(b[:entry]), format.AbortedTxn{ProducerID: 8, FirstOffset: 20, LastOffset: 51, LastStableOffset: 52})
		},
		"its first entry is missing": func(b []byte) []byte { return b[entry:] },
	} {
		for far, gap := range map[string]int{"near": 0, "far": searchFirst + searchFirst/2} {
			if far == "far" && name == "its first entry is missing" {
				continue // what an index lacks is not seen where nobody reads as far
			}
			for _, told := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, told %v", name, far, told), func(t *testing.T) {
					first, second := transactionLog(t, gap)
					second.TxnIndex = damage(second.TxnIndex)
					first.Meta.TxnIndexEmpty = told
					r := newReader(t, Better, memrsm.New(memrsm.Inline, first, second), remotePartition(t, first, second))
					for _, tt := range []struct {
						offset int64
						room   int
						want   string
					}{
						{0, len(first.Log), "[20 30]"}, // the markers lie behind it
						{0, len(first.Log) + len(second.Log), "[20 30 40 45 80]"},
						{10, len(first.Log), "[20 30 40]"},
						{40, len(second.Log), "[40 45 80]"},
						{60, 100, "[]"},
					} {
						got := committed(t, r, ask("a", tt.offset, int64(tt.room)))
						if s := delivered(t, got); got.Code != None || !strings.HasPrefix(s, strings.TrimSuffix(tt.want, "]")) {
							t.Errorf("from %d, %d bytes: %s, %v (%v), want %s; aborted %v", tt.offset, tt.room, s, got.Code, got.Err, tt.want, got.Aborted)
						}
					}
				})
			}
		}
	}
}

// TestLostTransactionIndexIsTold: an abort marker that no index names is a finding of the answer that has it.
func TestLostTransactionIndexIsTold(t *testing.T) {
	first, second := transactionLog(t, 0)
	second.TxnIndex = nil
	r := newReader(t, Better, memrsm.New(memrsm.Inline, first, second), remotePartition(t, first, second))
	got := committed(t, r, ask("a", 0, 1<<20))
	if len(got.Findings) == 0 || !got.Findings[0].Repaired || !strings.Contains(got.Findings[0].String(), "the transaction index is missing") {
		t.Errorf("findings %v", got.Findings)
	}
}

// TestAbortWithoutAMarker: an entry of a transaction that nothing in the data ends is believed, and told.
func TestAbortWithoutAMarker(t *testing.T) {
	s := kafkabytes.NewSegment(t, id("a"), 1, txn(0, 9, 7), batch{Base: 10, Last: 19})
	s.Meta.TxnIndexEmpty = false
	s.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 7, FirstOffset: 0, LastOffset: 12, LastStableOffset: 13})
	got := committed(t, newReader(t, Better, memrsm.New(memrsm.Inline, s), remotePartition(t, s)), ask("a", 0, 1))
	if want := []AbortedTransaction{{7, 0}}; !slices.Equal(got.Aborted, want) || len(got.Findings) != 1 || got.Findings[0].Repaired {
		t.Errorf("aborted %v, want %v, with one finding: %v", got.Aborted, want, got.Findings)
	}
}

// TestReadCommittedEndsBeforeAHole: where no segment holds the marker of a transaction, its records are not given, and what lies
// before them is.
func TestReadCommittedEndsBeforeAHole(t *testing.T) {
	for _, told := range []bool{false, true} {
		_, second := transactionLog(t, 0)
		third := kafkabytes.NewSegment(t, id("a"), 3, batch{Base: 90, Last: 99}, kafkabytes.Marker(100, 7, false))
		before := kafkabytes.NewSegment(t, id("a"), 4, batch{Base: 0, Last: 9})
		first := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 10, Last: 19}, txn(20, 29, 8), batch{Base: 30, Last: 39})
		first.Meta.TxnIndexEmpty, third.Meta.TxnIndexEmpty = told, told
		r := newReader(t, Better, memrsm.New(memrsm.Inline, before, first, second, third), remotePartition(t, before, first, third))
		got := committed(t, r, ask("a", 0, 1<<20))
		want(t, "before it", got, None, "[0 10]")
		if len(got.Findings) != 1 || got.Findings[0].Repaired || got.Findings[0].Offset != 40 || len(got.Aborted) > 0 {
			t.Errorf("told %v: findings %v", told, got.Findings)
		}
		got = committed(t, r, ask("a", 20, 1<<20))
		want(t, "at it", got, KafkaStorageError, "[]")
		if got.Err == nil || !strings.Contains(got.Err.Error(), "no segment holds offset 40") {
			t.Errorf("told %v: %v", told, got.Err)
		}
		want(t, "read_uncommitted", one(t, r, ask("a", 20, 100)), None, "[20]")
		want(t, "behind the transaction", committed(t, r, ask("a", 30, 100)), None, "[30]")
	}
}

// TestLostLocalTransactionIndex: the local log's own is not needed either, in both forms of an answer.
func TestLostLocalTransactionIndex(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{"missing": func([]byte) []byte { return nil }, "flipped": flipped(9)} {
		for _, files := range []bool{false, true} {
			first, second := transactionLog(t, 0)
			second.TxnIndex = damage(second.TxnIndex)
			p := withLocal(t, remotePartition(t, first), first, second)
			p.Offsets.LastStableOffset = p.Offsets.LogEnd
			r := newReader(t, Better, memrsm.New(memrsm.Inline, first), p)
			got := fetch(t, r, context.Background(), FetchRequest{MaxBytes: 1 << 20, Isolation: 1, Files: files, Partitions: []FetchPartition{ask("a", 0, int64(len(first.Log)))}})[0]
			if want := []AbortedTransaction{{9, 0}, {7, 10}}; !slices.Equal(got.Aborted, want) {
				t.Errorf("%s, files %v: aborted %v (%v), want %v", name, files, got.Aborted, got.Err, want)
			}
		}
	}
}

// TestUnknownTransactionIndexes: where the metadata does not tell, and the store has none, each is asked for once, and the data
// that says so is read once, however many reads there are.
func TestUnknownTransactionIndexes(t *testing.T) {
	var segs []*segment
	for i := range int64(40) {
		s := kafkabytes.NewSegment(t, id("a"), byte(i+1), kafkabytes.Marker(10*i, 7, true), batch{Base: 10*i + 5, Last: 10*i + 9})
		if i%2 == 0 {
			s = kafkabytes.NewSegment(t, id("a"), byte(i+1), txn(10*i, 10*i+4, 7), txn(10*i+5, 10*i+9, 7))
		}
		s.Meta.TxnIndexEmpty = false
		segs = append(segs, s)
	}
	store := memrsm.New(memrsm.Ranged, segs...)
	r := newReader(t, Better, store, remotePartition(t, segs...))
	asked := func() (logs, indexes int) {
		for _, c := range store.Calls() {
			switch c.Index {
			case 0:
				logs++
			case abi.TransactionIndex:
				indexes++
			}
		}
		return logs, indexes
	}
	for offset := int64(0); offset < 400; offset += 5 {
		if got := committed(t, r, ask("a", offset, 1)); got.Code != None || len(got.Aborted) != 0 {
			t.Fatalf("from %d: %v, aborted %v", offset, got.Err, got.Aborted)
		}
	}
	logs, indexes := asked()
	if indexes > len(segs) || logs > 5*len(segs) { // the latter: each of two reads a segment, with what lies behind
		t.Errorf("%d segments: %d indexes were asked for, and logs %d times", len(segs), indexes, logs)
	}
	for offset := int64(0); offset < 400; offset += 10 {
		committed(t, r, ask("a", offset, 1))
	}
	again, indexesAgain := asked()
	if indexesAgain != indexes || again != logs+len(segs) {
		t.Errorf("a second time: %d indexes, logs %d times, want none and one a read", indexesAgain-indexes, again-logs)
	}
}

// TestMarkerInTheWrongPlaceDecidesNothing: where a marker is a copy of the one before it, the transaction that it ended is the
// index's word, and not that of the same producer's next marker.
func TestMarkerInTheWrongPlaceDecidesNothing(t *testing.T) {
	first := kafkabytes.NewSegment(t, id("a"), 1, txn(0, 9, 7), txn(10, 19, 8))
	second := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 20, Last: 29}, kafkabytes.Marker(30, 8, false), kafkabytes.Marker(31, 7, false),
		txn(32, 39, 7), kafkabytes.Marker(40, 7, true))
	for _, e := range []format.AbortedTxn{{ProducerID: 8, FirstOffset: 10, LastOffset: 30, LastStableOffset: 0}, {ProducerID: 7, FirstOffset: 0, LastOffset: 31, LastStableOffset: 32}} {
		second.TxnIndex = kafkabytes.AppendAborted(second.TxnIndex, e)
	}
	first.Meta.TxnIndexEmpty, second.Meta.TxnIndexEmpty = true, false
	one, other := kafkabytes.Marker(30, 8, false).Bytes(t), kafkabytes.Marker(31, 7, false).Bytes(t)
	second.Log = bytes.Replace(second.Log, other, one, 1)
	for _, room := range []int{len(first.Log), 1 << 20} {
		r := newReader(t, Better, memrsm.New(memrsm.Inline, first, second), remotePartition(t, first, second))
		got := committed(t, r, ask("a", 0, int64(room)))
		if s := delivered(t, got); s != "[]" && s != "[20]" {
			t.Errorf("%d bytes: %s (%v), aborted %v: what 7 and 8 wrote was aborted", room, s, got.Err, got.Aborted)
		}
	}
}

// TestAbortBeginsBehindTheMarkerBefore: an entry that has a transaction begin before the same producer's marker before it would have
// a client drop what that one commits, or deliver what the later one aborts.
func TestAbortBeginsBehindTheMarkerBefore(t *testing.T) {
	abort := func(first, last int64) format.AbortedTxn {
		return format.AbortedTxn{ProducerID: 8, FirstOffset: first, LastOffset: last}
	}
	for name, tt := range map[string]struct {
		batches []batch
		index   []format.AbortedTxn
		want    string
	}{
		"a commit":             {[]batch{txn(10, 19, 8), kafkabytes.Marker(20, 8, true), txn(30, 39, 8), kafkabytes.Marker(40, 8, false)}, nil, "[10]"},
		"a commit, in pieces":  {[]batch{txn(10, 14, 8), txn(15, 19, 8), kafkabytes.Marker(20, 8, true), txn(30, 39, 8), kafkabytes.Marker(40, 8, false)}, nil, "[10 15]"},
		"a commit, no data":    {[]batch{txn(10, 19, 8), kafkabytes.Marker(20, 8, true), {Base: 30, Last: 39}, kafkabytes.Marker(40, 8, false)}, nil, "[10 30]"},
		"an abort":             {[]batch{txn(10, 19, 8), kafkabytes.Marker(20, 8, false), txn(30, 39, 8), kafkabytes.Marker(40, 8, false)}, []format.AbortedTxn{abort(10, 20)}, "[]"},
		"an abort of no data":  {[]batch{kafkabytes.Marker(20, 8, false), txn(30, 39, 8), kafkabytes.Marker(40, 8, false)}, nil, "[]"},
		"a commit of no data":  {[]batch{kafkabytes.Marker(20, 8, true), txn(30, 39, 8), kafkabytes.Marker(40, 8, false)}, nil, "[]"},
		"another's commit too": {[]batch{txn(10, 19, 8), txn(20, 29, 6), kafkabytes.Marker(30, 6, true), kafkabytes.Marker(31, 8, false), txn(32, 39, 6), kafkabytes.Marker(40, 8, false)}, []format.AbortedTxn{abort(10, 31)}, "[20 32]"},
	} {
		for _, first := range []int64{32, 5} {
			t.Run(fmt.Sprintf("%s, from %d", name, first), func(t *testing.T) {
				seg := kafkabytes.NewSegment(t, id("a"), 1, slices.Concat([]batch{txn(0, 9, 9)}, tt.batches, []batch{kafkabytes.Marker(41, 9, false)})...)
				for _, e := range append(slices.Clone(tt.index), abort(first, 40), format.AbortedTxn{ProducerID: 9, LastOffset: 41, LastStableOffset: 42}) {
					seg.TxnIndex = format.AppendAborted(seg.TxnIndex, e)
				}
				seg.Meta.TxnIndexEmpty = false
				r := newReader(t, Better, memrsm.New(memrsm.Inline, seg), remotePartition(t, seg))
				got := committed(t, r, ask("a", 0, 1<<20))
				if s := delivered(t, got); s != tt.want {
					t.Errorf("%s, want %s; aborted %v", s, tt.want, got.Aborted)
				}
			})
		}
	}
}
