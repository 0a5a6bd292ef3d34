package locallog

import (
	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// indexInterval is Kafka's index.interval.bytes: an entry before a batch when more was written since the last one.
const indexInterval = 4096

// rebuildIndexes makes in memory the indexes that can't be used as they are on disk: damaged ones, and after an unclean
// end the last segment's, whose file may lag behind the log. A broker does the same on disk.
func (l *Log) rebuildIndexes(clean bool) error {
	for i, s := range l.segments {
		last := i == len(l.segments)-1
		if s.rebuild.index != nil || last && !clean {
			x, lost, err := s.indexed(s.index)
			if err != nil {
				return err
			}
			if why := s.rebuild.index; why != nil && !(last && why == errMissing && x.Len() == 0) { // else it is made with its first entry
				l.noteRepaired(s.beside(".index"), "%v; made anew in memory", why)
			}
			if lost.bytes > 0 {
				l.note(s.path, "%s", lost.text())
			}
			s.index = x
		}
		if s.rebuild.txns != nil || last && !clean {
			if s.rebuild.txns != nil {
				l.noteRepaired(s.beside(".txnindex"), "%v; made anew in memory", s.rebuild.txns)
			}
			if err := l.rebuildAborted(s, l.next(i)); err != nil {
				return err
			}
		}
		s.rebuild.index, s.rebuild.txns = nil, nil
	}
	return nil
}

// rebuildAborted makes the transaction index of s, whose offsets end before next: from the newest producer snapshot at or
// below its base, and all batches from there to its end.
func (l *Log) rebuildAborted(s *Segment, next int64) error {
	open, from, err := l.producersAt(s.Base)
	if err != nil {
		return err
	}
	whole := from > 0 || l.FirstBase() == 0 // what was open before the first batch is known
	var x format.TxnIndex
	err = l.scan(from, false, func(b *Batch) (bool, error) {
		if b.BaseOffset >= next {
			return true, nil
		}
		_, known := open[b.ProducerID]
		aborted, ok, err := open.apply(b)
		if b.IsControl() && b.IsTransactional() && !known && !whole && s.rebuild.txns != nil {
			return true, abi.Errorf("open segment", s.beside(".txnindex"), abi.Precondition,
				"%w; it can't be made anew: no producer snapshot tells where the transaction of producer %d began that ends at offset %d",
				s.rebuild.txns, b.ProducerID, b.LastOffset)
		}
		if ok && b.Segment == s {
			x = format.AppendAborted(x, aborted)
		}
		return false, ignoreCorrupt(err)
	})
	s.txns = x
	return ignoreCorrupt(err)
}
