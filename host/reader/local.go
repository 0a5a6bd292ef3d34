package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
)

// readLocal answers a partition from the local tier and gives the bytes that it takes of the request's budget.
func (r *Reader) readLocal(ctx context.Context, rd *read) int64 {
	if err := r.localOne(ctx, rd, rd.req.Offset, rd.room, rd.first); err != nil {
		r.fail(rd, err)
		return 0
	}
	if rd.acc.len() == 0 {
		rd.out.Aborted = r.policy.noAborted(rd.iso, rd.acc.tooBig && rd.room > 0)
	}
	return rd.acc.len()
}

// localFrom appends batches from offset on, over as many local segments as there is room for.
func (r *Reader) localFrom(ctx context.Context, rd *read, offset, room int64, first bool) error {
	bound := rd.ans.Bound
	for room > 0 || first {
		before := rd.acc.len()
		if err := r.localOne(ctx, rd, offset, room, first); err != nil {
			return err
		}
		got := rd.acc.len() - before
		if got == 0 || rd.acc.next >= bound {
			return nil
		}
		offset, room, first = rd.acc.next, room-got, false
	}
	return nil
}

// localOne appends what one local segment holds from offset on.
func (r *Reader) localOne(ctx context.Context, rd *read, offset, room int64, first bool) error {
	m := rd.tr.Mark()
	if offset >= rd.ans.Bound {
		return nil
	}
	if h, ok := r.missing(rd, offset); ok {
		if rd.part.Tiered(h.From, h.Until) { // the next read begins there
			return nil
		}
		r.found(rd, h.Finding(rd.part.ID))
		return rd.tr.Fail(m, "local", h.Err(rd.part.ID))
	}
	span, ok, err := rd.part.Local.Find(offset, rd.ans.Bound)
	if err != nil {
		return rd.tr.Fail(m, "local", err)
	}
	if !ok || span.Pos >= span.Limit {
		return nil
	}
	if span.First.Size() > room && !first {
		rd.acc.tooBig = rd.acc.len() == 0
		return nil
	}
	want := room
	if first {
		want = max(room, span.First.Size())
	}
	n, err := r.takeLocal(ctx, rd, span, min(want, span.Limit-span.Pos))
	traceLocal(rd, m, span, n)
	if err != nil {
		return rd.tr.Fail(m, "local", err)
	}
	return nil
}

// missing gives the hole of the local tier that offset lies in. A broker passes over it.
func (r *Reader) missing(rd *read, offset int64) (h locallog.Hole, ok bool) {
	if !r.policy.TellingCodes || rd.part == nil || rd.part.Local == nil {
		return h, false
	}
	return rd.part.Local.Hole(offset)
}

// elsewhere reports an offset that is missing in the local tier, and that the remote tier has.
func (r *Reader) elsewhere(rd *read) bool {
	if _, ok := r.missing(rd, rd.req.Offset); !ok || rd.part.Remote == nil {
		return false
	}
	le, ok := rd.part.Lineage.ForOffset(rd.req.Offset)
	if ok {
		_, ok = r.policy.lookup(rd.part.Remote, le.Epoch, rd.req.Offset)
	}
	return ok
}

// takeLocal adds n bytes of a span, or what the policy lets through of them, in the form that the request wants.
func (r *Reader) takeLocal(ctx context.Context, rd *read, span locallog.Span, n int64) (int64, error) {
	if rd.files {
		took, ok, err := r.pointLocal(rd, span, n)
		if ok || err != nil {
			return took, err
		}
	}
	return r.copyLocal(ctx, rd, span, n)
}

