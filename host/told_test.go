package host

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// readCommitted says what a read_committed fetch from offset gives: as read does, with the last stable offset and the aborted
// transactions.
func readCommitted(t testing.TB, h *Host, offset int64) string {
	t.Helper()
	p := from("orders", offset)
	p.MaxBytes, p.LastFetchedEpoch = math.MaxInt32, -1
	resp := h.Fetch(context.Background(), &reader.FetchRequest{Version: 17, ReplicaID: locality.Consumer, Isolation: locality.ReadCommitted,
		MaxBytes: math.MaxInt32, Partitions: []reader.FetchPartition{p}})
	defer resp.Release()
	got := &resp.Partitions[0]
	bases := []int64{}
	for w := format.Walk(got.Records); w.Next(); {
		bases = append(bases, w.Header().BaseOffset)
	}
	return fmt.Sprint(got.Code, " ", bases, " stable ", got.LastStableOffset, " aborted ", got.Aborted)
}

// TestRemoteTierEndsBeforeAMarker: a segment is uploaded when its transactions are decided, which they may be in the next
// segment. Without a local tier nothing says how, until that is uploaded too: a read_committed fetch ends where the oldest of
// them begins.
func TestRemoteTierEndsBeforeAMarker(t *testing.T) {
	p := tp("orders", 1)
	txn := func(base int64, pid int64) kafkabytes.Batch {
		return kafkabytes.Batch{Base: base, Last: base + 9, Attributes: kafkabytes.Transactional, ProducerID: pid}
	}
	a := kafkabytes.NewSegment(t, p, 11, txn(0, 8), kafkabytes.Batch{Base: 10, Last: 18, Attributes: kafkabytes.Transactional, ProducerID: 7},
		kafkabytes.Marker(19, 8, false), txn(20, 8))
	a.Snapshot = kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 8, FirstOffset: 20, LastOffset: 29}, kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 18})
	a.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 8, FirstOffset: 0, LastOffset: 19, LastStableOffset: 10})
	a.Meta.TxnIndexEmpty = false
	b := kafkabytes.NewSegment(t, p, 12, kafkabytes.Marker(30, 7, false), kafkabytes.Batch{Base: 31, Last: 38}, kafkabytes.Marker(39, 8, true))
	b.Snapshot = kafkabytes.Snapshot()
	b.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 30, LastStableOffset: 20})
	b.Meta.TxnIndexEmpty = false
	store := memrsm.New(memrsm.Inline, a, b)
	dir := t.TempDir()
	kafkabytes.WriteMetadata(t, dir, finished(a)...)
	h := open(t, Config{RSM: store, Metadata: "dir:" + dir})
	want(t, "up to the transaction", readCommitted(t, h, 0), "NONE [0] stable 10 aborted [{8 0}]")
	want(t, "at it", readCommitted(t, h, 10), "NONE [] stable 10 aborted []")
	want(t, "behind it", readCommitted(t, h, 25), "NONE [] stable 10 aborted []")
	want(t, "read_uncommitted", read(t, h, from("orders", 0)), "NONE [0 10 19 20]")

	kafkabytes.WriteMetadata(t, dir, finished(a, b)...)
	if err := h.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	want(t, "decided", readCommitted(t, h, 0), "NONE [0 10 19 20 30 31 39] stable 40 aborted [{8 0} {7 10}]")
}

// TestProducerSnapshotOfTheRemoteTier: one that is missing or damaged is no reason to take what is undecided for committed: the
// data says what is open, from an earlier snapshot on, and a finding says so.
func TestProducerSnapshotOfTheRemoteTier(t *testing.T) {
	p := tp("orders", 1)
	good := kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 18})
	for name, tt := range map[string]struct {
		snapshot, before []byte
		found            string
	}{
		"good":        {kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 18}), good, ""},
		"missing":     {nil, good, "from offset 20 on"},
		"damaged":     {good[:5], good, "from offset 20 on"},
		"empty":       {[]byte{}, good, "from offset 20 on"},
		"a bit":       {append(good[:len(good)-1:len(good)-1], 11), good, "from offset 20 on"},
		"a later one": {kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 40}), good, "it tells of producer 7 at offset 40"},
		"an earlier one": {kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 10, LastOffset: 18}, kafkabytes.OpenTxn{ProducerID: 8, FirstOffset: 5, LastOffset: 28}),
			good, "which has ended"},
		"one that lacks what was written since": {kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 8, FirstOffset: 5}), good, "which has ended"},
		"none is there":                         {nil, nil, "from offset 0 on"},
		"none can be used":                      {good[:20], good[:20], "from offset 0 on"},
	} {
		t.Run(name, func(t *testing.T) {
			a := kafkabytes.NewSegment(t, p, 11, kafkabytes.Batch{Base: 0, Last: 9}, kafkabytes.Batch{Base: 10, Last: 18, Attributes: kafkabytes.Transactional, ProducerID: 7},
				kafkabytes.Batch{Base: 19, Last: 19})
			b := kafkabytes.NewSegment(t, p, 12, kafkabytes.Batch{Base: 20, Last: 28, Attributes: kafkabytes.Transactional, ProducerID: 8}, kafkabytes.Marker(29, 8, true))
			a.Snapshot, b.Snapshot = tt.before, tt.snapshot
			h := bucket(t, memrsm.New(memrsm.Inline, a, b), finished(a, b)...)
			want(t, name, readCommitted(t, h, 0), "NONE [0] stable 10 aborted []")
			var found string
			for _, f := range h.Findings() {
				found += f.String()
				if !f.Repaired {
					t.Errorf("not repaired: %v", f)
				}
			}
			if (found == "") != (tt.found == "") || !strings.Contains(found, tt.found) {
				t.Errorf("findings %q, want %q", found, tt.found)
			}
		})
	}
}

