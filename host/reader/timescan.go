package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// scanAhead is how much of a segment a scan reads at once.
const scanAhead = 256 << 10

// inPool runs fn as a remote read does: when its turn comes.
func (q *offsetQuery) inPool(ctx context.Context, fn func(*turn) error) error {
	if q.r.store == nil {
		return errNoStore()
	}
	var err error
	if perr := q.r.pool.do(ctx, q.client, func(t *turn) { err = fn(t) }); perr != nil {
		return perr
	}
	return err
}

func errNoStore() error {
	return abi.Errorf("read", "remote tier", abi.Phase, "no plugin is given to read it")
}

// timeIndexes is what the store has to find a timestamp in a segment: either may be missing, which is no reason to fail.
type timeIndexes struct {
	times   format.TimeIndex
	offsets format.OffsetIndex
	faults  [2]error // of either; nil: it is good
}

// timeIndexes gives both indexes of a segment, which are asked for side by side, when their turn among small reads comes.
func (q *offsetQuery) timeIndexes(ctx context.Context, seg *rlmm.Segment) (x timeIndexes, err error) {
	r := q.r
	if r.store == nil {
		return x, errNoStore()
	}
	err = r.Small(ctx, q.client, func() {
		var wg sync.WaitGroup
		wg.Go(func() { x.offsets, _, x.faults[1] = r.offsetIndex(ctx, seg, new(transfer.Evidence)) })
		x.times, x.faults[0] = r.timeIndex(ctx, seg)
		wg.Wait()
	})
	if err != nil {
		return x, err
	}
	for _, err := range x.faults {
		if err != nil && !(r.policy.Verify && unusable(err)) {
			return x, err
		}
	}
	return x, nil
}

// timeIndex gives the segment's time index. One that can't be used is not asked for again for a while.
func (r *Reader) timeIndex(ctx context.Context, seg *rlmm.Segment) (format.TimeIndex, error) {
	if why := r.scans.fault(seg.SegmentID, abi.TimeIndex); why != nil && r.policy.Verify {
		return nil, why
	}
	x, _, err := r.indexes.Time(ctx, &seg.SegmentMetadata, r.index(seg, abi.TimeIndex, new(transfer.Evidence)))
	r.keepFault(seg, abi.TimeIndex, err)
	return x, err
}

// timeScan is a search of one remote segment for timestamps.
type timeScan struct {
	r    *Reader
	w    *window
	rd   *read // what findings and searches by offset are of
	x    timeIndexes
	most int64 // no batch before the scan's position has a greater timestamp; unknownTime: that is not known
}

// scan visits batches of a remote segment until visit says stop or fails: all that may hold a record at or above start with a
// timestamp of at least ts, and others. It has the turn t. Where a location that was kept leads to other bytes than the
// segment's, it is asked for once more.
func (q *offsetQuery) scan(ctx context.Context, t *turn, seg *rlmm.Segment, x timeIndexes, ts, start int64,
	visit func(batchRef) (stop bool, err error)) error {
	for again := false; ; again = true {
		obj := q.r.log(seg)
		err := q.scanObject(ctx, t, seg, obj, x, ts, start, visit)
		obj.Close()
		if !q.r.policy.Verify || abi.KindOf(err) != abi.Corrupt {
			return err
		}
		q.r.doubtLog(seg)
		if again || !obj.Evidence().Cached {
			return err
		}
	}
}

func (q *offsetQuery) scanObject(ctx context.Context, t *turn, seg *rlmm.Segment, obj *transfer.Object, x timeIndexes, ts, start int64,
	visit func(batchRef) (stop bool, err error)) error {
	mem := memory{q.r.buffers.Lease(), t}
	buf, err := mem.get(ctx, scanAhead)
	if err != nil {
		return err
	}
	w := &window{obj: obj, seg: whole(seg), size: seg.SizeBytes, strict: q.r.policy.Verify, first: scanAhead, mem: mem, buf: buf, scans: &q.r.scans}
	defer func() { w.buf.Release() }()
	s := &timeScan{r: q.r, w: w, rd: &read{part: q.part, out: &PartitionData{}}, x: x, most: unknownTime}
	pos, err := s.begin(ctx, ts, start)
	if err != nil {
		return err
	}
	s.tellFaults()
	return s.from(ctx, pos, visit)
}

// tellFaults makes findings of indexes whose place the scan takes.
func (s *timeScan) tellFaults() {
	for i, t := range []abi.IndexType{abi.TimeIndex, abi.OffsetIndex} {
		if why := s.x.faults[i]; why != nil {
			s.found(indexFault(s.w.seg.Segment, t, why))
		}
	}
}

func (s *timeScan) found(what string) {
	f := finding.Of(s.rd.part.ID, s.w.seg.StartOffset, "%s", what)
	f.Repaired = true
	s.r.found(s.rd, f)
}

// begin gives where a search for ts, at or above offset start, begins.
func (s *timeScan) begin(ctx context.Context, ts, start int64) (int64, error) {
	seg := s.w.seg.Segment
	if !s.r.policy.Verify { // as a broker, which trusts what the indexes say
		_, offset := s.x.times.Lookup(seg.StartOffset, ts)
		_, pos := s.x.offsets.Lookup(seg.StartOffset, max(offset, start))
		s.expect(pos)
		return pos, nil
	}
	if pos, ok, err := s.byEntry(ctx, ts); ok || err != nil {
		return s.notBelow(ctx, pos, start, err)
	}
	pos := int64(0)
	s.most = -1
	if e, ok := s.r.scans.floorByTime(seg.SegmentID, ts); ok {
		pos, s.most = e.pos, e.before-1
	}
	return s.notBelow(ctx, pos, start, nil)
}

