package reader

import (
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// tellMissing makes a finding of a segment that does not begin with its start offset, or does not end with its end offset,
// where nothing in the window says that it was compacted: that alone leaves offsets out. at is where the window's first batch
// begins. Segments of before magic 2 tell neither.
func (r *Reader) tellMissing(rd *read, w *window, at int64) {
	if !w.strict {
		return
	}
	b := w.buf.B[:w.n]
	first, last, compacted := survey(b)
	if compacted || last < 0 {
		return
	}
	if at == 0 && first > w.seg.StartOffset {
		r.found(rd, finding.Of(rd.part.ID, w.seg.StartOffset, "segment %s begins with offset %d, and nothing says that it was compacted",
			w.seg.Key(), first))
	}
	if at+w.n >= w.size && last < w.seg.EndOffset {
		r.found(rd, finding.Of(rd.part.ID, last+1, "segment %s ends with offset %d and not with %d, and nothing says that it was compacted",
			w.seg.Key(), last, w.seg.EndOffset))
	}
}

// survey gives the first and the last offset of batches, and whether something between the two was compacted away: a gap, or a
// batch with fewer records than offsets. last is -1 where it can't be known.
func survey(b []byte) (first, last int64, compacted bool) {
	last = -1
	for w := format.Walk(b); w.Next(); {
		h := w.Header()
		switch {
		case h.Magic < 2:
			return 0, -1, false
		case last < 0:
			first = h.BaseOffset
		case h.BaseOffset != last+1:
			compacted = true
		}
		compacted = compacted || int64(h.Count) != h.LastOffset-h.BaseOffset+1
		last = h.LastOffset
	}
	return first, last, compacted
}
