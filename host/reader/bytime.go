package reader

import (
	"context"
	"iter"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
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
	for seg := range q.remoteSegments() {
		if seg.MaxTimestampMs < ts || seg.EndOffset < start {
			continue
		}
		p, ok, err := q.inSegment(ctx, seg, ts, start)
		if err != nil || ok {
			return p, err
		}
		if !q.r.policy.DataTimes {
			break // Kafka looks in the first fitting segment alone
		}
	}
	return q.localByTime(ts, max(start, q.part.Offsets.LocalStart))
}

// remoteSegments goes over the finished segments of the partition's lineage that begin below the local tier, by start
// offset.
func (q *offsetQuery) remoteSegments() iter.Seq[*rlmm.Segment] {
	return func(yield func(*rlmm.Segment) bool) {
		if q.part.Remote == nil {
			return
		}
		o := q.part.Offsets
		for s := range q.part.Remote.All() {
			if s.State != format.CopySegmentFinished || o.LocalBase >= 0 && s.StartOffset >= o.LocalBase ||
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
	err = q.r.inPool(ctx, func(t *turn) error {
		pos, err := q.timePosition(ctx, seg, ts, start)
		if err != nil {
			return err
		}
		return q.r.scanSegment(ctx, t, seg, pos, func(b batchRef) (bool, error) {
			p, ok, err = q.inBatch(b, ts, start)
			return ok, err
		})
	})
	return p, ok, err
}

// timePosition is where in the segment a search for ts begins: the time index names an offset, the offset index its
// position. An index that is damaged or missing costs a search from the segment's begin; Kafka fails.
func (q *offsetQuery) timePosition(ctx context.Context, seg *rlmm.Segment, ts, start int64) (int64, error) {
	pos, err := q.indexedPosition(ctx, seg, ts, start)
	if k := abi.KindOf(err); q.r.policy.DataTimes && (k == abi.Corrupt || k == abi.NotFound) {
		return 0, nil
	}
	return pos, err
}

func (q *offsetQuery) indexedPosition(ctx context.Context, seg *rlmm.Segment, ts, start int64) (int64, error) {
	var used transfer.Evidence
	times, _, err := q.r.indexes.Time(ctx, &seg.SegmentMetadata, q.r.index(seg, abi.TimeIndex, &used))
	if err != nil {
		return 0, err
	}
	offsets, _, err := q.r.indexes.Offset(ctx, &seg.SegmentMetadata, q.r.index(seg, abi.OffsetIndex, &used))
	if err != nil {
		return 0, err
	}
	_, offset := times.Lookup(seg.StartOffset, ts)
	_, pos := offsets.Lookup(seg.StartOffset, max(offset, start))
	return pos, nil
}

// inBatch looks for the first record of b that fits. Markers of transactions fit only where they are asked for, and where
// Kafka's answers are wanted.
func (q *offsetQuery) inBatch(b batchRef, ts, start int64) (place, bool, error) {
	if b.MaxTimestamp < ts || b.LastOffset < start || !q.markers && q.r.policy.DataTimes && b.IsControl() {
		return nowhere, false, nil
	}
	bytes, err := b.bytes()
	if err != nil {
		return nowhere, false, err
	}
	records, err := format.Records(bytes, 0)
	if err != nil {
		return nowhere, false, err
	}
	for i := range records {
		if rec := &records[i]; rec.Timestamp >= ts && rec.Offset >= start {
			return place{rec.Offset, rec.Timestamp, b.LeaderEpoch}, true, nil
		}
	}
	return nowhere, false, nil
}

// localByTime looks in the local tier: from the first segment on that is new enough.
func (q *offsetQuery) localByTime(ts, start int64) (p place, err error) {
	p = nowhere
	if q.part.Local == nil {
		return p, nil
	}
	err = q.part.Local.Scan(start, func(b *locallog.Batch) (stop bool, err error) {
		p, stop, err = q.inBatch(batchRef{&b.BatchHeader, b.Bytes}, ts, start)
		return stop, err
	})
	return p, err
}

// inPool runs fn as a remote read does: when its turn comes.
func (r *Reader) inPool(ctx context.Context, fn func(*turn) error) error {
	if r.store == nil {
		return abi.Errorf("read", "remote tier", abi.Phase, "no plugin is given to read it")
	}
	var err error
	if perr := r.pool.do(ctx, "", func(t *turn) { err = fn(t) }); perr != nil {
		return perr
	}
	return err
}

// scanSegment calls visit with each batch of a remote segment from position pos on, until it says stop or fails. The scan has
// the turn t.
func (r *Reader) scanSegment(ctx context.Context, t *turn, seg *rlmm.Segment, pos int64, visit func(batchRef) (stop bool, err error)) error {
	obj := r.log(seg)
	defer obj.Close()
	obj.Expect(min(pos+scanAhead, seg.SizeBytes))
	mem := memory{r.buffers.Lease(), t}
	buf, err := mem.get(ctx, scanAhead)
	if err != nil {
		return err
	}
	w := &window{obj: obj, seg: whole(seg), size: seg.SizeBytes, strict: true, first: scanAhead, start: pos, mem: mem, buf: buf}
	defer func() { w.buf.Release() }()
	for {
		h, ok, err := w.header(ctx, pos)
		if !ok || err != nil {
			return err
		}
		stop, err := visit(batchRef{&h, func() ([]byte, error) {
			if err := w.fill(ctx, pos+h.Size()); err != nil {
				return nil, err
			}
			return w.bytes(pos, pos+h.Size()), nil
		}})
		if stop || err != nil {
			return err
		}
		pos += h.Size()
		w.drop(pos)
	}
}

// scanAhead is how much of a segment a scan reads at once.
const scanAhead = 256 << 10
