package reader

import (
	"cmp"
	"context"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
	"github.com/rsmhost/rsmhost/internal/planted"
)

// addAborted adds the aborted transactions that a read_committed consumer needs for the records of an answer: those with
// a marker at or after the first batch and a first offset before the end. A consumer that misses one delivers aborted
// records; one that gets a transaction which ended before drops committed ones.
func (r *Reader) addAborted(ctx context.Context, rd *read) error {
	if rd.iso != locality.ReadCommitted {
		return nil
	}
	if r.policy.ExactAborted {
		return r.addDecided(ctx, rd)
	}
	m := rd.tr.Mark()
	from, upper, err := r.abortedRange(ctx, rd)
	if err != nil {
		return rd.tr.Fail(m, "aborted", err)
	}
	found, looked, err := r.scanned(ctx, rd, from, upper)
	if err != nil {
		return rd.tr.Fail(m, "aborted", err)
	}
	rd.out.Aborted = unique(found)
	traceAborted(rd, m, from, upper, looked, -1)
	return nil
}

// addDecided adds the transactions of which the answer has records, as far as they were aborted: by the markers in the answer
// and behind it.
func (r *Reader) addDecided(ctx context.Context, rd *read) error {
	m := rd.tr.Mark()
	s, err := r.decide(ctx, rd, r.named(ctx, rd))
	if err != nil {
		return rd.tr.Fail(m, "aborted", err)
	}
	rd.out.Aborted = r.list(rd, s.indexes)
	traceAborted(rd, m, rd.acc.firstBase, rd.acc.next, len(s.indexes), s.read)
	return nil
}

// scanned looks through the transaction indexes from the read segment on, as Kafka does at every read (KAFKA-16780).
func (r *Reader) scanned(ctx context.Context, rd *read, from, upper int64) (found []format.AbortedTxn, looked int, err error) {
	complete := false
	if rd.acc.seg != nil {
		if found, looked, complete, err = r.abortedRemote(ctx, rd, whole(rd.acc.seg), from, upper); err != nil {
			return nil, looked, err
		}
	}
	if !complete && rd.part.Local != nil {
		found = rd.part.Local.Collect(found, from, upper)
	}
	return found, looked, nil
}

// abortedRange is the range of offsets, upper exclusive, that aborted transactions are looked for in as Kafka does.
func (r *Reader) abortedRange(ctx context.Context, rd *read) (from, upper int64, err error) {
	a := &rd.acc
	if a.local != nil { // Kafka begins at the requested offset here, and at the batch's in the remote tier
		s := a.local.Segment
		if up, ok := s.Index().KafkaUpperBound(s.Base, a.pos+a.len()); ok {
			return rd.req.Offset, up, nil
		}
		return rd.req.Offset, a.local.Next, nil
	}
	var used transfer.Evidence
	x, _, err := r.indexes.Offset(ctx, &a.seg.SegmentMetadata, r.index(a.seg, abi.OffsetIndex, &used))
	if err != nil {
		return 0, 0, err
	}
	if up, ok := x.KafkaUpperBound(a.seg.StartOffset, a.pos+a.n); ok {
		return a.firstBase, up, nil
	}
	return a.firstBase, a.seg.EndOffset + 1, nil
}

// abortedRemote looks through the transaction indexes from the read segment on, until one says that no more can follow.
func (r *Reader) abortedRemote(ctx context.Context, rd *read, first piece, from, upper int64) (found []format.AbortedTxn, looked int, complete bool, err error) {
	for seg, ok := first, true; ok; seg, ok = r.nextWithAborted(rd, seg.until) {
		if seg.TxnIndexEmpty || planted.NoTxnIndex {
			continue
		}
		var used transfer.Evidence
		x, _, err := r.indexes.Aborted(ctx, &seg.SegmentMetadata, r.abortedIndex(seg.Segment, &used))
		if err != nil && abi.KindOf(err) != abi.NotFound { // the latter: it never had one, to Kafka

			return nil, looked, false, err
		}
		looked++
		if seg.until <= seg.EndOffset {
			x = x.Before(seg.until)
		}
		if found, complete = x.Collect(found, from, upper); complete {
			return found, looked, true, nil
		}
	}
	return found, looked, false, nil
}

// nextWithAborted finds the first segment at or after offset, in the partition's lineage, that may have a transaction
// index.
func (r *Reader) nextWithAborted(rd *read, offset int64) (piece, bool) {
	if _, ok := rd.part.Lineage.ForOffset(offset); !ok {
		return piece{}, false
	}
	entries := rd.part.Lineage.From(offset)
	for i, le := range entries {
		from := max(le.StartOffset, offset)
		seg, ok := r.policy.nextWithTxnIndex(rd.part.Remote, le.Epoch, from)
		if !ok || r.policy.ExactAborted && i+1 < len(entries) && seg.StartOffset >= entries[i+1].StartOffset {
			continue // the latter: what a leader uploaded after it was fenced
		}
		return piece{seg, r.policy.until(seg, rd.part.Lineage, max(seg.StartOffset, from))}, true
	}
	return piece{}, false
}

func unique(found []format.AbortedTxn) []AbortedTransaction {
	out := make([]AbortedTransaction, 0, len(found))
	for _, t := range found {
		out = append(out, AbortedTransaction{t.ProducerID, t.FirstOffset})
	}
	return sorted(out)
}

// sorted is a list by first offset, without doubles. It is not nil.
func sorted(out []AbortedTransaction) []AbortedTransaction {
	if out == nil {
		return []AbortedTransaction{}
	}
	slices.SortFunc(out, func(a, b AbortedTransaction) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return slices.Compact(out)
}

// abortedIndex loads a transaction index. One that is not there may never have been: Kafka uploads none where nothing was
// aborted, and metadata from before 4.0 does not say so. Or the whole segment is gone, and nothing is known of its
// aborts: its offset index, which every segment has, tells the two apart.
func (r *Reader) abortedIndex(seg *rlmm.Segment, used *transfer.Evidence) indexcache.Loader {
	load := r.index(seg, abi.TransactionIndex, used)
	return func(ctx context.Context) ([]byte, error) {
		b, err := load(ctx)
		if abi.KindOf(err) != abi.NotFound {
			return b, err
		}
		var other transfer.Evidence
		if _, gone := r.index(seg, abi.OffsetIndex, &other)(ctx); abi.KindOf(gone) == abi.NotFound {
			return nil, abi.Errorf("fetch index", seg.Key()+" TRANSACTION", abi.Unavailable,
				"the segment's objects are gone, and whether it aborted transactions can't be told: %w", gone)
		}
		return nil, err
	}
}
