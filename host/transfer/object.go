package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// Object is one remote object under a read.
type Object struct {
	mover   *Mover
	key     Key
	subject string
	fetch   Fetcher

	src  *abi.Source
	base int64 // where the source's bytes begin in the object: 0 for scope OBJECT
	end  int64 // exclusive end of the range that src was asked for; only with scope RANGE and streams
	body body  // of src
	want int64 // exclusive end of what the read expects to need
	used Evidence
}

// Evidence is what a read of an object did, for the trace.
type Evidence struct {
	Form   string        // "location" or "stream"; empty before the first read
	Where  string        // of a location: "file root:path"
	Asked  int           // times that the plugin was asked
	Waited time.Duration // for its answers
	Cached bool          // the location was known
	Reads  int
	Bytes  int64 // moved
}

// body is a Source's bytes, read by their position in the source.
type body interface {
	readAt(ctx context.Context, p []byte, off int64) (int, error)
	where() string
	close() error
}

// Evidence tells what was done so far.
func (o *Object) Evidence() Evidence { return o.used }

// ReadAt fills p with the object's bytes from off. Fewer bytes than len(p) come with io.EOF, at the end of the object and
// only there. Sequential reads are cheap for every form of Source.
func (o *Object) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := o.readOnce(ctx, p, off)
	if err != nil && o.used.Cached && stale(err) {
		// The location came from an earlier read and the store disagrees with it: ask once more.
		o.reset()
		o.mover.Forget(o.key)
		o.used.Cached = false
		n, err = o.readOnce(ctx, p, off)
	}
	o.used.Reads++
	o.used.Bytes += int64(n)
	return n, err
}

// stale says which errors a location that is out of date explains.
func stale(err error) bool {
	switch abi.KindOf(err) {
	case abi.NotFound, abi.Denied, abi.Auth, abi.Precondition:
		return true
	}
	return false
}

// Expect says up to which byte, exclusive, the read will probably go: a stream is asked for no more than that at once.
func (o *Object) Expect(end int64) { o.want = end }

func (o *Object) readOnce(ctx context.Context, p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, more, err := o.readSome(ctx, p[n:], off+int64(n))
		n += m
		if err != nil && !errors.Is(err, io.EOF) {
			return n, wrap(o.subject, off, len(p), err)
		}
		if !more && err != nil {
			return n, err
		}
	}
	return n, nil
}

// readSome reads from one Source; more reports that it ended where it was told to, and that the object may go on.
func (o *Object) readSome(ctx context.Context, p []byte, off int64) (n int, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, context.Cause(ctx)
	}
	if size := o.Size(); size >= 0 && off >= size {
		return 0, false, io.EOF
	}
	if err := o.ensure(ctx, off, off+int64(len(p))); err != nil {
		return 0, false, err
	}
	n, err = o.body.readAt(ctx, p, off-o.base)
	if s, ok := o.body.(*streamBody); ok && s.pos == s.length && err == nil {
		err = io.EOF
	}
	if !errors.Is(err, io.EOF) {
		return n, false, err
	}
	more, err = o.ended(off + int64(n))
	return n, more, err
}

// ended says what it means that a body has no byte at position at: that the range asked for is over and more may be asked
// for, that the object is, or that bytes are missing.
func (o *Object) ended(at int64) (more bool, err error) {
	size := o.Size()
	if !o.whole() && (at >= o.end || at == size) {
		o.finish()
		return true, nil
	}
	if size >= 0 && at < size {
		return false, abi.Errorf("read", o.subject, abi.Corrupt, "the bytes end at %d, and %d were promised", at, size)
	}
	return false, io.EOF
}

// whole reports a source that answers for all of the object.
func (o *Object) whole() bool {
	return o.src.Location != nil && o.src.Location.Scope == abi.ScopeObject
}

// finish closes a body that was read to the end it was asked for, and keeps what its Source said of the object.
func (o *Object) finish() {
	o.body.close()
	o.body = nil
}

