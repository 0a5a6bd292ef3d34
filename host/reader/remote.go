package reader

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
	"github.com/rsmhost/rsmhost/internal/planted"
)

// errNoSegment is an offset that no remote segment holds.
var errNoSegment = errors.New("no remote segment holds it")

// errNotHere is an offset that can't be read now, and is not known to be gone.
var errNotHere = errors.New("it is not here, and not known to be gone")

// remote reads one partition's allowance from the remote tier, and as far as the policy lets it from what follows.
func (r *Reader) remote(ctx context.Context, rd *read) error {
	if r.store == nil {
		return abi.Errorf("fetch", rd.part.ID.String(), abi.Phase, "offset %d lies in the remote tier, and no plugin is given to read it", rd.req.Offset)
	}
	at := rd.req.Offset // the lookup's offset
	seg, err := r.segment(rd, at)
	if err != nil {
		return err
	}
	for {
		atEnd, err := r.readSegment(ctx, rd, seg, max(rd.req.Offset, rd.acc.next))
		if err != nil {
			return rd.stop(err)
		}
		found := rd.acc.len() > 0
		if rd.acc.tooBig || found && (!r.policy.CrossSegments || !atEnd || rd.acc.len() >= rd.room || rd.hurried()) {
			return nil
		}
		at = seg.until
		if at >= min(rd.part.Offsets.LogEnd, rd.remoteEnd()) { // the rest was compacted away, and nothing follows yet
			if !found && r.policy.CrossSegments { // a broker learns nothing of it
				rd.sawNothing()
			}
			return nil
		}
		if r.policy.CrossSegments && rd.local(at) {
			return rd.stop(r.localFrom(ctx, rd, max(at, rd.req.Offset), rd.room-rd.acc.len(), rd.first && !found))
		}
		if seg, err = r.segment(rd, at); err != nil {
			if !r.policy.CrossSegments {
				return nil // Kafka: no error, no records
			}
			return rd.stop(err)
		}
	}
}

// local reports whether the local tier goes on at offset.
func (rd *read) local(offset int64) bool {
	o := rd.part.Offsets
	return rd.part.Local != nil && o.LocalBase >= 0 && offset >= o.LocalBase
}

// remoteEnd is the exclusive bound of what a remote read may give. With a local tier there is none: what was uploaded lies below.
func (rd *read) remoteEnd() int64 {
	if rd.part.Offsets.LocalBase >= 0 {
		return math.MaxInt64
	}
	return rd.ans.Bound
}

// stop ends a read with an error, or with what it has where it has something: the next fetch meets the error at its
// first batch, where it can be told with the offset.
func (rd *read) stop(err error) error {
	if err == nil || rd.acc.len() == 0 {
		return err
	}
	rd.stopped()
	return nil
}

// stopped is the trace's last word on a read that met an error, which it has told, and answers with what it has.
func (rd *read) stopped() {
	rd.tr.Add(rd.tr.Mark(), "stopped", fmt.Sprintf("before %d", rd.acc.next), nil, "the next read begins there, and is told why")
}

// piece is what the partition's lineage has of a segment.
type piece struct {
	*rlmm.Segment
	until int64 // exclusive
}

// whole is a segment as its metadata has it.
func whole(s *rlmm.Segment) piece { return piece{s, s.EndOffset + 1} }

// strays is an error for a batch whose offsets are not the segment's.
func (s piece) strays(h *format.BatchHeader) error {
	if h.BaseOffset >= s.StartOffset && h.LastOffset <= s.EndOffset {
		return nil
	}
	return abi.Errorf("", "", abi.Corrupt, "batch %d-%d lies outside of the segment's offsets, %d-%d", h.BaseOffset, h.LastOffset, s.StartOffset, s.EndOffset)
}