// pointLocal is copyLocal without a copy: the answer names the stretch of the file, of which only headers are read. It
// reports false at batches of before magic 2: who sends those may have to write them anew.
func (r *Reader) pointLocal(rd *read, span locallog.Span, n int64) (took int64, ok bool, err error) {
	if rd.acc.buf != nil {
		return 0, false, nil
	}
	acc, legacy := rd.acc, false
	acc.txns = acc.txns.clone()
	var disorder error
	before, last := acc, span.First // of the batch that was taken last
	err = span.Headers(span.Pos+n, func(h *format.BatchHeader) bool {
		legacy = h.Magic < 2
		if r.policy.Verify {
			disorder = rd.misplaced(h, math.MaxInt64)
		}
		if !legacy && disorder == nil && r.tracks(rd, h) {
			disorder = acc.txns.saw(h, markerOf(span.Segment, h, span.Pos+took))
		}
		if legacy || disorder != nil {
			return true
		}
		before, last = acc, *h
		acc.saw(h)
		took += h.Size()
		return false
	})
	if err != nil && took > 0 && r.policy.Verify { // the length of the batch before may be what is wrong
		if bad := span.Segment.Verify(&last, span.Pos+took-last.Size()); bad != nil {
			acc, took, err = before, took-last.Size(), bad
			acc.txns = r.tracked(rd, &span, took)
		}
	}
	switch {
	case legacy && acc.inFiles > 0: // what is written anew can't stand behind files: the next fetch begins with it
		return 0, true, nil
	case legacy:
		return 0, false, nil
	case disorder != nil:
		err = disorder
	}
	if err != nil && took == 0 && r.policy.WholeBatches {
		return 0, true, abi.E("read", fmt.Sprintf("%s at byte %d", span.Segment.Path(), span.Pos), abi.KindOf(err), err)
	}
	if !r.policy.WholeBatches { // as a broker, which does not look
		took = n
	}
	if acc.len() == 0 {
		acc.local, acc.pos = &span, span.Pos
	}
	acc.point(span.Segment, span.Pos, took)
	acc.wentLocal, acc.tail = true, tail{span.Segment, span.Pos + took}
	rd.acc = acc
	return took, true, nil
}

// tracked is what the batches tell of transactions that lie in the first bytes of a span, behind what the answer has.
func (r *Reader) tracked(rd *read, span *locallog.Span, bytes int64) transactions {
	t, pos := rd.acc.txns.clone(), span.Pos
	if bytes == 0 {
		return t
	}
	span.Headers(span.Pos+bytes, func(h *format.BatchHeader) bool { // they were read before without an error
		if r.tracks(rd, h) && t.saw(h, markerOf(span.Segment, h, pos)) != nil {
			return true
		}
		pos += h.Size()
		return false
	})
	return t
}

// copyLocal reads n bytes of a span behind what the answer has, and keeps what the policy lets through.
func (r *Reader) copyLocal(ctx context.Context, rd *read, span locallog.Span, n int64) (int64, error) {
	b, err := rd.acc.grow(ctx, rd.mem, n)
	if err != nil {
		return 0, err
	}
	if _, err := span.Segment.ReadAt(b, span.Pos); err != nil {
		kind := abi.FileKind(err)
		if errors.Is(err, io.EOF) {
			kind = abi.Corrupt
		}
		return 0, abi.E("read", span.Segment.Path(), kind, err)
	}
	if rd.acc.len() == 0 {
		rd.acc.local, rd.acc.pos = &span, span.Pos
	}
	took, err := r.acceptLocal(rd, &span, b)
	rd.acc.n += took
	if took > 0 {
		rd.acc.wentLocal, rd.acc.tail = true, tail{span.Segment, span.Pos + took}
	}
	if err != nil && took == 0 {
		return 0, abi.E("read", fmt.Sprintf("%s at byte %d", span.Segment.Path(), span.Pos), abi.KindOf(err), err)
	}
	return took, nil // what came before it is good, and the next fetch is told why it ends
}

// acceptLocal is accept for the bytes of a span.
func (r *Reader) acceptLocal(rd *read, span *locallog.Span, b []byte) (int64, error) {
	if !r.policy.Verify {
		return r.accept(rd, b, int64(len(b)), nil)
	}
	good, disorder := span.Check(b)
	if disorder != nil {
		b = b[:good]
	}
	took, err := r.accept(rd, b, int64(len(b)), nil)
	if err == nil {
		err = disorder
	}
	return took, err
}
