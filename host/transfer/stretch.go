package transfer

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
)

// maxKept bounds how much of a stretch is kept for reads that share it.
const maxKept = 8 << 20

// elsewhere is what a stretch says of bytes that it does not bring. With src, that source is good for the whole object.
type elsewhere struct{ src *abi.Source }

func (elsewhere) Error() string { return "these bytes are not of this stretch" }

// stretch is a range of an object that one answer of the plugin brings, and that any number of reads share while they
// run: N of them cost the store one request. They take turns: one asks or reads on, by its own context, and the others
// wait for the turn, each by its own. One alone reads straight into its own buffer; as soon as there is another, what is
// read is kept until the last of them has gone.
//
//	base ....... from #### kept #### next ............ end
//	             (what may be copied) (what the source brings next)
//
// A source that breaks is asked for again from next on. One whose reader gave up is lost, and the next in turn asks.
type stretch struct {
	base, end int64         // end is exclusive, and as asked for
	turn      chan struct{} // has a token while somebody has the turn

	// Written by who has the turn and under Mover.mu; read under either.
	refs   int   // of Mover.mu alone
	next   int64 // the first byte that was not read
	from   int64 // kept are bytes from this one to next
	random bool  // any byte can be read again: nothing is kept
	over   bool  // nobody may join

	// Of who has the turn.
	src   *abi.Source // of body, or the last one
	body  body        // nil: not asked, lost, or read to its end
	at    int64       // where body begins in the object
	where string      // of body
	whole *abi.Source // src, where it turned out to be for the whole object
	ended bool        // the object ends at end, as its bytes did
	err   error       // what all are told
	lease *budget.Lease
	buf   *budget.Buffer
}

// share joins a stretch that brings byte off, or begins one up to end.
func (m *Mover) share(key Key, off, end int64) *stretch {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, st := range m.shared[key] {
		if st.brings(off) {
			st.refs++
			return st
		}
	}
	st := &stretch{base: off, end: end, next: off, from: off, refs: 1, turn: make(chan struct{}, 1)}
	m.shared[key] = append(m.shared[key], st)
	return st
}

// unshare lets go of a stretch. The last one closes it.
func (m *Mover) unshare(key Key, st *stretch) error {
	m.mu.Lock()
	st.refs--
	last := st.refs == 0
	if last {
		m.dropLocked(key, st)
	}
	m.mu.Unlock()
	if !last {
		return nil
	}
	st.buf.Release()
	return st.lose()
}

func (m *Mover) dropLocked(key Key, st *stretch) {
	st.over = true
	all := slices.DeleteFunc(m.shared[key], func(x *stretch) bool { return x == st })
	if len(all) == 0 {
		delete(m.shared, key)
		return
	}
	m.shared[key] = all
}

// brings says whether byte off can be had here.
func (st *stretch) brings(off int64) bool {
	switch {
	case st.over || off >= st.end:
		return false
	case st.random:
		return off >= st.base
	}
	return off >= st.from && off-st.next <= maxSkip
}

// read reads what there is from off on into p, one byte at least if there is no error.
func (st *stretch) read(ctx context.Context, o *Object, p []byte, off int64) (int, error) {
	select {
	case st.turn <- struct{}{}:
	default:
		select {
		case st.turn <- struct{}{}:
		case <-ctx.Done():
			return 0, abi.Errorf("", "", abi.KindOf(ctx.Err()), "another read's bytes were still awaited: %w", context.Cause(ctx))
		}
	}
	defer func() { st.tell(o); <-st.turn }()
	if n := st.kept(p, off); n > 0 {
		o.used.Shared += int64(n)
		return n, nil
	}
	switch {
	case st.err != nil:
		return 0, st.err
	case st.ended && off >= st.end:
		return 0, io.EOF
	case !st.brings(off):
		return 0, elsewhere{st.whole}
	}
	return st.bring(ctx, o, p[:min(int64(len(p)), st.end-off)], off)
}

// tell tells a read what its source is.
func (st *stretch) tell(o *Object) {
	if st.src == nil || st.whole != nil {
		return
	}
	o.size = st.src.OriginalSize
	o.used.Form, o.used.Where = "stream", st.where
	if st.src.Location != nil {
		o.used.Form = "location"
	}
}

// kept copies what is kept from off on.
func (st *stretch) kept(p []byte, off int64) int {
	if st.buf == nil || off < st.from || off >= st.next {
		return 0
	}
	return copy(p, st.buf.B[off-st.from:st.next-st.from])
}

// bring reads on, as often as it takes.
func (st *stretch) bring(ctx context.Context, o *Object, p []byte, off int64) (n int, err error) {
	var t tries
	for most := 0; ; most = max(most, n) {
		m, err := st.once(ctx, o, p[n:], off+int64(n))
		n += m
		if err == nil || errors.Is(err, io.EOF) || errors.As(err, new(elsewhere)) {
			st.keep(o.mover, p[:n], off)
			return n, err
		}
		st.lose()
		if !t.again(ctx, o.mover, err) {
			n = max(n, most)
			st.keep(o.mover, p[:n], off)
			st.fail(ctx, o, err)
			return n, err
		}
		o.used.Retries++
		if abi.KindOf(err) == abi.Corrupt {
			most, n = max(most, n), 0 // what came may be damaged too
		}
	}
}

