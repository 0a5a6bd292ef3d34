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
}

var headers = sync.Pool{New: func() any { return new(headerReader) }}

func (r *headerReader) reset(s *Segment) { r.s, r.start, r.n, r.last = s, 0, 0, 0 }

// at gives the bytes of a header at pos, fewer where the segment ends. They are good until the next call.
func (r *headerReader) at(pos int64) ([]byte, error) {
	small := pos-r.last < smallBatch // the first one is taken for large: most reads end with it
	r.last = pos
	end := min(pos+format.HeaderSizeV2, r.s.Size)
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
