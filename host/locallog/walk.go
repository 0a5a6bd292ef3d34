package locallog

import (
	"errors"
	"fmt"
	"io"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// batchAt is a batch as a scan sees it: its header and where it lies.
type batchAt struct {
	format.BatchHeader
	Pos int64
}

// errCut is in the error of a batch that the file has not to its end.
var errCut = errors.New("is cut")

// anyOffset is a scan's next where nothing is known of what lies before its position.
const anyOffset = -1

// scan calls visit with the header of each batch that begins at position pos or behind it and before limit until visit says stop.
// It ends at limit, at most the segment's size, and with a CORRUPT error and its position at a batch that is cut, is none, or
// does not fit its neighbours. next is the offset that follows the batch before pos.
func (s *Segment) scan(pos, next, limit int64, visit func(batchAt) (stop bool)) (int64, error) {
	ahead := headers.Get().(*headerReader)
	defer ahead.free()
	ahead.reset(s)
	return s.scanWith(ahead, pos, next, limit, visit)
}

func (s *Segment) scanWith(ahead *headerReader, pos, next, limit int64, visit func(batchAt) (stop bool)) (int64, error) {
	for pos < limit {
		h, err := s.header(ahead, pos)
		if err != nil {
			return pos, err
		}
		if why, err := s.misplaced(ahead, &h, pos, next); why != "" || err != nil {
			return pos, s.badBatch(&h, pos, why, err)
		}
		if visit(batchAt{h, pos}) {
			return pos, nil
		}
		pos += h.Size()
		next = h.LastOffset + 1
	}
	return pos, nil
}

// header reads the header of the batch at pos, which lies whole in the segment.
func (s *Segment) header(ahead *headerReader, pos int64) (format.BatchHeader, error) {
	b, err := ahead.at(pos)
	if err != nil {
		return format.BatchHeader{}, err
	}
	h, err := format.ParseBatchHeader(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return h, abi.Errorf("read", s.path, abi.Corrupt, "batch at byte %d %w at byte %d, in its header", pos, errCut, s.Size)
	}
	if err != nil {
		return h, abi.Errorf("read", s.path, abi.Corrupt, "batch at byte %d: %w", pos, err)
	}
	if pos+h.Size() > s.Size {
		return h, abi.Errorf("read", s.path, abi.Corrupt, "batch %d-%d at byte %d of %d bytes %w at byte %d",
			h.BaseOffset, h.LastOffset, pos, h.Size(), errCut, s.Size)
	}
	return h, nil
}

func (s *Segment) badBatch(h *format.BatchHeader, pos int64, why string, err error) error {
	if err != nil {
		return err
	}
	return abi.Errorf("read", s.path, abi.Corrupt, "batch %d-%d at byte %d %s", h.BaseOffset, h.LastOffset, pos, why)
}

// misplaced says why the batch at pos can't have the offsets that it says, empty where it can: no CRC covers a base offset.
// Offsets ascend within the segment's own. Where some are left out, by compaction or by a wrong base offset, the batch that
// follows is looked at as well: it begins behind.
func (s *Segment) misplaced(ahead *headerReader, h *format.BatchHeader, pos, next int64) (why string, err error) {
	switch {
	case h.BaseOffset < s.Base:
		return fmt.Sprintf("lies outside of the segment's offsets, which begin at %d", s.Base), nil
	case h.LastOffset >= s.until:
		return fmt.Sprintf("lies outside of the segment's offsets, which end at %d", s.until-1), nil
	case h.BaseOffset < next:
		return fmt.Sprintf("comes behind offset %d", next-1), nil
	case next == anyOffset || h.BaseOffset == next || h.Magic < 2: // the header of magic 0 and 1 tells no base offset
		return "", nil
	}
	return s.overlap(ahead, h, pos)
}

// overlap says that the batch behind the one at pos begins before that ends, empty where it does not.
func (s *Segment) overlap(ahead *headerReader, h *format.BatchHeader, pos int64) (string, error) {
	end := pos + h.Size()
	if end >= s.Size {
		return "", nil
	}
	b, err := ahead.at(end)
	if err != nil {
		return "", err
	}
	follower, err := format.ParseBatchHeader(b)
	if err != nil || follower.BaseOffset > h.LastOffset { // the former: an error of who comes to it
		return "", nil
	}
	return fmt.Sprintf("comes after a gap, and the batch behind it begins at offset %d", follower.BaseOffset), nil
}