// segment finds the remote segment that holds offset in the partition's lineage.
func (r *Reader) segment(rd *read, offset int64) (piece, error) {
	m := rd.tr.Mark()
	le, ok := rd.part.Lineage.ForOffset(offset)
	if !ok {
		return piece{}, rd.tr.Fail(m, "epoch", r.noSegment(rd, offset, "no leader epoch covers it"))
	}
	traceEpoch(rd, m, le)
	m = rd.tr.Mark()
	r.counts.topic(rd.part).lookups.Add(1)
	if rd.part.Remote != nil {
		if seg, ok := r.policy.lookup(rd.part.Remote, le.Epoch, offset); ok {
			traceSegment(rd, m, seg)
			return piece{seg, r.policy.until(seg, rd.part.Lineage, offset)}, nil
		}
	}
	return piece{}, rd.tr.Fail(m, "segment", r.noSegment(rd, offset, fmt.Sprintf("no finished segment of leader epoch %d", le.Epoch)))
}

func (r *Reader) noSegment(rd *read, offset int64, why string) error {
	o, code, kind, cause := rd.part.Offsets, OffsetOutOfRange, abi.NotFound, errNoSegment
	if known := r.unread(rd, offset); known != "" {
		code, kind, cause, why = NotLeaderOrFollower, abi.Unavailable, errNotHere, known
	}
	return abi.Errorf("fetch", fmt.Sprintf("%s offset %d", rd.part.ID, offset), kind,
		"%s (%d): %w: %s; the log %s, locally from %d", code, code, cause, why, holds(o), o.LocalStart)
}

// unread says why an offset of the log that can't be read here may yet be read, by a client that tries again or from another
// broker; it is empty where the offset is not one of the log's. A client that is told OFFSET_OUT_OF_RANGE resets its position, to
// the log's begin, from where it comes to the same offset again, or to its end, and passes over all that there is. One that is
// told NOT_LEADER_OR_FOLLOWER asks for the metadata and tries again.
func (r *Reader) unread(rd *read, offset int64) string {
	o := rd.part.Offsets
	if !r.policy.TellingCodes || offset < o.LogStart {
		return ""
	}
	if why := rd.part.unfinished(offset); why != "" || offset >= o.LogEnd {
		return why
	}
	if h, ok := rd.part.HoleAt(offset); ok {
		return h.String() + " in no tier"
	}
	return "no tier holds it"
}

// unfinished says which segment holds an offset and can't be looked up; empty: none.
func (p *Partition) unfinished(offset int64) string {
	if p.Remote == nil {
		return ""
	}
	le, covered := p.Lineage.ForOffset(offset)
	for _, seg := range p.Remote.Holding(offset) {
		own, ok := epoch.Of(seg.LeaderEpochs).ForOffset(offset)
		switch {
		case covered && (!ok || own.Epoch < le.Epoch): // a fenced leader's
		case seg.State == format.CopySegmentStarted:
			return fmt.Sprintf("segment %s, which holds it, is not copied yet, and lies in no log directory here", seg.SegmentID)
		case seg.State == format.CopySegmentFinished && !covered:
			return fmt.Sprintf("segment %s holds it, and the leader epochs known here do not reach back to it", seg.SegmentID)
		}
	}
	return ""
}

// readSegment appends what seg holds from offset on, as far as there is room. It reports whether it came to the
// segment's end, or to where the lineage leaves it. A location that was kept is asked for once more where what it leads to is
// not the segment's.
func (r *Reader) readSegment(ctx context.Context, rd *read, seg piece, offset int64) (atEnd bool, err error) {
	for again := false; ; again = true {
		before := rd.acc.len()
		obj := r.log(seg.Segment)
		atEnd, err = r.readObject(ctx, rd, seg, offset, obj)
		obj.Close()
		if !r.policy.Verify || abi.KindOf(err) != abi.Corrupt {
			return atEnd, err
		}
		r.doubtLog(seg.Segment)
		if again || !obj.Evidence().Cached || rd.acc.len() > before {
			return atEnd, err
		}
	}
}

// doubtLog forgets what is kept of a segment's log: it was wrong, or is now.
func (r *Reader) doubtLog(seg *rlmm.Segment) {
	r.store.Mover.Forget(transfer.Key{Segment: seg.SegmentID})
	r.scans.forget(seg.SegmentID)
}

