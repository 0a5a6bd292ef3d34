package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rsmhost/rsmhost/abi"
)

// maxInline is the largest inline part that the contract allows.
const maxInline = 64 << 10

func (m *Mover) openBody(subject string, src *abi.Source, length int64) (body, error) {
	if src.Stream != nil {
		return &streamBody{r: src.Stream, length: length}, nil
	}
	if src.Location.Encoding.Chunked != nil {
		return nil, abi.Errorf("open", subject, abi.Unsupported, "this host moves plain objects, and this one is chunked")
	}
	parts := make(partsBody, 0, len(src.Location.Parts))
	for _, p := range src.Location.Parts {
		b, err := m.openPart(subject, p)
		if err != nil {
			return nil, errors.Join(err, parts.close())
		}
		parts = append(parts, b)
	}
	if len(parts) == 0 {
		return nil, abi.Errorf("open", subject, abi.Internal, "the plugin answered with a location of no parts")
	}
	return parts, nil
}

func (m *Mover) openPart(subject string, p abi.Part) (part, error) {
	switch {
	case p.File != nil:
		return m.openFile(p.File)
	case p.HTTP != nil:
		return part{}, abi.Errorf("open", subject, abi.Unsupported, "this host moves files and inline bytes, and this part is an HTTP request")
	case len(p.Inline) > maxInline:
		return part{}, abi.Errorf("open", subject, abi.Exhausted, "an inline part of %d bytes, %d at most", len(p.Inline), maxInline)
	}
	return part{inline: p.Inline, size: int64(len(p.Inline)), name: "inline"}, nil
}

func (m *Mover) openFile(f *abi.FilePart) (part, error) {
	name := fmt.Sprintf("file %s:%s", f.Root, f.Path)
	if f.Offset < 0 || f.Length < -1 {
		return part{}, abi.Errorf("open", name, abi.Invalid, "offset %d, length %d", f.Offset, f.Length)
	}
	file, st, err := m.roots.Open(f.Root, f.Path)
	if err != nil {
		return part{}, err
	}
	size := st.Size() - f.Offset
	if f.Length >= 0 && f.Length > size || size < 0 {
		file.Close()
		return part{}, abi.Errorf("open", name, abi.Corrupt, "bytes %d+%d of a file of %d bytes", f.Offset, f.Length, st.Size())
	}
	if f.Length >= 0 {
		size = f.Length
	}
	return part{file: file, off: f.Offset, size: size, name: name}, nil
}

// part is one opened stretch of a location: a range of a file, or bytes.
type part struct {
	file   *os.File
	off    int64
	inline []byte
	size   int64
	name   string
}

func (p part) readAt(b []byte, off int64) (int, error) {
	if p.file == nil {
		return copy(b, p.inline[off:]), nil
	}
	n, err := p.file.ReadAt(b, p.off+off)
	if err == io.EOF && n < len(b) { // the file was cut after it was opened
		return n, abi.Errorf("read", p.name, abi.Corrupt, "the file ended at byte %d", p.off+off+int64(n))
	}
	if err != nil && err != io.EOF {
		return n, abi.E("read", p.name, abi.FileKind(err), err)
	}
	return n, nil
}

// partsBody is a location: its parts one after another.
type partsBody []part

func (ps partsBody) where() string {
	if len(ps) == 1 {
		return ps[0].name
	}
	return fmt.Sprintf("%d parts, the first is %s", len(ps), ps[0].name)
}

// size is the bytes of all parts.
func (ps partsBody) size() (n int64) {
	for _, p := range ps {
		n += p.size
	}
	return n
}

func (ps partsBody) readAt(_ context.Context, b []byte, off int64) (int, error) {
	n := 0
	for _, p := range ps {
		if n == len(b) {
			return n, nil
		}
		if off >= p.size {
			off -= p.size
			continue
		}
		m, err := p.readAt(b[n:n+int(min(int64(len(b)-n), p.size-off))], off)
		n += m
		if err != nil {
			return n, err
		}
		off = 0
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (ps partsBody) close() error {
	var errs []error
	for _, p := range ps {
		if p.file != nil {
			errs = append(errs, p.file.Close())
		}
	}
	return errors.Join(errs...)
}

// streamBody is a stream: what comes next, once.
type streamBody struct {
	r      io.ReadCloser
	pos    int64
	length int64 // bytes that were asked for and exist; more is a defect of the plugin
}

func (s *streamBody) where() string { return "" }

// readAt reads what comes next; ensure has seen to it that off is that. A context that ends closes the stream, which is
// the only way to end a Read that waits.
func (s *streamBody) readAt(ctx context.Context, b []byte, _ int64) (int, error) {
	stop := context.AfterFunc(ctx, func() { s.r.Close() })
	n, err := io.ReadFull(s.r, b[:min(int64(len(b)), s.length-s.pos)])
	s.pos += int64(n)
	if err == nil && s.pos == s.length {
		err = s.end()
	}
	if !stop() {
		return n, awaited(ctx)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// awaited says that ctx ended first.
func awaited(ctx context.Context) error {
	return abi.Errorf("", "", abi.KindOf(ctx.Err()), "the bytes of the plugin's stream were still awaited: %w", context.Cause(ctx))
}

// end reads the end of the stream behind its last byte: that is where a plugin's length and checksum are verified.
func (s *streamBody) end() error {
	var one [1]byte
	n, err := s.r.Read(one[:])
	if n > 0 {
		return abi.Errorf("stream", "", abi.Corrupt, "the plugin sent more than the %d bytes asked for", s.length)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// maxSkip is how far a stream is read on and thrown away rather than opened anew.
const maxSkip = 1 << 20

func (s *streamBody) skip(ctx context.Context, off int64) error {
	stop := context.AfterFunc(ctx, func() { s.r.Close() })
	n, err := io.CopyN(io.Discard, s.r, off-s.pos)
	s.pos += n
	if !stop() {
		return awaited(ctx)
	}
	if errors.Is(err, io.EOF) {
		return abi.Errorf("stream", "", abi.Corrupt, "it ended at byte %d of %d", s.pos, s.length)
	}
	return err
}

func (s *streamBody) close() error { return s.r.Close() }
