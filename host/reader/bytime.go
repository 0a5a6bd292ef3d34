package reader

import (
	"context"
	"errors"
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
	for seg := range q.remoteSegments(func(seg *rlmm.Segment) bool {
		return seg.MaxTimestampMs >= ts && seg.EndOffset >= start && q.below(seg)
	}) {
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

// remoteSegments goes over the finished segments of the partition's lineage that fit, by start offset: those that begin below the
// local tier, and those that hold what is missing of it.
func (q *offsetQuery) remoteSegments(fit func(*rlmm.Segment) bool) iter.Seq[*rlmm.Segment] {
	return func(yield func(*rlmm.Segment) bool) {
		if q.part.Remote == nil {
			return
		}
		o := q.part.Offsets
		for s := range q.part.Remote.All() {
			if s.State != format.CopySegmentFinished || !fit(s) || !q.below(s) && !q.fills(s) ||
				!rlmm.WithinLineage(&s.SegmentMetadata, q.part.Lineage, o.LogEnd) {
				continue
			}
			if !yield(s) {
				return
			}
		}
	}
}

// below reports a segment that begins below the local tier.
func (q *offsetQuery) below(s *rlmm.Segment) bool {
	return q.part.Offsets.LocalBase < 0 || s.StartOffset < q.part.Offsets.LocalBase
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

// localByTime looks in the local tier: from the first segment on that is new enough. What is missing of it is looked for in the
// remote tier, where that has it.
func (q *offsetQuery) localByTime(ctx context.Context, ts, start int64) (p place, err error) {
	for p = nowhere; q.part.Local != nil; {
		err = q.part.Local.Scan(start, func(b *locallog.Batch) (stop bool, err error) {
			p, stop, err = q.inBatch(ctx, batchRef{&b.BatchHeader, b.Bytes}, ts, start)
			return stop, err
		})
		h, ok := q.filled(start, err)
		if !ok {
			return p, err
		}
		for seg := range q.filling(h) {
			if seg.MaxTimestampMs < ts {
				continue
			}
			if p, ok, err = q.inSegment(ctx, seg, ts, max(start, h.From)); err != nil || ok {
				return p, err
			}
		}
		start = h.Until
	}
	return p, nil
}

// localScan is the local log's Scan, which goes on behind what the remote tier has of it. Those segments are remoteSegments too.
func (q *offsetQuery) localScan(start int64, visit func(*locallog.Batch) (stop bool, err error)) error {
	for {
		err := q.part.Local.Scan(start, visit)
		h, ok := q.filled(start, err)
		if !ok {
			return err
		}
		start = h.Until
	}
}

// filled gives the hole that ended a scan of the local log that began at start, if the remote tier has all of it.
func (q *offsetQuery) filled(start int64, err error) (h locallog.Hole, ok bool) {
	if !errors.Is(err, locallog.ErrHole) {
		return h, false
	}
	h, ok = q.part.Local.NextHole(start)
	return h, ok && q.part.Tiered(h.From, h.Until)
}

// filling are the remote segments of the partition's lineage that hold offsets of a hole, by start offset.
func (q *offsetQuery) filling(h locallog.Hole) iter.Seq[*rlmm.Segment] {
	return func(yield func(*rlmm.Segment) bool) {
		for s := range q.part.Remote.All() {
			if s.State == format.CopySegmentFinished && s.EndOffset >= h.From && s.StartOffset < h.Until &&
				rlmm.WithinLineage(&s.SegmentMetadata, q.part.Lineage, q.part.Offsets.LogEnd) && !yield(s) {
				return
			}
		}
	}
}

// fills reports a segment that holds offsets of a hole of the local log that the remote tier has all of.
func (q *offsetQuery) fills(s *rlmm.Segment) bool {
	for at := s.StartOffset; q.part.Local != nil && at <= s.EndOffset; {
		h, ok := q.part.Local.NextHole(at)
		if !ok || h.From > s.EndOffset {
			return false
		}
		if q.part.Tiered(h.From, h.Until) {
			return true
		}
		at = h.Until
	}
	return false
}
