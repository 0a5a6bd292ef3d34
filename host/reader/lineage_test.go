package reader

import (
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// forked is a log whose leader of epoch 0 was fenced at offset 20, and uploaded a segment that goes on to 49 all the same. The
// one of epoch 2 began at 20. In both a transaction of producer 7 begins at 20: the fenced leader's was aborted, the other
// committed. One of producer 8 begins at 10 and is aborted at 30, in the log alone.
//
//	lineage  0 ....... 20 epoch 2 ........ 49
//	fenced   0 ......................... 49
func forked(t testing.TB) (fenced, live *segment) {
	t.Helper()
	before := []batch{{Base: 0, Last: 9, Size: 100}, {Base: 10, Last: 19, Size: 100, Attributes: kafkabytes.Transactional, ProducerID: 8}}
	tail := func(epoch int32, producer, end int64) []batch {
		bs := []batch{{Base: 20, Last: 29}, {Base: 30, Last: 39}, {Base: 40, Last: 49}}
		for i := range bs {
			bs[i].ProducerID, bs[i].Attributes = 7, kafkabytes.Transactional
			if bs[i].Base == end {
				bs[i] = kafkabytes.Marker(end, producer, false)
			}
			bs[i].Epoch, bs[i].Size = epoch, 101+int(epoch)
		}
		return bs
	}
	fenced = kafkabytes.NewSegment(t, id("a"), 1, append(slices.Clone(before), tail(0, 7, 40)...)...)
	fenced.Meta.EndOffset = 49
	live = kafkabytes.NewSegment(t, id("a"), 2, append(slices.Clone(before), tail(2, 8, 30)...)...)
	fenced.TxnIndex = kafkabytes.AppendAborted(fenced.TxnIndex, format.AbortedTxn{ProducerID: 7, FirstOffset: 20, LastOffset: 40, LastStableOffset: 41})
	live.TxnIndex = kafkabytes.AppendAborted(live.TxnIndex, format.AbortedTxn{ProducerID: 8, FirstOffset: 10, LastOffset: 30, LastStableOffset: 31})
	fenced.Meta.TxnIndexEmpty, live.Meta.TxnIndexEmpty = false, false
	return fenced, live
}

// TestLineageInsideASegment: a read that begins in what a fenced leader's segment shares with the log does not go on into
// what is the leader's alone, neither with records nor with aborted transactions. Kafka's does.
func TestLineageInsideASegment(t *testing.T) {
	for policy, tt := range map[Policy]struct {
		bases   string
		epoch   int32 // of the last batch
		aborted []AbortedTransaction
	}{
		Better:  {"[0 10 20 30 40]", 2, []AbortedTransaction{{8, 10}}},
		Kafka43: {"[0 10 20 30 40]", 0, []AbortedTransaction{{7, 20}}},
	} {
		fenced, live := forked(t)
		p := remotePartition(t, live, fenced) // the fenced one is the last to finish: a lookup in epoch 0 finds it
		p.Lineage = lineage(0, 0, 2, 20)
		got := committed(t, newReader(t, policy, memrsm.New(memrsm.Inline, fenced, live), p), ask("a", 0, 1<<20))
		want(t, "all", got, None, tt.bases)
		var last int32
		for w := format.Walk(got.Records); w.Next(); {
			last = w.Header().LeaderEpoch
		}
		if last != tt.epoch || !slices.Equal(got.Aborted, tt.aborted) {
			t.Errorf("the last batch is of epoch %d, aborted %v; want %d, %v", last, got.Aborted, tt.epoch, tt.aborted)
		}
	}
}

// TestLineageEndsInAHole: where the shared part of a segment ends in offsets that were compacted away, the read goes on with
// the log, and not with the fenced leader's next batch.
func TestLineageEndsInAHole(t *testing.T) {
	fenced := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9}, batch{Base: 20, Last: 29})
	live := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 20, Last: 24, Epoch: 2}, batch{Base: 25, Last: 29, Epoch: 2})
	p := remotePartition(t, fenced, live)
	p.Lineage = lineage(0, 0, 2, 20)
	r := newReader(t, Better, memrsm.New(memrsm.Inline, fenced, live), p)
	want(t, "in the hole", one(t, r, ask("a", 15, 1<<20)), None, "[20 25]")
	want(t, "from the begin", one(t, r, ask("a", 0, 1<<20)), None, "[0 20 25]")
}
