package locallog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Segment is one segment file with its indexes.
type Segment struct {
	Base int64 // offset that its name tells
	Size int64 // bytes that hold whole batches

	path  string
	until int64 // exclusive end of its offsets: the base of the segment that follows; math.MaxInt64 where none does
	file  *os.File
	last  batchAt // the last batch, while no segment follows; Length is 0 where it is not known
	disk  int64   // bytes of the file when it was looked at: more than Size where its end is torn
	index format.OffsetIndex
	txns  format.TxnIndex
	// made is the offset index that took the place of index when an entry of that did not lead to its batch; it holds nil
	// until then.
	made *atomic.Pointer[format.OffsetIndex]
	met  *met

	rebuild struct{ index, txns error } // why the index on disk can't be used, until it was rebuilt in memory
}

// Path is the segment's file.
func (s *Segment) Path() string { return s.path }

// newSegment is the segment of the file at path, which open opens.
func newSegment(base int64, path string, met *met) *Segment {
	return &Segment{Base: base, path: path, until: math.MaxInt64, made: new(atomic.Pointer[format.OffsetIndex]), met: met}
}

// Index is the segment's offset index: that on disk, or one made in memory where that can't be used.
func (s *Segment) Index() format.OffsetIndex {
	if x := s.made.Load(); x != nil {
		return *x
	}
	return s.index
}

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
	s.index, s.rebuild.index = s.readIndex()
	b, err := readAll("open segment", s.beside(".txnindex"), maxSmall)
	if err == nil {
		s.txns = format.TxnIndex(b)
		err = s.txns.Check(s.Base)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.rebuild.txns = err // never taken for "no transaction was aborted"
	return nil
}

// errMissing is why an index that is not there has to be made.
var errMissing = errors.New("it is missing")

// readIndex reads the offset index, and says why it has to be rebuilt where it has. That of an active segment may end in
// preallocated zeros.
func (s *Segment) readIndex() (x format.OffsetIndex, why error) {
	b, err := readAll("open segment", s.beside(".index"), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	if err != nil {
		return nil, pathless(err)
	}
	for len(b) >= 8 && [8]byte(b[len(b)-8:]) == [8]byte{} {
		b = b[:len(b)-8]
	}
	x = format.OffsetIndex(b)
	if err := x.Check(s.Base); err != nil {
		return nil, err
	}
	if n := x.Len(); n > 0 {
		if at, pos := x.Entry(n-1, s.Base); pos >= s.Size {
			return x, fmt.Errorf("entry (%d, %d) points behind the segment's %d bytes", at, pos, s.Size)
		}
	}
	return x, nil
}

func (s *Segment) beside(ext string) string { return strings.TrimSuffix(s.path, ".log") + ext }

func (s *Segment) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