func wrap(subject string, off int64, n int, err error) error {
	r := abi.Range{Start: off, End: off + int64(n) - 1}
	return abi.E("read", fmt.Sprintf("%s bytes %s", subject, r), abi.KindOf(err), err)
}

// ensure has a body that serves off. One with scope OBJECT serves every position, one with scope RANGE from its base
// on, and a stream only what comes next.
func (o *Object) ensure(ctx context.Context, off, end int64) error {
	if o.body != nil && o.serves(off) {
		return nil
	}
	if s, ok := o.body.(*streamBody); ok && s.near(off-o.base) {
		return s.skip(ctx, off-o.base)
	}
	o.reset()
	if src := o.mover.known(o.key); src != nil {
		o.used.Cached = true
		return o.open(src, 0, 0)
	}
	r := abi.Range{Start: off, End: max(end, o.want) - 1}
	asked := o.mover.now()
	src, err := o.fetch(ctx, r)
	o.used.Asked++
	o.used.Waited += o.mover.now().Sub(asked)
	if err != nil {
		src.Close() // whoever answers with both is not trusted with either
		return err
	}
	if err := check(o.subject, src); err != nil {
		return errors.Join(err, src.Close())
	}
	o.mover.keep(o.key, src)
	o.end = r.End + 1
	base := off
	if src.Location != nil && src.Location.Scope == abi.ScopeObject {
		base = 0
	}
	length := r.Len()
	if src.OriginalSize >= 0 {
		length = max(0, min(length, src.OriginalSize-off))
	}
	return o.open(src, base, length)
}

func (o *Object) serves(off int64) bool {
	if s, ok := o.body.(*streamBody); ok {
		return off-o.base == s.pos
	}
	return off >= o.base
}

func check(subject string, src *abi.Source) error {
	if src == nil || (src.Location == nil) == (src.Stream == nil) {
		return abi.Errorf("fetch", subject, abi.Internal, "the plugin answered with neither or both of a location and a stream")
	}
	return nil
}

// open opens src, whose bytes begin at base of the object; length is how many a stream will carry.
func (o *Object) open(src *abi.Source, base, length int64) error {
	b, err := o.mover.openBody(o.subject, src, length)
	if err != nil {
		return err
	}
	o.src, o.base, o.body = src, base, b
	o.used.Form = "stream"
	if src.Location != nil {
		o.used.Form = "location"
	}
	o.used.Where = b.where()
	return nil
}

// Size is the object's size as its Source has it, -1 where it is not known yet.
func (o *Object) Size() int64 {
	if o.src == nil {
		return -1
	}
	return o.src.OriginalSize
}

func (o *Object) reset() {
	if o.body != nil {
		o.body.close()
	}
	o.body, o.src = nil, nil
}

// Close lets go of what was opened. It may be called more than once.
func (o *Object) Close() error {
	if o.body == nil {
		return nil
	}
	err := o.body.close()
	o.body = nil
	return err
}

// ReadAll reads the object whole, max bytes at most: more is EXHAUSTED.
func (o *Object) ReadAll(ctx context.Context, max int64) ([]byte, error) {
	var out []byte
	o.Expect(abi.ToEnd)
	piece := int64(64 << 10)
	for {
		if size := o.Size(); size > int64(len(out)) {
			piece = size - int64(len(out)) + 1 // one more, to see the end
		}
		if int64(len(out))+piece > max {
			piece = max - int64(len(out)) + 1
		}
		grown := append(out, make([]byte, piece)...)
		n, err := o.ReadAt(ctx, grown[len(out):], int64(len(out)))
		out = grown[:len(out)+n]
		if int64(len(out)) > max {
			return nil, abi.Errorf("read", o.subject, abi.Exhausted, "larger than %d bytes", max)
		}
		if errors.Is(err, io.EOF) {
			return out, o.complete(int64(len(out)))
		}
		if err != nil {
			return nil, err
		}
	}
}

func (o *Object) complete(n int64) error {
	if size := o.Size(); size >= 0 && n != size {
		return abi.Errorf("read", o.subject, abi.Corrupt, "%d bytes came, %d were promised", n, size)
	}
	return nil
}
