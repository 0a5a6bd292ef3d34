package locallog

import (
	"errors"
	"io"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Batch is a batch of a segment file: its header, and where its bytes lie.
type Batch struct {
	format.BatchHeader
	Segment *Segment
	Pos     int64
}

// Bytes reads the batch.
func (b *Batch) Bytes() ([]byte, error) {
	p := make([]byte, b.Size())
	if _, err := b.Segment.ReadAt(p, b.Pos); err != nil {
		kind := abi.FileKind(err)
		if errors.Is(err, io.EOF) {
			kind = abi.Corrupt
		}
		return nil, abi.E("read", b.Segment.path, kind, err)
	}
	return p, nil
}

// Scan calls visit with each batch of the log that ends at or after offset, in order, until visit says stop or fails.
// Bytes that are no batch end it with CORRUPT, and a Hole with ErrHole.
func (l *Log) Scan(offset int64, visit func(*Batch) (stop bool, err error)) error {
	return l.scan(offset, true, visit)
}

// scan is Scan, which goes on behind holes where strict is false.
func (l *Log) scan(offset int64, strict bool, visit func(*Batch) (stop bool, err error)) error {
	for i := range len(l.segments) + 1 {
		if h, ok := l.between(offset, i); ok && strict {
			return h.Err(l.ID)
		}
		if i == len(l.segments) || l.next(i) <= offset {
			continue
		}
		stopped, err := l.segments[i].visit(offset, visit)
		if _, ok := l.between(offset, i+1); ok && errors.Is(err, errCut) {
			err = nil // the hole begins there
		}
		if stopped || err != nil {
			return err
		}
	}
	return nil
}

// Visit is Scan over one segment.
func (s *Segment) Visit(offset int64, visit func(*Batch) (stop bool, err error)) error {
	_, err := s.visit(offset, visit)
	return err
}

func (s *Segment) visit(offset int64, visit func(*Batch) (bool, error)) (stopped bool, err error) {
	var failed error
	_, err = s.seek(offset, func(at batchAt) bool {
		if at.LastOffset < offset {
			return false
		}
		stopped, failed = visit(&Batch{at.BatchHeader, s, at.Pos})
		return stopped || failed != nil
	})
	return stopped, errors.Join(failed, err)
}

// Position is where the first batch begins that ends at or after offset; the segment's end where none does.
func (s *Segment) Position(offset int64) (int64, error) {
	b, ok, err := s.find(offset)
	if !ok {
		return s.Size, err
	}
	return b.Pos, err
}

// Batches calls visit with each batch of the segment from position pos on, where one begins, until visit says stop or fails. end
// is the position of the batch that was not visited. Bytes that are no batch end it with CORRUPT.
func (s *Segment) Batches(pos int64, visit func(*Batch) (stop bool, err error)) (end int64, err error) {
	var failed error
	end, err = s.scan(pos, s.firstAt(pos), s.Size, func(at batchAt) bool {
		var stop bool
		stop, failed = visit(&Batch{at.BatchHeader, s, at.Pos})
		return stop || failed != nil
	})
	return end, errors.Join(failed, err)
}

// MaxTimestamp is the greatest timestamp of the segment's batches in ms, -1 where it holds none, and the first batch that
// has it.
func (s *Segment) MaxTimestamp() (int64, *Batch, error) {
	best := int64(-1)
	var first *Batch
	err := s.Visit(s.Base, func(b *Batch) (bool, error) {
		if b.MaxTimestamp > best {
			best, first = b.MaxTimestamp, b
		}
		return false, nil
	})
	return best, first, err
}
