package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// maxTimestamp finds the first record with the greatest timestamp.
func (q *offsetQuery) maxTimestamp(ctx context.Context) (place, error) {
	if q.r.policy.DataTimes {
		return q.maxOfBoth(ctx)
	}
	return q.kafkaMax(ctx)
}

// kafkaMax is Kafka's answer: the first local segment with the greatest timestamp, and in it the first batch that has it,
// transaction markers and records below the log start included.
func (q *offsetQuery) kafkaMax(ctx context.Context) (place, error) {
	if q.part.Local == nil {
		return nowhere, nil
	}
	best, first := int64(-1), (*locallog.Batch)(nil)
	for _, s := range q.part.Local.Segments() {
		ts, b, err := s.MaxTimestamp()
		if err != nil {
			return nowhere, err
		}
		if ts > best {
			best, first = ts, b
		}
	}
	if first == nil {
		return nowhere, nil
	}
	p, _, err := q.inBatch(ctx, batchRef{&first.BatchHeader, first.Bytes}, best, 0)
	return p, err
}

// maxOfBoth finds the data record of both tiers with the greatest timestamp between log start and bound; of several the
// first. It goes where the headers, the metadata and the time indexes say that the greatest should be, and looks at
// everything else only as far as that was not so: where it is a transaction marker's, or out of bounds.
func (q *offsetQuery) maxOfBoth(ctx context.Context) (place, error) {
	s := maxSearch{q: q, best: nowhere}
	if err := s.local(ctx); err != nil {
		return nowhere, err
	}
	newest := (*rlmm.Segment)(nil)
	for seg := range q.remoteSegments(func(seg *rlmm.Segment) bool {
		return seg.EndOffset >= q.part.Offsets.LogStart && (newest == nil || seg.MaxTimestampMs > newest.MaxTimestampMs)
	}) {
		newest = seg
	}
	if newest == nil {
		return s.best, nil
	}
	if err := s.segment(ctx, newest); err != nil {
		return nowhere, err
	}
	for seg := range q.remoteSegments(func(seg *rlmm.Segment) bool {
		return seg.SegmentID != newest.SegmentID && seg.EndOffset >= q.part.Offsets.LogStart && s.promises(seg)
	}) {
		if err := s.segment(ctx, seg); err != nil {
			return nowhere, err
		}
	}
	return s.best, nil
}

// maxSearch is a search for the greatest timestamp, with what was found so far.
type maxSearch struct {
	q    *offsetQuery
	best place
}

// promising says whether a batch can hold something better.
func (s *maxSearch) promising(h *format.BatchHeader) bool {
	return h.MaxTimestamp >= s.best.timestamp && h.MaxTimestamp >= 0 && !h.IsControl()
}

func (s *maxSearch) batch(ctx context.Context, b batchRef) error {
	p, ok, err := s.q.maxInBatch(ctx, b)
	if ok && (p.timestamp > s.best.timestamp || p.timestamp == s.best.timestamp && p.offset < s.best.offset) {
		s.best = p
	}
	return err
}

// local looks at the batch whose header has the greatest timestamp first: few others are promising then.
func (s *maxSearch) local(ctx context.Context) error {
	if s.q.part.Local == nil {
		return nil
	}
	greatest := (*locallog.Batch)(nil)
	err := s.q.localScan(s.q.part.Offsets.LogStart, func(b *locallog.Batch) (bool, error) {
		if !b.IsControl() && (greatest == nil || b.MaxTimestamp > greatest.MaxTimestamp) {
			greatest = b
		}
		return false, nil
	})
	if err != nil || greatest == nil {
		return err
	}
	if err := s.batch(ctx, batchRef{&greatest.BatchHeader, greatest.Bytes}); err != nil || s.best.timestamp == greatest.MaxTimestamp {
		return err
	}
	return s.q.localScan(s.q.part.Offsets.LogStart, func(b *locallog.Batch) (bool, error) {
		if !s.promising(&b.BatchHeader) {
			return false, nil
		}
		return false, s.batch(ctx, batchRef{&b.BatchHeader, b.Bytes})
	})
}

// promises says whether a segment's metadata promises something better.
func (s *maxSearch) promises(seg *rlmm.Segment) bool {
	return seg.MaxTimestampMs > s.best.timestamp || seg.MaxTimestampMs == s.best.timestamp && seg.StartOffset <= s.best.offset
}

// segment looks at one remote segment, if its metadata promises something better: at the batch that its time index points
// to, and at all of it where that was not the greatest.
func (s *maxSearch) segment(ctx context.Context, seg *rlmm.Segment) error {
	if !s.promises(seg) {
		return nil
	}
	x, err := s.q.timeIndexes(ctx, seg)
	if err != nil {
		return err
	}
	return s.q.inPool(ctx, func(t *turn) error {
		err := s.q.scan(ctx, t, seg, x, seg.MaxTimestampMs, s.q.part.Offsets.LogStart, func(b batchRef) (bool, error) {
			if b.IsControl() || b.MaxTimestamp < seg.MaxTimestampMs {
				return false, nil
			}
			return true, s.batch(ctx, b)
		})
		if err != nil || s.best.timestamp == seg.MaxTimestampMs {
			return err
		}
		return s.q.scan(ctx, t, seg, x, -1, s.q.part.Offsets.LogStart, func(b batchRef) (bool, error) {
			if !s.promising(b.BatchHeader) {
				return false, nil
			}
			return false, s.batch(ctx, b)
		})
	})
}

// maxInBatch is the first readable record of b with the greatest timestamp among those that are readable.
func (q *offsetQuery) maxInBatch(ctx context.Context, b batchRef) (place, bool, error) {
	best, ok := nowhere, false
	err := q.r.heads(ctx, b, func(rec format.RecordHead) bool {
		if rec.Offset >= q.part.Offsets.LogStart && rec.Offset < q.bound && rec.Timestamp > best.timestamp {
			best, ok = place{rec.Offset, rec.Timestamp, b.LeaderEpoch}, true
		}
		return true
	})
	if err != nil {
		return nowhere, false, err
	}
	return best, ok, nil
}