// TestEndOfWhatIsHeld: where compaction emptied the end of the remote tier, and there is no local one, the high watermark is behind
// the last batch that is there, in all answers: a client that is told of more waits for it for ever, and a read of it asks the
// store each time.
func TestEndOfWhatIsHeld(t *testing.T) {
	p := tp("orders", 1)
	cut := func(number byte, end int64, batches ...kafkabytes.Batch) *segment {
		s := kafkabytes.NewSegment(t, p, number, batches...)
		s.Meta.EndOffset = end
		return s
	}
	batch := func(base int64) kafkabytes.Batch { return kafkabytes.Batch{Base: base, Last: base + 9, Size: 100} }
	whole := tens(t, p, 11, 0, 2, 0)
	emptied := cut(12, 39, batch(20))
	emptied.Meta.StartOffset, emptied.Meta.LeaderEpochs[0].StartOffset = 20, 20
	none := cut(13, 59, batch(40))
	none.Log, none.OffsetIndex, none.Meta.SizeBytes = nil, nil, 0
	for name, tt := range map[string]struct {
		segs []*segment
		end  int64
	}{
		"whole":                     {[]*segment{whole}, 20},
		"the end is emptied":        {[]*segment{whole, emptied}, 30},
		"the last segment is empty": {[]*segment{whole, emptied, none}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			store := memrsm.New(memrsm.Inline, tt.segs...)
			h := bucket(t, store, finished(tt.segs...)...)
			req := &reader.ListOffsetsRequest{Version: 7, ReplicaID: locality.Consumer,
				Partitions: []reader.ListOffsetsPartition{{Topic: "orders", Timestamp: reader.Latest, CurrentLeaderEpoch: epoch.Undefined}}}
			for _, iso := range []locality.Isolation{locality.ReadUncommitted, locality.ReadCommitted} {
				req.Isolation = iso
				if got := h.ListOffsets(t.Context(), req)[0]; got.Offset != tt.end {
					t.Errorf("%s: the latest offset is %d, %v, want %d", iso, got.Offset, got.Err, tt.end)
				}
			}
			want(t, "the last batch", read(t, h, from("orders", tt.end-10)), fmt.Sprintf("NONE [%d]", tt.end-10))
			asked := len(store.Calls())
			for range 3 {
				want(t, "the end", read(t, h, from("orders", tt.end)), "NONE []")
			}
			want(t, "what was committed up to the segment's end", read(t, h, from("orders", tt.segs[len(tt.segs)-1].Meta.EndOffset+1)), "NONE []")
			if len(store.Calls()) != asked {
				t.Errorf("idle reads asked the store %d times", len(store.Calls())-asked)
			}
		})
	}
}

// TestAnIdleReadLearnsTheEnd: a read that found nothing up to the log's end is the last that asks the store, until a later segment
// comes.
func TestAnIdleReadLearnsTheEnd(t *testing.T) {
	p := tp("orders", 1)
	a, b := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 40, 1, 0)
	a.Meta.EndOffset = 39
	store := memrsm.New(memrsm.Inline, a, b)
	dir := t.TempDir()
	kafkabytes.WriteMetadata(t, dir, finished(a)...)
	h := open(t, Config{RSM: store, Metadata: "dir:" + dir})
	want(t, "the end", readCommitted(t, h, 20), "NONE [] stable 40 aborted []")
	asked := len(store.Calls())
	want(t, "again", readCommitted(t, h, 20), "NONE [] stable 20 aborted []")
	if n := len(store.Calls()) - asked; n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	kafkabytes.WriteMetadata(t, dir, finished(a, b)...)
	if err := h.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, "a later segment", readCommitted(t, h, 20), "NONE [40] stable 50 aborted []")
}

// TestLatestOfAStoreThatHeedsItsContext: what is looked for in the store is not looked for in a context that has ended.
func TestLatestOfAStoreThatHeedsItsContext(t *testing.T) {
	seg := tens(t, tp("orders", 1), 11, 0, 3, 0)
	store := memrsm.New(memrsm.Inline, seg)
	store.Before = func(ctx context.Context, _ memrsm.Call) error { return ctx.Err() }
	h := bucket(t, store, finished(seg)...)
	for _, tt := range []struct{ timestamp, want int64 }{{reader.Earliest, 0}, {reader.Latest, 30}} { // the first learns the leader epochs
		got := h.ListOffsets(context.Background(), &reader.ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer,
			Partitions: []reader.ListOffsetsPartition{{Topic: "orders", Timestamp: tt.timestamp, CurrentLeaderEpoch: -1}}})[0]
		if got.Err != nil || got.Offset != tt.want {
			t.Errorf("%d: offset %d, %v, want %d", tt.timestamp, got.Offset, got.Err, tt.want)
		}
	}
}