func (r *Reader) readObject(ctx context.Context, rd *read, seg piece, offset int64, obj *transfer.Object) (atEnd bool, err error) {
	from, err := r.position(ctx, rd, seg.Segment, offset)
	if err != nil {
		return false, err
	}
	room := rd.room - rd.acc.len()
	obj.Expect(min(from.pos+firstRead+room, seg.SizeBytes))
	w := &window{obj: obj, seg: seg, size: seg.SizeBytes, first: firstRead, strict: r.policy.Verify, start: from.pos, mem: rd.mem}
	if w.buf, err = rd.mem.get(ctx, int(min(room+firstRead, max(seg.SizeBytes-from.pos, 1)))); err != nil {
		return false, err
	}
	if offset <= seg.StartOffset { // nothing is looked for: one read gets all
		w.first = max(room+w.lookahead(), firstRead)
		if rd.over != nil {
			w.first = min(w.first, fillStep)
		}
	}
	kept := false
	defer func() {
		if !kept {
			w.buf.Release()
		}
	}()
	m := rd.tr.Mark()
	at, h, ok, err := r.search(ctx, rd, w, &from, offset)
	if err != nil {
		traceSource(rd, r.store.Name, obj)
		return false, rd.tr.Fail(m, "transfer", err)
	}
	if !ok || h.BaseOffset >= min(seg.until, rd.remoteEnd()) {
		traceSource(rd, r.store.Name, obj)
		traceNothing(rd, m, seg, offset)
		return true, nil
	}
	if !rd.fits(h.Size()) {
		return false, nil
	}
	if planted.SkippedBatch && rd.acc.len() > 0 {
		at += h.Size()
	}
	w.drop(at)
	failed := w.fillUntil(ctx, at+max(room, h.Size())+w.lookahead(), h.Size(), rd)
	if failed != nil && w.n < h.Size() {
		return false, rd.tr.Fail(m, "transfer", failed)
	}
	traceSource(rd, r.store.Name, obj)
	traceTransfer(rd, m, w, at-from.pos)
	if rd.acc.len() == 0 {
		rd.acc.seg, rd.acc.pos = seg.Segment, at
	}
	kept = rd.acc.buf == nil
	r.tellMissing(rd, w, at)
	n, err := r.take(ctx, rd, w, room, seg)
	if n > 0 {
		rd.acc.segs = append(rd.acc.segs, seg)
		rd.acc.remote += n
		rd.acc.tail = tail{pos: at + n}
	}
	if err == nil {
		err = failed // what came before is good
	}
	return at+n >= w.size || w.leaves(n, min(seg.until, rd.remoteEnd())), err
}

// fits says whether a first batch of this size may be taken: one that is larger than the room may only as the first of a
// request.
func (rd *read) fits(size int64) bool {
	room := rd.room - rd.acc.len()
	if size <= room || rd.first && rd.acc.len() == 0 {
		return true
	}
	rd.acc.tooBig = rd.acc.len() == 0
	return false
}

// take moves what the policy lets through from the window into the answer, and gives its size.
func (r *Reader) take(ctx context.Context, rd *read, w *window, room int64, seg piece) (int64, error) {
	m := rd.tr.Mark()
	before := rd.acc
	before.txns = rd.acc.txns.clone()
	rd.acc.codecs = 0
	n, err := r.accept(rd, w.buf.B[:w.n], room, &seg)
	if rd.acc.buf == nil {
		rd.acc.begin(w.buf, n)
	} else if n > 0 {
		b, err := rd.acc.grow(ctx, rd.mem, n)
		if err != nil {
			rd.acc = before
			return 0, rd.tr.Fail(m, "batches", err)
		}
		copy(b, w.buf.B[:n])
		rd.acc.n += n
	}
	traceBatches(rd, m, &before, n, r.policy.Verify)
	if err != nil {
		return n, rd.tr.Fail(m, "batches", w.corrupt(w.start+n, err))
	}
	return n, nil
}

