package server

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locallog"
)

const (
	// writeStep is what is sent between two looks at the clock.
	writeStep = 256 << 10
	// inlineMax: records up to this size are copied behind what stands before them, which costs less than a vector's entry.
	inlineMax = 4 << 10
	// keptBytes: a larger buffer is not kept for the next answer.
	keptBytes = 64 << 10
)

// answer is a response on its way: bytes, and between them records where they lie.
type answer struct {
	b    []byte // all but what cuts name
	cuts []cut  // by position
	long int64  // bytes that cuts name
	held int64  // those of them that lie in memory
}

// cut is records that come behind b[:at].
type cut struct {
	at   int
	body body
}

// put adds records behind what is there.
func (a *answer) put(r *body) {
	switch {
	case r.size == 0:
	case r.files == nil && r.size <= inlineMax:
		a.b = append(a.b, r.bytes...)
	default:
		a.cuts = append(a.cuts, cut{len(a.b), *r})
		a.long += r.size
		a.held += int64(len(r.bytes))
	}
}

// size is the answer's size on the wire.
func (a *answer) size() int64 { return int64(len(a.b)) + a.long }

// inMemory is the bytes that the answer takes until it is sent.
func (a *answer) inMemory() int64 { return int64(len(a.b)) + a.held }

// reset empties the answer, and keeps its buffers where they are small.
func (a *answer) reset() {
	b, cuts := a.b[:0], a.cuts[:0]
	clear(a.cuts)
	if cap(b) > keptBytes {
		b = nil
	}
	*a = answer{b: b, cuts: cuts}
}

// sender writes answers to a connection. On a plain TCP connection memory is written with writev, and files with sendfile
// where the system has it; on others both are ordinary writes.
type sender struct {
	nc      net.Conn
	timeout time.Duration // for each step
	took    func()        // is told of each step that the client took
	files   *fileSender   // nil: files are copied

	vec    [][]byte // to be written
	queued int      // bytes in vec
	rest   net.Buffers
}

func newSender(nc net.Conn, timeout time.Duration, took func()) *sender {
	return &sender{nc: nc, timeout: timeout, took: took, files: newFileSender(nc)}
}

// send writes an answer.
func (s *sender) send(a *answer) error {
	defer s.drop()
	if f := s.files; f != nil && a.long > a.held {
		f.hold()
		defer f.release()
	}
	at := 0
	for i := range a.cuts {
		c := &a.cuts[i]
		if err := s.memory(a.b[at:c.at]); err != nil {
			return err
		}
		at = c.at
		if err := s.memory(c.body.bytes); err != nil {
			return err
		}
		for _, f := range c.body.files {
			if err := s.file(f); err != nil {
				return err
			}
		}
	}
	if err := s.memory(a.b[at:]); err != nil {
		return err
	}
	return s.flush()
}

// memory queues bytes, and writes what makes a step.
func (s *sender) memory(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writeStep-s.queued)
		s.vec, s.queued, b = append(s.vec, b[:n]), s.queued+n, b[n:]
		if s.queued < writeStep {
			continue
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is queued.
func (s *sender) flush() error {
	if s.queued == 0 {
		return nil
	}
	return s.step(func() error {
		var err error
		if len(s.vec) == 1 {
			_, err = s.nc.Write(s.vec[0])
		} else {
			s.rest = s.vec
			_, err = s.rest.WriteTo(s.nc)
		}
		s.drop()
		return err
	})
}

// drop empties the queue.
func (s *sender) drop() {
	clear(s.vec)
	s.vec, s.queued, s.rest = s.vec[:0], 0, nil
}

// step gives write its time, and tells that the client took what it wrote.
func (s *sender) step(write func() error) error {
	if err := s.nc.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return err
	}
	if err := write(); err != nil {
		return fmt.Errorf("the answer could not be sent: %w", err)
	}
	s.took()
	return nil
}

// file sends a stretch of a file.
func (s *sender) file(f locallog.Stretch) error {
	if err := s.flush(); err != nil {
		return err
	}
	for pos, end := f.Pos, f.Pos+f.Bytes; pos < end; {
		n := min(end-pos, writeStep)
		if err := s.step(func() error { return s.stretch(f.Segment, pos, n) }); err != nil {
			return err
		}
		pos += n
	}
	return nil
}

// stretch sends n bytes of a segment from pos on, at most writeStep.
func (s *sender) stretch(seg *locallog.Segment, pos, n int64) error {
	if s.files != nil {
		sent, ok, err := s.files.send(seg.File(), pos, n)
		if err == io.ErrUnexpectedEOF {
			return shorter(seg, pos+sent)
		}
		if ok || err != nil {
			return err
		}
		s.files = nil // the file system knows no such thing
		pos, n = pos+sent, n-sent
	}
	return copyStretch(s.nc, seg, pos, n)
}

var copies = sync.Pool{New: func() any { return new([writeStep]byte) }}

// copyStretch is stretch by way of memory.
func copyStretch(w io.Writer, seg *locallog.Segment, pos, n int64) error {
	buf := copies.Get().(*[writeStep]byte)
	defer copies.Put(buf)
	got, err := seg.ReadAt(buf[:n], pos)
	if int64(got) < n {
		if err == io.EOF {
			return shorter(seg, pos+int64(got))
		}
		return abi.E("read", seg.Path(), abi.FileKind(err), err)
	}
	_, err = w.Write(buf[:n])
	return err
}

// shorter is what it means that a file ends at pos, behind which a client was told that there is more.
func shorter(seg *locallog.Segment, pos int64) error {
	return abi.Errorf("read", seg.Path(), abi.Corrupt, "it was cut at byte %d while it was sent", pos)
}
