package host

import (
	"context"
	"fmt"
	"math"
	"testing"

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
	a.Snapshot = kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: 8, FirstOffset: 20}, kafkabytes.OpenTxn{ProducerID: 7, FirstOffset: 10})
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

// TestProducerSnapshotOfTheRemoteTier: one that is missing is of a store that keeps none; one that is damaged is said in the
// log, and does not make a bucket unreadable.
func TestProducerSnapshotOfTheRemoteTier(t *testing.T) {
	for name, tt := range map[string]struct {
		snapshot []byte
		want     string
	}{
		"missing": {nil, "NONE [0] stable 10 aborted []"},
		"empty":   {kafkabytes.Snapshot(), "NONE [0] stable 10 aborted []"},
		"damaged": {kafkabytes.Snapshot()[:5], "NONE [0] stable 10 aborted []"},
	} {
		a := tens(t, tp("orders", 1), 11, 0, 1, 0)
		a.Snapshot = tt.snapshot
		want(t, name, readCommitted(t, bucket(t, memrsm.New(memrsm.Inline, a), finished(a)...), 0), tt.want)
	}
}
