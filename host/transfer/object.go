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

	stretch *stretch // that it has a part in; nil: none
	body    body     // of a source that is good for the whole object; nil: none
	size    int64    // as the last source had it; -1: not known
	promise int64    // what the object's size is known to be from elsewhere; -1: it is not
	want    int64    // exclusive end of what the read expects to need
	used    Evidence
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
	// Of the bytes: those that another read had brought, and beyond them: those of a stream that were passed over.
	Shared  int64
	Skipped int64
	Retries int // times that a failure was followed by another try
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
// only there. Sequential reads are cheap for every form of Source, and what another read of the same bytes brings at this
// moment is not asked for again. Failures that pass are tried again within ctx.
func (o *Object) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	before := o.used
	n, err := o.read(ctx, p, off)
	o.used.Reads++
	o.used.Bytes += int64(n)
	o.mover.counts.add(&before, &o.used)
	return n, err
}

func (o *Object) read(ctx context.Context, p []byte, off int64) (n int, err error) {
	var t tries
	for most := 0; n < len(p); most = max(most, n) {
		m, tried, err := o.readSome(ctx, p[n:], off+int64(n))
		n += m
		if errors.Is(err, io.EOF) {
			return n, err
		}
		if err == nil {
			continue
		}
		if tried || !o.again(ctx, &t, err) {
			return max(n, most), wrap(o.subject, off, len(p), err)
		}
		if o.reset(); abi.KindOf(err) == abi.Corrupt {
			o.mover.Forget(o.key)
			most, n = max(most, n), 0
		}
	}
	return n, nil
}

// again is for a location that is good for the whole object: one that was kept and is out of date is asked for once more
// at once.
func (o *Object) again(ctx context.Context, t *tries, err error) bool {
	if o.used.Cached && stale(err) {
		o.mover.Forget(o.key)
		o.used.Cached = false
		return true
	}
	if !t.again(ctx, o.mover, err) {
		return false
	}
	o.used.Retries++
	return true
}

// stale says which errors a location that is out of date explains.
func stale(err error) bool {
	switch abi.KindOf(err) {
	case abi.NotFound, abi.Denied, abi.Auth, abi.Precondition, abi.Corrupt:
		return true
	}
	return false
}

// Expect says up to which byte, exclusive, the read will probably go: a stream is asked for no more than that at once.
func (o *Object) Expect(end int64) { o.want = end }

// Promise says of what size the object is, as its metadata has it: a source that tells another is CORRUPT, with both
// figures, and not a byte of it is read.
func (o *Object) Promise(size int64) { o.promise = size }

// promised holds a size that a source tells against the promise; -1 tells nothing.
func (o *Object) promised(size int64) error {
	if size < 0 || o.promise < 0 || size == o.promise {
		return nil
	}
	return abi.Errorf("", "", abi.Corrupt, "the object has %d bytes, and its metadata says %d", size, o.promise)
}

// readSome reads from one source. tried says that what failed was tried often enough.
func (o *Object) readSome(ctx context.Context, p []byte, off int64) (n int, tried bool, err error) {
	if ctx.Err() != nil {
		return 0, true, context.Cause(ctx)
	}
	if o.size >= 0 && off >= o.size {
		return 0, true, io.EOF
	}
	if o.body == nil && o.stretch == nil {
		if src := o.mover.known(o.key); src != nil {
			o.used.Cached = true
			if err := o.open(src); err != nil {
				return 0, false, err
			}
		}
	}
	if o.body != nil {
		n, err = o.fromBody(ctx, p, off)
		return n, false, err
	}
	if o.stretch == nil {
		o.stretch = o.mover.share(o.key, off, max(off+int64(len(p)), o.want))
	}
	n, err = o.stretch.read(ctx, o, p, off)
	if e := (elsewhere{}); errors.As(err, &e) {
		return n, false, o.leave(e.src)
	}
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		o.leave(nil) // all were told; a later read begins anew
	}
	return n, true, err
}