// accept says how many bytes of b, which begins with a batch, go into the answer: whole batches, verified, or with Kafka's
// policy all that there is room for. The first batch may exceed the room. seg is the remote segment that b is of; nil: none.
func (r *Reader) accept(rd *read, b []byte, room int64, seg *piece) (int64, error) {
	if planted.CutTooLate {
		room++
	}
	w := format.Walk(b)
	n := int64(0)
	for w.Next() {
		h := w.Header()
		size := h.Size()
		if n+size > room && (n > 0 || rd.acc.len() > 0) {
			break
		}
		if r.policy.Verify {
			err := rd.verify(h, w.Bytes(), seg)
			if err == nil && n > 0 && h.BaseOffset > rd.acc.next { // nothing before it proves its offsets
				err = beforeNext(h, b[n+size:])
			}
			if err != nil {
				return n, err
			}
		}
		if seg != nil && r.policy.Lineage && h.BaseOffset >= min(seg.until, rd.remoteEnd()) {
			break
		}
		if r.tracks(rd, h) {
			if err := rd.acc.txns.saw(h, func() ([]byte, error) { return w.Bytes(), nil }); err != nil {
				return n, err
			}
		}
		rd.acc.saw(h)
		n += size
	}
	if !r.policy.WholeBatches {
		return max(n, min(int64(len(b)), room)), nil
	}
	if n == 0 {
		return 0, w.Err()
	}
	return n, nil
}

// beforeNext holds a batch against the one behind it, if its header is there.
func beforeNext(h *format.BatchHeader, rest []byte) error {
	next, err := format.ParseBatchHeader(rest)
	if err != nil {
		return nil // a bad batch is told to the read that begins with it
	}
	return precedes(h, next.BaseOffset)
}

// verify holds a batch against its CRC, and what no CRC covers against what else is known: base offset and leader epoch.
func (rd *read) verify(h *format.BatchHeader, b []byte, seg *piece) error {
	if err := format.VerifyBatch(h, b); err != nil && !planted.UncheckedCRCs {
		return err
	}
	if seg == nil {
		return rd.misplaced(h, math.MaxInt64)
	}
	if h.LeaderEpoch != epoch.Undefined { // that is of before there were epochs
		if err := seg.strays(h); err != nil {
			return err
		}
	}
	return rd.misplaced(h, seg.until)
}

// misplaced is an error for a batch that comes behind the answer's last one or was written in another leader epoch than the
// lineage has at its offset. until is where the lineage leaves the segment (exclusive).
func (rd *read) misplaced(h *format.BatchHeader, until int64) error {
	if rd.acc.batches > 0 {
		if err := follows(h, rd.acc.next); err != nil {
			return err
		}
	}
	if h.LeaderEpoch == epoch.Undefined {
		return nil
	}
	if le, ok := rd.part.Lineage.ForOffset(h.BaseOffset); ok && h.BaseOffset < until && le.Epoch != h.LeaderEpoch {
		return abi.Errorf("", "", abi.Corrupt, "batch %d-%d says leader epoch %d, and the offset was written in epoch %d", h.BaseOffset, h.LastOffset, h.LeaderEpoch, le.Epoch)
	}
	return nil
}

// follows is an error for a batch that begins below next, the end of the one before it.
func follows(h *format.BatchHeader, next int64) error {
	if h.BaseOffset >= next {
		return nil
	}
	return abi.Errorf("", "", abi.Corrupt, "batch %d-%d comes behind offset %d", h.BaseOffset, h.LastOffset, next-1)
}

// log is the segment's log as an object.
func (r *Reader) log(seg *rlmm.Segment) *transfer.Object {
	obj := r.store.Mover.Object(transfer.Key{Segment: seg.SegmentID}, seg.Key()+".log", func(ctx context.Context, rng abi.Range) (*abi.Source, error) {
		return r.store.RSM.FetchLogSegment(ctx, &seg.SegmentMetadata, rng)
	})
	if r.policy.Verify {
		obj.Promise(seg.SizeBytes)
	}
	return obj
}

// maxIndex bounds an index: Kafka's log.index.size.max.bytes is 10 MiB, a transaction index has no limit of its own.
const maxIndex = 256 << 20

// index loads one of the segment's indexes from the store. used is filled in when it was.
func (r *Reader) index(seg *rlmm.Segment, t abi.IndexType, used *transfer.Evidence) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		obj := r.store.Mover.Object(transfer.Key{Segment: seg.SegmentID, Index: t}, seg.Key()+" "+t.String()+" index",
			func(ctx context.Context, _ abi.Range) (*abi.Source, error) {
				return r.store.RSM.FetchIndex(ctx, &seg.SegmentMetadata, t)
			})
		defer obj.Close()
		b, err := obj.ReadAll(ctx, maxIndex)
		*used = obj.Evidence()
		return b, err
	}
}
