package locallog

import (
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// end is where a segment's good bytes end.
type end struct {
	offset   int64 // exclusive
	position int64
	torn     error // why it is not the end of the file
}

// recover finds the end of the last segment and cuts Size there, in memory. After an unclean end each batch's CRC is
// checked as well, as a broker's recovery does.
func (s *Segment) recover(clean bool) (end, error) {
	from := int64(0)
	if n := s.index.Len(); clean && n > 0 {
		_, from = s.index.Entry(n-1, s.Base)
	}
	e := end{offset: s.Base}
	var bad error
	pos, err := s.scan(from, func(b batchAt) bool {
		if !clean {
			if bad = s.verify(b); bad != nil {
				return true
			}
		}
		e.offset = max(e.offset, b.LastOffset+1)
		return false
	})
	if err == nil {
		err = bad
	}
	if err != nil && abi.KindOf(err) != abi.Corrupt {
		return e, err
	}
	e.position, e.torn = pos, err
	s.Size = pos
	return e, nil
}

func (s *Segment) verify(b batchAt) error {
	bytes := make([]byte, b.Size())
	if _, err := s.file.ReadAt(bytes, b.Pos); err != nil {
		return abi.E("read", s.path, abi.FileKind(err), err)
	}
	return format.VerifyBatch(&b.BatchHeader, bytes)
}

// firstUnstable is the first offset of the oldest transaction that is open at the log's end: from the newest producer
// snapshot, and the batches behind it. Without open transactions it is LogEnd.
func (l *Log) firstUnstable() (int64, error) {
	open, from, err := l.producers()
	if err != nil {
		return 0, err
	}
	for _, s := range l.segments {
		if err := replay(s, from, open); err != nil {
			return 0, err
		}
	}
	first := l.LogEnd
	for _, offset := range open {
		first = min(first, offset)
	}
	return first, nil
}

// producers gives the open transactions (producer id to first offset) of the newest usable snapshot, and the offset it
// covers up to. A broken snapshot is passed over for an older one, as a broker does.
func (l *Log) producers() (map[int64]int64, int64, error) {
	open := map[int64]int64{}
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		if l.snapshots[i] > l.LogEnd {
			continue
		}
		name := format.SegmentFileName(l.snapshots[i], ".snapshot")
		states, err := readFile(l.Path, name, format.ParseProducerSnapshot)
		if err != nil {
			if k := abi.KindOf(err); k != abi.Corrupt && k != abi.Unsupported {
				return nil, 0, err
			}
			l.find("%s: %v; an older one is used", filepath.Join(l.Path, name), err)
			continue
		}
		for _, p := range states {
			if p.CurrentTxnFirstOffset >= 0 {
				open[p.ProducerID] = p.CurrentTxnFirstOffset
			}
		}
		return open, l.snapshots[i], nil
	}
	return open, 0, nil
}

// replay applies the transactional batches of s from offset on to the open transactions.
func replay(s *Segment, from int64, open map[int64]int64) error {
	if from > s.Base {
		if _, ok, err := s.find(from); !ok { // all of it lies below; a torn end was cut before
			return ignoreCorrupt(err)
		}
	}
	_, pos := s.index.Lookup(s.Base, from)
	_, err := s.scan(pos, func(b batchAt) bool {
		if b.LastOffset < from || !b.IsTransactional() {
			return false
		}
		if b.IsControl() { // commit and abort alike end the transaction
			delete(open, b.ProducerID)
		} else if _, ok := open[b.ProducerID]; !ok {
			open[b.ProducerID] = b.BaseOffset
		}
		return false
	})
	return ignoreCorrupt(err)
}

// ignoreCorrupt passes over a bad batch in the middle of the log: reads that reach it report it.
func ignoreCorrupt(err error) error {
	if abi.KindOf(err) == abi.Corrupt {
		return nil
	}
	return err
}
