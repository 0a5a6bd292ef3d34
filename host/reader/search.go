package reader

import (
	"cmp"
	"context"
	"errors"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// The base offset of a batch is under no CRC, and moves its last offset with it. What it is held against:
//
//	index entry    has the last offset of the batch at its position, or of the append that began with it
//	neighbours     a batch begins above the last offset of the one before it; where it begins right there, and nothing was
//	               compacted away, the two prove each other
//	segment        begins with its start offset, and no batch lies outside of it
//	leader epochs  the batch has the epoch in which its offsets were written
//
// Of two batches that overlap one is wrong: the later one, where the earlier one is proven by something else. A batch that
// compaction left alone, with gaps on both sides, may have been moved within them: nothing tells.

// errMisled is an offset index that leads to a position where no batch begins, or one behind the offset.
var errMisled = errors.New("no batch that ends there begins at this position")

// errUnproven is a batch at an index's position that could be another's place: what lies before it has to be seen.
var errUnproven = errors.New("the batch at this position is proven by nothing that was seen")

// findFrom is find from an entry of an index on. The entry has the last offset of the batch at its position, or of the append
// that began with it: what is not so is misled.
func (w *window) findFrom(ctx context.Context, entry, pos, offset int64) (int64, format.BatchHeader, bool, error) {
	exact := false
	if pos > 0 && w.strict {
		if pos >= w.size {
			return pos, format.BatchHeader{}, false, errMisled
		}
		h, ok, err := w.header(ctx, pos)
		if ok && h.LastOffset > entry || errors.As(err, new(badBatch)) {
			return pos, h, false, errMisled
		}
		if err != nil {
			return pos, h, false, err
		}
		exact = ok && h.LastOffset == entry
	}
	return w.find(ctx, pos, offset, exact)
}

// link is a batch in the chain of those that a search passes over.
type link struct {
	format.BatchHeader
	at     int64 // where it begins; -1: there is none
	proven bool  // its offsets are
	first  bool  // the search began with it
}

// find looks from pos on for the first batch that ends at or after offset. It reports false where the segment holds none.
// exact says that an index has the offset with which the batch at pos ends.
func (w *window) find(ctx context.Context, pos, offset int64, exact bool) (int64, format.BatchHeader, bool, error) {
	passed, begin := link{at: -1}, pos
	var wrong error // a batch between passed and pos whose offsets are not its own
	for {
		h, ok, err := w.header(ctx, pos)
		if err != nil {
			return pos, h, false, err
		}
		if !w.strict {
			if !ok || h.LastOffset >= offset {
				return pos, h, ok, nil
			}
			pos += h.Size()
			continue
		}
		if !ok {
			if wrong = cmp.Or(wrong, w.lost); wrong == nil {
				wrong = w.unmoved(ctx, &passed)
			}
			return pos, h, false, wrong
		}
		l := link{BatchHeader: h, at: pos, first: pos == begin}
		l.proven = l.first && (exact || pos == 0 && h.BaseOffset == w.seg.StartOffset)
		overlaps, err := w.place(&passed, &l)
		if l.proven && wrong != nil { // nothing lies between the two: the one between is of elsewhere
			w.lost, wrong = wrong, nil
		}
		switch {
		case err != nil:
			return pos, h, false, err
		case overlaps != nil && passed.proven:
			wrong = overlaps
			pos += h.Size()
			continue
		case overlaps != nil:
			wrong = overlaps
		}
		if h.LastOffset < offset {
			w.pass(&l, begin)
			passed, pos = l, pos+h.Size()
			continue
		}
		if !l.proven {
			if overlaps, err = w.overlapsNext(ctx, &l); err != nil {
				return pos, h, false, err
			}
			if overlaps != nil {
				wrong = overlaps
				pos += h.Size()
				continue
			}
		}
		if h.BaseOffset > offset { // what was asked for is not there
			if wrong = cmp.Or(wrong, w.lost); wrong == nil {
				wrong = w.unmoved(ctx, &passed)
			}
			return pos, h, wrong == nil, wrong
		}
		return pos, h, true, nil
	}
}

// place holds a batch against the one before it. Where they overlap it gives the error of the one that is wrong.
func (w *window) place(passed, l *link) (overlaps, err error) {
	switch {
	case passed.at < 0:
		return nil, nil
	case l.BaseOffset > passed.LastOffset:
		if l.BaseOffset == passed.LastOffset+1 {
			l.proven, passed.proven = true, true
		}
		return nil, nil
	case passed.proven:
		return w.corrupt(l.at, follows(&l.BatchHeader, passed.LastOffset+1)), nil
	case passed.first && passed.at > 0:
		return nil, errUnproven
	}
	return w.corrupt(passed.at, precedes(&passed.BatchHeader, l.BaseOffset)), nil
}

// overlapsNext holds a batch that nothing proves against the one behind it, and gives an error where they overlap.
func (w *window) overlapsNext(ctx context.Context, l *link) (overlaps, err error) {
	if err := w.fill(ctx, l.at+l.Size()+format.HeaderSizeV2); err != nil {
		return nil, err
	}
	next, err := format.ParseBatchHeader(w.bytes(l.at+l.Size(), l.at+l.Size()+format.HeaderSizeV2))
	if err != nil || next.BaseOffset > l.LastOffset {
		return nil, nil // a bad batch is told to the read that begins with it
	}
	return w.corrupt(l.at, precedes(&l.BatchHeader, next.BaseOffset)), nil
}

// unmoved checks a batch behind which an offset is not found: that it ends before the offset must be no damaged header's word.
func (w *window) unmoved(ctx context.Context, passed *link) error {
	if passed.at < 0 {
		return nil
	}
	if passed.first && passed.at > 0 && !passed.proven {
		return errUnproven
	}
	return w.verify(ctx, passed.at, &passed.BatchHeader)
}

// pass tells the scan index of a batch that lies far behind where the search began.
func (w *window) pass(l *link, begin int64) {
	if w.scans != nil && l.proven && l.at-begin >= scanStep && l.at >= w.noted+scanStep {
		w.noted = l.at
		w.scans.passed(w.seg.Segment, scanEntry{last: l.LastOffset, pos: l.at, before: unknownTime})
	}
}

// precedes is an error for a batch that reaches to or beyond next, where the one behind it begins.
func precedes(h *format.BatchHeader, next int64) error {
	if h.LastOffset < next {
		return nil
	}
	return abi.Errorf("", "", abi.Corrupt, "batch %d-%d comes before offset %d, and nothing else proves its offsets", h.BaseOffset, h.LastOffset, next)
}
