package locallog

import (
	"sort"

	"github.com/rsmhost/rsmhost/host/format"
)

// Span is where a read begins in the local log, and how far it may go in that segment.
type Span struct {
	Segment *Segment
	Pos     int64              // of the first batch
	First   format.BatchHeader // of the first batch
	Limit   int64              // exclusive position in the segment where the bound, or the segment, ends
	Next    int64              // base of the following segment; LogEnd behind the last
}

// Find gives the first batch that ends at or after offset, and the stretch from it up to bound (exclusive offset). It
// goes on into the following segments where one holds nothing at or above offset, and reports false where none does.
func (l *Log) Find(offset, bound int64) (Span, bool, error) {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].Base > offset })
	for i = max(i-1, 0); i < len(l.segments); i++ {
		s := l.segments[i]
		b, ok, err := s.find(offset)
		if err != nil {
			return Span{}, false, err
		}
		if !ok {
			continue
		}
		limit, err := s.limit(bound, l.next(i))
		if err != nil {
			return Span{}, false, err
		}
		return Span{Segment: s, Pos: b.Pos, First: b.BatchHeader, Limit: limit, Next: l.next(i)}, true, nil
	}
	return Span{}, false, nil
}

// Stretch is batches that lie one after another in a segment's file. The file may be read as long as the Stretch is held,
// whatever the broker that owns it does.
type Stretch struct {
	Segment *Segment
	Pos     int64
	Bytes   int64
}

// Headers calls visit with the header of each batch of the span that lies whole before the position limit (exclusive) until
// visit says stop. The first one is not read again, and none that begins at limit or behind it. An error is CORRUPT at bytes
// that are no batch, with their position; what came before was visited.
func (s *Span) Headers(limit int64, visit func(h *format.BatchHeader) (stop bool)) error {
	second := s.Pos + s.First.Size()
	if second > limit || visit(&s.First) {
		return nil
	}
	_, err := s.Segment.scan(second, s.First.LastOffset+1, limit, func(b batchAt) bool { return b.Pos+b.Size() > limit || visit(&b.BatchHeader) })
	return err
}

// Check holds the batches of b, which was read from the span's position on, against each other and the segment as Headers does,
// and gives the bytes of b that are whole batches in their place. An error is CORRUPT, and says why that is not all of b; a last
// batch that is cut by the end of b is no error.
func (s *Span) Check(b []byte) (good int64, err error) {
	ahead := headers.Get().(*headerReader)
	defer ahead.free()
	ahead.reset(s.Segment)
	ahead.known, ahead.knownAt = b, s.Pos
	end, limit := s.Pos+s.First.Size(), s.Pos+int64(len(b))
	if end > limit {
		return 0, nil
	}
	good = end - s.Pos
	_, err = s.Segment.scanWith(ahead, end, s.First.LastOffset+1, limit, func(b batchAt) bool {
		if b.Pos+b.Size() > limit {
			return true
		}
		good = b.Pos + b.Size() - s.Pos
		return false
	})
	return good, err
}

func (l *Log) next(i int) int64 {
	if i+1 < len(l.segments) {
		return l.segments[i+1].Base
	}
	return l.LogEnd
}

// limit is the position of the batch that bound falls into or before: nothing from there on may be read.
func (s *Segment) limit(bound, next int64) (int64, error) {
	if bound >= next {
		return s.Size, nil
	}
	b, ok, err := s.find(bound)
	if err != nil || !ok {
		return s.Size, err
	}
	return b.Pos, nil
}

// Collect appends the aborted transactions of all local segments that a read of [from, upper) needs, until one says that
// no more can follow.
func (l *Log) Collect(dst []format.AbortedTxn, from, upper int64) []format.AbortedTxn {
	dst, _ = l.CollectAll(dst, from, upper)
	return dst
}

// CollectAll is Collect, and says whether no marker that is written later can concern the read.
func (l *Log) CollectAll(dst []format.AbortedTxn, from, upper int64) (all []format.AbortedTxn, complete bool) {
	for _, s := range l.segments {
		if dst, complete = s.txns.Collect(dst, from, upper); complete {
			return dst, true
		}
	}
	return dst, l.StableBelow(upper) >= upper // no transaction that began below is open
}
