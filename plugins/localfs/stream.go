package localfs

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
)

// streamBuffer is the size of a read. A read opens the file, so small ones are dear; it is also the size of a frame, so
// that a frame is filled by one read without passing through the buffer.
const streamBuffer = 256 << 10

// stream is a range of a file as bytes.
type stream struct {
	*bufio.Reader
}

func newStream(ctx context.Context, root *sdk.Root, path string, r abi.Range) io.ReadCloser {
	section := &section{alive: ctx.Err, root: root, path: path, off: r.Start, end: r.End + 1}
	size := min(streamBuffer, max(16, section.end-section.off))
	return stream{bufio.NewReaderSize(section, int(size))}
}

// Close holds nothing: every read opened and closed the file.
func (stream) Close() error { return nil }

// section reads the bytes [off, end) of a file.
type section struct {
	alive    func() error // the Err of the context of the call that it answers
	root     *sdk.Root
	path     string
	off, end int64
}

func (s *section) Read(p []byte) (int, error) {
	if s.off >= s.end {
		return 0, io.EOF
	}
	if err := s.alive(); err != nil {
		return 0, abi.AsError("read", s.path, err)
	}
	p = p[:min(int64(len(p)), s.end-s.off)]
	n, err := s.root.ReadAt(s.path, p, s.off)
	s.off += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if s.off < s.end && n < len(p) {
			err = abi.Errorf("read", s.path, abi.Corrupt, "the file ends at %d, it had %d bytes or more when it was opened", s.off, s.end)
		}
	}
	return n, err
}