func wrap(subject string, off int64, n int, err error) error {
	r := abi.Range{Start: off, End: off + int64(n) - 1}
	return abi.E("read", fmt.Sprintf("%s bytes %s", subject, r), abi.KindOf(err), err)
}

// ask asks the plugin.
func (o *Object) ask(ctx context.Context, r abi.Range) (*abi.Source, error) {
	began := o.mover.now()
	src, err := o.fetch(ctx, r)
	o.used.Asked++
	o.used.Waited += o.mover.now().Sub(began)
	if err != nil {
		src.Close() // whoever answers with both is not trusted with either
		return nil, err
	}
	err = check(o.subject, src)
	if err == nil {
		err = o.promised(src.OriginalSize)
	}
	if err != nil {
		return nil, errors.Join(err, src.Close())
	}
	return src, nil
}

func check(subject string, src *abi.Source) error {
	if src == nil || (src.Location == nil) == (src.Stream == nil) {
		return abi.Errorf("fetch", subject, abi.Internal, "the plugin answered with neither or both of a location and a stream")
	}
	return nil
}

// open opens a source that is good for the whole object.
func (o *Object) open(src *abi.Source) error {
	b, err := o.mover.openBody(o.subject, src, 0)
	if err != nil {
		return err
	}
	if parts, ok := b.(partsBody); ok {
		err = o.promised(parts.size())
	}
	if err != nil {
		return errors.Join(err, b.close())
	}
	o.body, o.size = b, src.OriginalSize
	o.used.Form, o.used.Where = "location", b.where()
	return nil
}

// fromBody reads from a source that is good for the whole object.
func (o *Object) fromBody(ctx context.Context, p []byte, off int64) (int, error) {
	o.mover.counts.requests.Add(1)
	n, err := o.body.readAt(ctx, p, off)
	if at := off + int64(n); errors.Is(err, io.EOF) && o.size >= 0 && at < o.size {
		return n, abi.Errorf("read", o.subject, abi.Corrupt, "the bytes end at %d, and %d were promised", at, o.size)
	}
	return n, err
}

// leave gives up the stretch, which does not bring what comes next; src is what it found for the whole object.
func (o *Object) leave(src *abi.Source) error {
	st := o.stretch
	o.stretch = nil
	if err := o.mover.unshare(o.key, st); err != nil || src == nil {
		return err
	}
	if err := o.open(src); err != nil {
		return err
	}
	o.mover.keep(o.key, src)
	return nil
}

// Size is the object's size as its Source has it, -1 where it is not known yet.
func (o *Object) Size() int64 { return o.size }

func (o *Object) reset() {
	if o.body != nil {
		o.body.close()
		o.body = nil
	}
}

// Close lets go of what was opened. It may be called more than once.
func (o *Object) Close() error {
	var err error
	if st := o.stretch; st != nil {
		o.stretch = nil
		err = o.mover.unshare(o.key, st)
	}
	if o.body != nil {
		err = errors.Join(err, o.body.close())
		o.body = nil
	}
	return err
}

// leastPiece is what ReadAll reads first: most indexes are smaller, and of others the size is known then.
const leastPiece = 4 << 10

// ReadAll reads the object whole, at most that many bytes: more is EXHAUSTED.
func (o *Object) ReadAll(ctx context.Context, most int64) ([]byte, error) {
	var out []byte
	o.Expect(abi.ToEnd)
	for {
		piece := max(leastPiece, int64(len(out)))
		if size := o.Size(); size > int64(len(out)) {
			piece = size - int64(len(out)) + 1 // one more, to see the end
		}
		if int64(len(out))+piece > most {
			piece = most - int64(len(out)) + 1
		}
		grown := append(out, make([]byte, piece)...)
		n, err := o.ReadAt(ctx, grown[len(out):], int64(len(out)))
		out = grown[:len(out)+n]
		if int64(len(out)) > most {
			return nil, abi.Errorf("read", o.subject, abi.Exhausted, "larger than %d bytes", most)
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