// fail tells all that share the stretch, unless the reader gave up and another may succeed.
func (st *stretch) fail(ctx context.Context, o *Object, err error) {
	if ctx.Err() != nil {
		return
	}
	st.err = err
	o.mover.mu.Lock()
	defer o.mover.mu.Unlock()
	o.mover.dropLocked(o.key, st)
}

// once reads from the source, which it asks for where there is none.
func (st *stretch) once(ctx context.Context, o *Object, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if st.body == nil {
		if err := st.ask(ctx, o, off); err != nil {
			return 0, err
		}
	}
	s, stream := st.body.(*streamBody)
	if stream && off-st.at > s.pos {
		o.used.Skipped += off - st.at - s.pos
		if err := s.skip(ctx, off-st.at); err != nil {
			return 0, err
		}
	}
	if !stream { // a stream was counted when it was opened
		o.mover.counts.requests.Add(1)
	}
	n, err := st.body.readAt(ctx, p, off-st.at)
	switch {
	case errors.Is(err, io.EOF):
		return n, st.atEnd(o, off+int64(n))
	case err == nil && stream && s.pos == s.length:
		return n, st.lose() // it was read to its end, and that checked out
	}
	return n, err
}

// atEnd says what it means that the source has no byte at position at: that it brought what was asked for, that the
// object ends there, or that bytes are missing.
func (st *stretch) atEnd(o *Object, at int64) error {
	size := st.src.OriginalSize
	switch {
	case at >= st.end || size >= 0 && at >= size:
		return nil
	case size >= 0:
		return abi.Errorf("read", o.subject, abi.Corrupt, "the bytes end at %d, and %d were promised", at, size)
	}
	st.ended, st.end = true, at
	return io.EOF
}

// ask asks the plugin for the stretch from off on. An answer for the whole object is not the stretch's: elsewhere.
func (st *stretch) ask(ctx context.Context, o *Object, off int64) error {
	before := st.src
	src, err := o.ask(ctx, abi.Range{Start: off, End: st.end - 1})
	if err != nil {
		return err
	}
	if before != nil && changed(before, src) {
		return errors.Join(abi.Errorf("read", o.subject, abi.Precondition, "the object changed under the read: tag %q, then %q", before.ETag, src.ETag), src.Close())
	}
	m := o.mover
	st.src, st.at = src, off
	if src.Location != nil && src.Location.Scope == abi.ScopeObject {
		st.whole = src
		m.mu.Lock()
		defer m.mu.Unlock()
		m.dropLocked(o.key, st)
		return elsewhere{src}
	}
	length := st.end - off
	if src.OriginalSize >= 0 {
		length = max(0, min(length, src.OriginalSize-off))
	}
	if st.body, err = m.openBody(o.subject, src, length); err != nil {
		st.body = nil
		return errors.Join(err, src.Close())
	}
	st.where = st.body.where()
	if src.Stream != nil {
		m.counts.requests.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st.random = src.Location != nil && off == st.base
	return nil
}

// changed says whether two answers are of different objects, as far as they tell.
func changed(a, b *abi.Source) bool {
	return a.ETag != "" && b.ETag != "" && a.ETag != b.ETag || a.OriginalSize >= 0 && b.OriginalSize >= 0 && a.OriginalSize != b.OriginalSize
}

// keep counts what was read into p from off on, and keeps it where others may want it.
func (st *stretch) keep(m *Mover, p []byte, off int64) {
	if len(p) == 0 || st.random {
		return
	}
	end := off + int64(len(p))
	m.mu.Lock()
	others := st.refs > 1
	m.mu.Unlock()
	from := end
	if others {
		from = st.store(m, p, off)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st.from, st.next = from, end
}

// store copies p behind what is kept, in place of it where there is no room, and gives where now begins what is kept.
func (st *stretch) store(m *Mover, p []byte, off int64) (from int64) {
	end := off + int64(len(p))
	if st.buf == nil {
		if st.lease == nil {
			st.lease = m.buffers.Extra()
		}
		if st.buf = st.lease.TryGet(int(min(max(st.end-off, int64(len(p))), maxKept))); st.buf == nil {
			return end
		}
		st.buf.B = st.buf.B[:cap(st.buf.B)]
	}
	from = st.from
	if off != st.next || end-from > int64(len(st.buf.B)) {
		from = off
	}
	if end-from > int64(len(st.buf.B)) {
		return end
	}
	copy(st.buf.B[off-from:], p)
	return from
}

// lose closes the source.
func (st *stretch) lose() error {
	if st.body == nil {
		return nil
	}
	err := st.body.close()
	st.body = nil
	return err
}