// byEntry gives the position of a batch behind which no timestamp below ts is of interest: by the last entry of the time index
// that is below ts and proven by its batch. It reports false where there is none.
func (s *timeScan) byEntry(ctx context.Context, ts int64) (int64, bool, error) {
	seg := s.w.seg.Segment
	for range maxBack {
		i := s.x.times.Below(ts)
		if i < 0 {
			return 0, false, nil
		}
		t, offset := s.x.times.Entry(i, seg.StartOffset)
		if offset <= seg.StartOffset { // which saves nothing
			return 0, false, nil
		}
		at, h, ok, err := s.search(ctx, offset)
		if err != nil {
			return 0, false, err
		}
		if ok && h.MaxTimestamp == t && (h.Magic < 2 || h.BaseOffset <= offset) {
			s.most = t
			return at, true, nil
		}
		s.r.doubtIndex(seg, abi.TimeIndex)
		s.found(fmt.Sprintf("entry (%d, %d) of the %s index of segment %s is not of the batch there: the search began before it",
			t, offset, abi.TimeIndex, seg.Key()))
		ts = t
	}
	return 0, false, nil
}

// notBelow is pos, or the position of the batch with offset start where that lies behind it.
func (s *timeScan) notBelow(ctx context.Context, pos, start int64, err error) (int64, error) {
	if err != nil || start <= s.w.seg.StartOffset {
		s.expect(pos)
		return pos, err
	}
	at, _, ok, err := s.search(ctx, start)
	if err != nil || !ok || at <= pos {
		s.expect(pos)
		return pos, err
	}
	s.most = unknownTime
	return at, nil
}

// search gives the first batch that ends at or after offset.
func (s *timeScan) search(ctx context.Context, offset int64) (int64, format.BatchHeader, bool, error) {
	seg := s.w.seg.Segment
	from := start{entry: seg.StartOffset, index: s.x.offsets, fault: s.x.faults[1]}
	if from.fault == nil {
		from.entry, from.pos = s.x.offsets.Lookup(seg.StartOffset, offset)
	}
	if e, ok := s.r.scans.floor(seg.SegmentID, offset, from.pos); ok {
		from = start{entry: e.last, pos: e.pos, fault: from.fault}
	}
	s.expect(from.pos)
	if s.w.moved > 0 || from.pos > 0 {
		s.w.restart(from.pos)
		s.w.first = scanAhead
	}
	return s.r.search(ctx, s.rd, s.w, &from, offset)
}

func (s *timeScan) expect(pos int64) { s.w.obj.Expect(min(pos+scanAhead, s.w.size)) }

// from visits the batches from position pos on. What the scan passes over is checked, and becomes part of the segment's scan
// index.
func (s *timeScan) from(ctx context.Context, pos int64, visit func(batchRef) (stop bool, err error)) error {
	w, before, begin := s.w, link{at: -1}, pos
	if pos < w.start || pos > w.start+w.n {
		w.restart(pos)
	}
	w.drop(pos)
	w.first = scanAhead
	for {
		h, ok, err := w.header(ctx, pos)
		if !ok || err != nil {
			return err
		}
		l := link{BatchHeader: h, at: pos}
		if err := w.inPlace(ctx, &before, &l); err != nil {
			return err
		}
		bytes := func() ([]byte, error) {
			if err := w.fill(ctx, pos+h.Size()); err != nil {
				return nil, err
			}
			return w.bytes(pos, pos+h.Size()), nil
		}
		if w.strict {
			if err := w.verified(&h, pos, bytes); err != nil {
				return err
			}
			s.pass(&l, begin)
		}
		stop, err := visit(batchRef{&h, bytes})
		if stop || err != nil {
			return err
		}
		s.most = max(s.most, h.MaxTimestamp)
		before, pos = l, pos+h.Size()
		w.drop(pos)
	}
}

// inPlace holds a batch against its neighbours.
func (w *window) inPlace(ctx context.Context, before, l *link) error {
	if !w.strict {
		return nil
	}
	if before.at >= 0 {
		if err := follows(&l.BatchHeader, before.LastOffset+1); err != nil {
			return w.corrupt(l.at, err)
		}
		if l.proven = l.BaseOffset == before.LastOffset+1; l.proven {
			return nil
		}
	}
	overlaps, err := w.overlapsNext(ctx, l)
	return cmp.Or(err, overlaps)
}

// verified checks a batch's CRC, which its timestamps are under.
func (w *window) verified(h *format.BatchHeader, pos int64, bytes func() ([]byte, error)) error {
	b, err := bytes()
	if err == nil {
		err = format.VerifyBatch(h, b)
	}
	if abi.KindOf(err) == abi.Corrupt && !errors.As(err, new(badBatch)) {
		return w.corrupt(pos, err)
	}
	return err
}

// pass takes a batch that the scan came to into the scan index.
func (s *timeScan) pass(l *link, begin int64) {
	if l.at-begin < scanStep || l.at < s.w.noted+scanStep {
		return
	}
	s.w.noted = l.at
	e := scanEntry{last: l.LastOffset, pos: l.at, before: unknownTime}
	if s.most < unknownTime {
		e.before = s.most + 1
	}
	s.r.scans.passed(s.w.seg.Segment, e)
}
