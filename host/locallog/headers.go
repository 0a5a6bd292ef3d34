package locallog

import (
	"errors"
	"io"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// smallBatch is the size up to which batches are read together with their headers: a read of 4 KiB costs as much as one of
// a header.
const smallBatch = 2 << 10

// headerReader reads the headers of batches that follow each other in a file. Large batches cost a read of their header
// each, small ones share one.
type headerReader struct {
	s     *Segment
	buf   [4 << 10]byte
	start int64 // position in the file of buf[0]
	n     int
	last  int64 // position that was asked for last

	known   []byte // what was read of the file before; nil: nothing
	knownAt int64  // position of known[0]
}

var headers = sync.Pool{New: func() any { return new(headerReader) }}

func (r *headerReader) reset(s *Segment) { r.s, r.start, r.n, r.last, r.known = s, 0, 0, 0, nil }

// free lets go of the reader.
func (r *headerReader) free() {
	r.known = nil
	headers.Put(r)
}

// at gives the bytes of a header at pos, fewer where the segment ends. They are good until the next call.
func (r *headerReader) at(pos int64) ([]byte, error) {
	small := pos-r.last < smallBatch // the first one is taken for large: most reads end with it
	r.last = pos
	end := min(pos+format.HeaderSizeV2, r.s.Size)
	if pos >= r.knownAt && end <= r.knownAt+int64(len(r.known)) {
		return r.known[pos-r.knownAt : end-r.knownAt], nil
	}
	if pos < r.start || end > r.start+int64(r.n) {
		want := end - pos
		if small && pos > 0 {
			want = min(int64(len(r.buf)), r.s.Size-pos)
		}
		n, err := r.s.file.ReadAt(r.buf[:want], pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, abi.E("read", r.s.path, abi.FileKind(err), err)
		}
		r.start, r.n = pos, n
		end = min(end, pos+int64(n))
	}
	return r.buf[pos-r.start : end-r.start], nil
}
