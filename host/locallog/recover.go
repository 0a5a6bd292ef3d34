package locallog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// end is where a segment's good bytes end.
type end struct {
	offset int64 // exclusive
	torn   error // why it is not the end of the file
	epochs ascent
}

// recover finds the end of the last segment and cuts Size there, in memory. After an unclean end each batch's CRC is
// checked as well, as a broker's recovery does.
func (s *Segment) recover(clean bool) (end, error) {
	from := int64(0)
	if n := s.index.Len(); clean && n > 0 {
		entry, pos := s.index.Entry(n-1, s.Base)
		if s.proves(entry, pos) {
			from = pos
		} else {
			s.rebuild.index = fmt.Errorf("entry (%d, %d) does not lead to its batch", entry, pos)
		}
	}
	e := end{offset: s.Base}
	var bad error
	pos, err := s.scan(from, s.firstAt(from), s.Size, func(b batchAt) bool {
		if !clean {
			if bad = s.Verify(&b.BatchHeader, b.Pos); bad != nil {
				return true
			}
			e.epochs.add(&b.BatchHeader)
		}
		e.offset = max(e.offset, b.LastOffset+1)
		s.last = b
		return false
	})
	if err == nil {
		err = bad
	}
	if err != nil && abi.KindOf(err) != abi.Corrupt {
		return e, err
	}
	e.torn = err
	s.Size = pos
	return e, nil
}

// Verify holds the batch at pos, whose header is h, against its CRC. An error is CORRUPT, or what reading the file gave.
func (s *Segment) Verify(h *format.BatchHeader, pos int64) error {
	err := format.VerifyFrom(h, io.NewSectionReader(s.file, pos, h.Size()))
	if err != nil && abi.KindOf(err) != abi.Corrupt {
		return abi.E("read", s.path, abi.FileKind(err), err)
	}
	return err
}

// Batches follow each other, so that what is behind their end begins there; a file may be preallocated by a GiB.
const (
	maxZeros  = 16 << 20
	zerosPage = 64 << 10
)

// unwritten reports zeros behind the segment's end: all, or the first 16 MiB.
func (s *Segment) unwritten() (bool, error) {
	page, zeros := make([]byte, zerosPage), make([]byte, zerosPage)
	for pos := s.Size; pos < min(s.disk, s.Size+maxZeros); pos += zerosPage {
		n, err := s.file.ReadAt(page[:min(zerosPage, s.disk-pos)], pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, abi.E("read", s.path, abi.FileKind(err), err)
		}
		if !bytes.Equal(page[:n], zeros[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// ignoreCorrupt passes over a bad batch in the middle of the log: reads that reach it report it.
func ignoreCorrupt(err error) error {
	if abi.KindOf(err) == abi.Corrupt {
		return nil
	}
	return err
}
