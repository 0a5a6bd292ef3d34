package locallog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Segment is one segment file with its indexes.
type Segment struct {
	Base int64 // offset that its name tells
	Size int64 // bytes that hold whole batches

	path  string
	file  *os.File
	disk  int64 // bytes of the file when it was looked at: more than Size where its end is torn
	index format.OffsetIndex
	txns  format.TxnIndex

	rebuild struct{ index, txns error } // why the index on disk can't be used, until it was rebuilt in memory
}

// Path is the segment's file.
func (s *Segment) Path() string { return s.path }

// Index is the segment's offset index: that on disk, or one made in memory where that can't be used.
func (s *Segment) Index() format.OffsetIndex { return s.index }

// Aborted is the segment's transaction index: that on disk, or one made in memory where that can't be used; empty where
// no abort marker lies in the segment.
func (s *Segment) Aborted() format.TxnIndex { return s.txns }

// File is the segment's file, for ReadAt and what else leaves its position alone: others read it too.
func (s *Segment) File() *os.File { return s.file }

// ReadAt reads the file.
func (s *Segment) ReadAt(p []byte, off int64) (int, error) { return s.file.ReadAt(p, off) }

func (s *Segment) open() error {
	f, err := openFile("open segment", s.path)
	if err != nil {
		return err
	}
	s.file = f
	st, err := f.Stat()
	if err != nil {
		return abi.E("open segment", s.path, abi.FileKind(err), err)
	}
	s.Size, s.disk = st.Size(), st.Size()
	if s.index, s.rebuild.index, err = s.readIndex(); err != nil {
		return err
	}
	b, err := s.readBeside(".txnindex")
	if err != nil {
		return err
	}
	s.txns = format.TxnIndex(b)
	s.rebuild.txns = s.txns.Check(s.Base) // never taken for "no transaction was aborted"
	return nil
}

// readIndex reads the offset index, and says why it has to be rebuilt where it has. That of an active segment may end in
// preallocated zeros.
func (s *Segment) readIndex() (x format.OffsetIndex, why, err error) {
	b, err := readAll("open segment", s.beside(".index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("it is missing"), nil
	}
	if err != nil {
		return nil, nil, err
	}
	for len(b) >= 8 && [8]byte(b[len(b)-8:]) == [8]byte{} {
		b = b[:len(b)-8]
	}
	x = format.OffsetIndex(b)
	if err := x.Check(s.Base); err != nil {
		return nil, err, nil
	}
	if n := x.Len(); n > 0 {
		if at, pos := x.Entry(n-1, s.Base); pos >= s.Size {
			return nil, fmt.Errorf("entry (%d, %d) points behind the segment's %d bytes", at, pos, s.Size), nil
		}
	}
	return x, nil, nil
}

func (s *Segment) beside(ext string) string { return strings.TrimSuffix(s.path, ".log") + ext }

func (s *Segment) readBeside(ext string) ([]byte, error) {
	b, err := readAll("open segment", s.beside(ext))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return b, nil
}

func (s *Segment) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// batchAt is a batch as a scan sees it: its header and where it lies.
type batchAt struct {
	format.BatchHeader
	Pos int64
}

// scan calls visit with the header of each batch that begins at position pos or behind it and before limit until visit says stop.
// It ends at limit, at most the segment's size, and at a batch that is cut or is none with a CORRUPT error and its position.
func (s *Segment) scan(pos, limit int64, visit func(batchAt) (stop bool)) (int64, error) {
	ahead := headers.Get().(*headerReader)
	defer headers.Put(ahead)
	ahead.reset(s)
	for pos < limit {
		b, err := ahead.at(pos)
		if err != nil {
			return pos, err
		}
		h, err := format.ParseBatchHeader(b)
		if err != nil {
			return pos, abi.Errorf("read", s.path, abi.Corrupt, "batch at byte %d: %w", pos, err)
		}
		if pos+h.Size() > s.Size {
			return pos, abi.Errorf("read", s.path, abi.Corrupt, "batch %d-%d at byte %d of %d bytes is cut at byte %d",
				h.BaseOffset, h.LastOffset, pos, h.Size(), s.Size)
		}
		if visit(batchAt{h, pos}) {
			return pos, nil
		}
		pos += h.Size()
	}
	return pos, nil
}

// find gives the first batch whose last offset is at or above offset. It reports false where the segment holds none.
func (s *Segment) find(offset int64) (b batchAt, ok bool, err error) {
	_, pos := s.index.Lookup(s.Base, offset)
	_, err = s.scan(pos, s.Size, func(at batchAt) bool {
		if at.LastOffset >= offset {
			b, ok = at, true
		}
		return ok
	})
	return b, ok, err
}
