package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// start is where in a segment a search begins, and what says so.
type start struct {
	entry, pos int64
	index      format.OffsetIndex // that the entry is of; nil: of none
	fault      error              // why the store's index can't be used; nil: it can, or none is needed
}

// position is where in the segment a read of offset begins: by an entry of its offset index, or where a scan of the segment
// came to before.
func (r *Reader) position(ctx context.Context, rd *read, seg *rlmm.Segment, offset int64) (start, error) {
	from := start{entry: seg.StartOffset}
	if offset <= seg.StartOffset {
		tracePosition(rd, rd.tr.Mark(), 0, "the segment begins there", nil)
		return from, nil
	}
	m := rd.tr.Mark()
	var used transfer.Evidence
	x, origin, err := r.offsetIndex(ctx, seg, &used)
	if err != nil && !(r.policy.Verify && unusable(err)) {
		return from, rd.tr.Fail(m, "index", err)
	}
	evidence := "a scan from the segment's begin"
	if err == nil {
		traceIndex(rd, m, abi.OffsetIndex, int64(len(x)), origin, r.store.Name, used)
		m = rd.tr.Mark()
		from.index = x
		from.entry, from.pos = x.Lookup(seg.StartOffset, offset)
		if rd.tr.On() {
			evidence = fmt.Sprintf("entry (%d, %d)", from.entry, from.pos)
		}
	}
	from.fault = err
	if e, ok := r.scans.floor(seg.SegmentID, offset, from.pos); ok && r.policy.Verify {
		from = start{entry: e.last, pos: e.pos, fault: from.fault}
		evidence = "an earlier scan of the segment came there"
	}
	tracePosition(rd, m, from.pos, evidence, x)
	return from, nil
}

// offsetIndex gives the segment's offset index. One that can't be used is not asked for again for a while.
func (r *Reader) offsetIndex(ctx context.Context, seg *rlmm.Segment, used *transfer.Evidence) (format.OffsetIndex, indexcache.Origin, error) {
	if why := r.scans.fault(seg.SegmentID, abi.OffsetIndex); why != nil && r.policy.Verify {
		return nil, "", why
	}
	x, origin, err := r.indexes.Offset(ctx, &seg.SegmentMetadata, r.index(seg, abi.OffsetIndex, used))
	r.keepFault(seg, abi.OffsetIndex, err)
	return x, origin, err
}

// keepFault keeps an error of an index for which a scan takes its place.
func (r *Reader) keepFault(seg *rlmm.Segment, t abi.IndexType, err error) {
	if r.policy.Verify && unusable(err) {
		r.scans.setFault(seg, t, err)
	}
}

// search looks for the first batch that ends at or after offset, beginning at from. Where that turns out to be no place to
// begin at, it goes back: the data may be good all the same. What was wrong with the index is a finding.
func (r *Reader) search(ctx context.Context, rd *read, w *window, from *start, offset int64) (at int64, h format.BatchHeader, ok bool, err error) {
	seg, misled := w.seg.Segment, ""
	if r.policy.Verify {
		w.scans = &r.scans
	}
	if from.fault != nil {
		w.first = max(w.first, scanAhead)
	}
	for tries := 0; ; tries++ {
		at, h, ok, err = w.findFrom(ctx, from.entry, from.pos, offset)
		if !errors.Is(err, errMisled) && !errors.Is(err, errUnproven) {
			break
		}
		if errors.Is(err, errMisled) {
			misled = cmp.Or(r.misled(seg, from), misled)
		}
		was := *from
		r.goBack(seg, from, offset, tries)
		tracePosition(rd, rd.tr.Mark(), from.pos, fmt.Sprintf("entry (%d, %d) is no place to begin at: %v", was.entry, was.pos, err), nil)
		w.restart(from.pos)
	}
	if err != nil {
		return at, h, ok, err
	}
	if from.fault != nil {
		misled = indexFault(seg, abi.OffsetIndex, from.fault)
	}
	if misled != "" {
		f := finding.Of(rd.part.ID, seg.StartOffset, "%s", misled)
		f.Repaired = true
		r.found(rd, f)
	}
	if w.lost != nil {
		r.found(rd, finding.Of(rd.part.ID, offset, "a batch is passed over, whose records are of other offsets than it says: %v", w.lost))
	}
	return at, h, ok, nil
}

// maxBack is how many entries of an index a search goes back before it scans: where a few are wrong, all may be.
const maxBack = 4

// goBack sets from to a place before it, in the end to the segment's begin.
func (r *Reader) goBack(seg *rlmm.Segment, from *start, offset int64, tries int) {
	back := start{entry: seg.StartOffset, index: from.index, fault: from.fault}
	switch {
	case from.index != nil && tries < maxBack:
		back.entry, back.pos = from.index.Lookup(seg.StartOffset, from.entry-1)
	case from.index != nil:
		back.index = nil
		if e, ok := r.scans.floor(seg.SegmentID, offset, 0); ok {
			back.entry, back.pos = e.last, e.pos
		}
	}
	*from = back
}

// misled says what is wrong with the entry that a search began with, and has what it is of made anew.
func (r *Reader) misled(seg *rlmm.Segment, from *start) string {
	if from.index == nil { // the bytes are not those that were scanned
		r.scans.forget(seg.SegmentID)
		return ""
	}
	r.doubtIndex(seg, abi.OffsetIndex)
	return fmt.Sprintf("entry (%d, %d) of the %s index of segment %s leads to no batch that ends there: the search began before it",
		from.entry, from.pos, abi.OffsetIndex, seg.Key())
}

// doubtIndex has an index asked for again that is good by itself and says what is not so, once in a while: the store may have
// a better one.
func (r *Reader) doubtIndex(seg *rlmm.Segment, t abi.IndexType) {
	if r.scans.doubt(seg, t) {
		r.indexes.Forget(&seg.SegmentMetadata, t)
	}
}
