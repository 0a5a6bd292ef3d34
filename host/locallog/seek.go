package locallog

import (
	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// seek is a scan of the segment from a batch on that does not end behind offset, found by the offset index. The batch that
// an entry leads to has to end with the entry's offset; an index of which an entry does not lead to its batch is made anew.
func (s *Segment) seek(offset int64, visit func(batchAt) (stop bool)) (int64, error) {
	entry, pos := s.Index().Lookup(s.Base, offset)
	if pos == 0 {
		return s.scan(0, s.Base, s.Size, visit)
	}
	misled := false
	stop, err := s.scan(pos, anyOffset, s.Size, func(at batchAt) bool {
		if misled = at.Pos == pos && at.LastOffset != entry; misled {
			return true
		}
		return visit(at)
	})
	if !misled && !(stop == pos && abi.KindOf(err) == abi.Corrupt) || s.made.Load() != nil {
		return stop, err
	}
	if err := s.reindex(entry, pos); err != nil {
		return pos, err
	}
	_, pos = s.Index().Lookup(s.Base, offset)
	return s.scan(pos, s.firstAt(pos), s.Size, visit)
}

// firstAt is what a scan from pos on has for the offset that comes next.
func (s *Segment) firstAt(pos int64) int64 {
	if pos == 0 {
		return s.Base
	}
	return anyOffset
}

// find gives the first batch whose last offset is at or above offset. It reports false where the segment holds none.
func (s *Segment) find(offset int64) (b batchAt, ok bool, err error) {
	_, err = s.seek(offset, func(at batchAt) bool {
		if at.LastOffset >= offset {
			b, ok = at, true
		}
		return ok
	})
	return b, ok, err
}

// reindex makes the offset index anew in memory, because of the entry (offset, pos).
func (s *Segment) reindex(offset, pos int64) error {
	x, lost, err := s.indexed(s.index)
	if err != nil {
		return err
	}
	if s.made.CompareAndSwap(nil, &x) && !s.harmless(offset, pos) {
		s.met.repaired(s.beside(".index"), offset, "entry (%d, %d) does not lead to its batch; the index is made anew in memory", offset, pos)
		if lost.bytes > 0 {
			s.met.tell(false, s.path, lost.first, "%s", lost.text())
		}
	}
	return nil
}

// harmless reports an entry that leads to where a scan for its offset may begin: brokers of before Kafka 4.0 gave an entry the
// last offset of an append of several batches.
func (s *Segment) harmless(offset, pos int64) bool {
	h, ok := s.headerAt(pos)
	return ok && h.BaseOffset <= offset
}

// proves reports an entry whose batch begins at its position and ends with its offset.
func (s *Segment) proves(offset, pos int64) bool {
	h, ok := s.headerAt(pos)
	return ok && h.LastOffset == offset && h.BaseOffset >= s.Base
}

func (s *Segment) headerAt(pos int64) (h format.BatchHeader, ok bool) {
	if pos >= s.Size {
		return h, false
	}
	ahead := headers.Get().(*headerReader)
	defer ahead.free()
	ahead.reset(s)
	h, err := s.header(ahead, pos)
	return h, err == nil
}

// indexed makes an offset index from the segment's batches. Behind bytes that are no batch it goes on where an entry of old
// leads to its batch. lost is what is missing in the middle by old.
func (s *Segment) indexed(old format.OffsetIndex) (x format.OffsetIndex, lost cut, err error) {
	pos, next, since := int64(0), s.Base, int64(0)
	search := cutSearch{old: old, base: s.Base}
	for {
		stop, err := s.scan(pos, next, s.Size, func(b batchAt) bool {
			if since > indexInterval || b.Pos == pos && pos > 0 {
				x = format.AppendOffsetEntry(x, s.Base, b.LastOffset, b.Pos)
				since = 0
			}
			since += b.Size()
			search.sees(b, next)
			next = b.LastOffset + 1
			return false
		})
		if abi.KindOf(err) != abi.Corrupt {
			return x, search.result(), err
		}
		var ok bool
		if pos, ok = s.behind(old, stop, next); !ok {
			return x, search.result(), nil
		}
		next = anyOffset
	}
}

// behind gives the position of the first entry of x behind pos that leads to its batch, which begins at next or above.
func (s *Segment) behind(x format.OffsetIndex, pos, next int64) (int64, bool) {
	for i := range x.Len() {
		offset, at := x.Entry(i, s.Base)
		if at <= pos || offset < next || !s.proves(offset, at) {
			continue
		}
		if h, _ := s.headerAt(at); h.BaseOffset >= next {
			return at, true
		}
	}
	return 0, false
}
