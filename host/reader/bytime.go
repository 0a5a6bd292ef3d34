package reader

import (
	"context"
	"iter"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// batchRef is a batch of either tier while offsets are looked for: its header, and a way to its bytes.
type batchRef struct {
	*format.BatchHeader
	bytes func() ([]byte, error)
}

// byTime finds the first record with a timestamp at or after ts, by offset, from the log start on: in the remote segments
// that have no local copy, then in the local tier. The partition is one consistent view, so a local segment can't vanish
// between the two (KAFKA-17637).
func (q *offsetQuery) byTime(ctx context.Context, ts int64) (place, error) {
	start := q.part.Offsets.LogStart
	for seg := range q.remoteSegments(func(seg *rlmm.Segment) bool { return seg.MaxTimestampMs >= ts && seg.EndOffset >= start }) {
		p, ok, err := q.inSegment(ctx, seg, ts, start)
		if err != nil || ok {
			return p, err
		}
		if !q.r.policy.DataTimes {
			break // Kafka looks in the first fitting segment alone
		}
	}
	return q.localByTime(ctx, ts, max(start, q.part.Offsets.LocalStart))
}

// remoteSegments goes over the finished segments of the partition's lineage that begin below the local tier and fit, by start
// offset.
func (q *offsetQuery) remoteSegments(fit func(*rlmm.Segment) bool) iter.Seq[*rlmm.Segment] {
	return func(yield func(*rlmm.Segment) bool) {
		if q.part.Remote == nil {
			return
		}
		o := q.part.Offsets
		for s := range q.part.Remote.All() {
			if s.State != format.CopySegmentFinished || o.LocalBase >= 0 && s.StartOffset >= o.LocalBase || !fit(s) ||
				!rlmm.WithinLineage(&s.SegmentMetadata, q.part.Lineage, o.LogEnd) {
				continue
			}
			if !yield(s) {
				return
			}
		}
	}
}

// inSegment looks in one remote segment, from where its time index points to.
func (q *offsetQuery) inSegment(ctx context.Context, seg *rlmm.Segment, ts, start int64) (p place, ok bool, err error) {
	x, err := q.timeIndexes(ctx, seg)
	if err != nil {
		return nowhere, false, err
	}
	err = q.inPool(ctx, func(t *turn) error {
		return q.scan(ctx, t, seg, x, ts, start, func(b batchRef) (bool, error) {
			p, ok, err = q.inBatch(ctx, b, ts, start)
			return ok, err
		})
	})
	return p, ok, err
}

// inBatch looks for the first record of b that fits. Markers of transactions fit only where they are asked for, and where
// Kafka's answers are wanted.
func (q *offsetQuery) inBatch(ctx context.Context, b batchRef, ts, start int64) (p place, found bool, err error) {
	if b.MaxTimestamp < ts || b.LastOffset < start || !q.markers && q.r.policy.DataTimes && b.IsControl() {
		return nowhere, false, nil
	}
	p = nowhere
	err = q.r.heads(ctx, b, func(rec format.RecordHead) bool {
		if found = rec.Timestamp >= ts && rec.Offset >= start; found {
			p = place{rec.Offset, rec.Timestamp, b.LeaderEpoch}
		}
		return !found
	})
	if err != nil {
		return nowhere, false, err
	}
	return p, found, nil
}

// heads gives the records of a batch to visit until it wants no more. What they are inflated with counts in the budget.
func (r *Reader) heads(ctx context.Context, b batchRef, visit func(format.RecordHead) bool) error {
	bytes, err := b.bytes()
	if err != nil {
		return err
	}
	if r.policy.Verify {
		if err := format.VerifyBatch(b.BatchHeader, bytes); err != nil {
			return err
		}
	}
	if n := format.InflateMemory(bytes); n > 0 {
		held, err := r.inflating.Take(ctx, n)
		if err != nil {
			return err
		}
		defer held.Give()
	}
	return format.RecordHeads(bytes, 0, visit)
}

// localByTime looks in the local tier: from the first segment on that is new enough.
func (q *offsetQuery) localByTime(ctx context.Context, ts, start int64) (p place, err error) {
	p = nowhere
	if q.part.Local == nil {
		return p, nil
	}
	err = q.part.Local.Scan(start, func(b *locallog.Batch) (stop bool, err error) {
		p, stop, err = q.inBatch(ctx, batchRef{&b.BatchHeader, b.Bytes}, ts, start)
		return stop, err
	})
	return p, err
}
