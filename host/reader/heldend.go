package reader

import (
	"context"
	"math"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// HeldEnd is what is known of where the batches of a partition end that has no local tier: compaction may have emptied the end of
// the remote one. A client that is told of offsets behind it waits for them for ever, and has the store read for nothing. It is
// learned when the end is asked for, and by reads that found nothing. The zero value knows nothing. It is safe for concurrent use.
type HeldEnd struct {
	mu    sync.Mutex
	of    abi.UUID // the newest segment then; zero: nothing is known
	end   int64    // exclusive: no batch lies at or above it
	exact bool     // a batch ends there
}

// Below is end, or where the batches end, if that is known of the partition as it is now, and lower.
func (e *HeldEnd) Below(remote *rlmm.Partition, end int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of.IsZero() {
		return end
	}
	if newest, ok := remote.Newest(); !ok || newest.SegmentID != e.of {
		return end
	}
	return min(e.end, end)
}

// known is the end exactly, if it is known.
func (e *HeldEnd) known(newest abi.UUID) (int64, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.end, e.exact && e.of == newest
}

// learn takes in that no batch lies at or above end, or exactly where they end.
func (e *HeldEnd) learn(newest abi.UUID, end int64, exact bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == newest && !exact && end >= e.end {
		return
	}
	e.of, e.end, e.exact = newest, end, exact
}

// sawNothing takes in that a read found no batch up to the log's end.
func (rd *read) sawNothing() {
	if rd.part.Held == nil || rd.part.Remote == nil || rd.ans.Bound < rd.part.Offsets.HighWatermark {
		return
	}
	if newest, ok := rd.part.Remote.Newest(); ok {
		rd.part.Held.learn(newest.SegmentID, rd.req.Offset, false)
	}
}

// maxEmptied bounds the segments that are looked at for the last batch, from the newest on.
const maxEmptied = 100

// heldEnd is where a partition's batches end; math.MaxInt64 where nothing bounds them, or damage keeps it from being known: who
// reads there is told.
func (r *Reader) heldEnd(ctx context.Context, client string, part *Partition) (end int64, err error) {
	if part.Held == nil || part.Remote == nil || !r.policy.CrossSegments || r.store == nil {
		return math.MaxInt64, nil
	}
	newest, ok := part.Remote.Newest()
	if !ok {
		return math.MaxInt64, nil
	}
	if end, ok := part.Held.known(newest.SegmentID); ok {
		return end, nil
	}
	if busy := r.Small(ctx, client, func() { end, err = r.lastBatch(ctx, part.Remote, newest) }); busy != nil {
		return 0, busy
	}
	switch k := abi.KindOf(err); {
	case k == abi.Corrupt || k == abi.NotFound || k == abi.Unsupported:
		end = math.MaxInt64
	case err != nil:
		return 0, err
	}
	part.Held.learn(newest.SegmentID, end, true)
	return end, nil
}

// lastBatch is the offset behind the last batch of a remote partition, whose newest segment is seg.
func (r *Reader) lastBatch(ctx context.Context, remote *rlmm.Partition, seg *rlmm.Segment) (int64, error) {
	l := epoch.Of(remote.Epochs())
	for range maxEmptied {
		last, err := r.lastOffset(ctx, seg)
		if last >= 0 || err != nil {
			return last + 1, err
		}
		le, ok := l.ForOffset(seg.StartOffset - 1)
		if !ok {
			break
		}
		before, ok := remote.Lookup(le.Epoch, seg.StartOffset-1)
		if !ok {
			break
		}
		seg = before
	}
	return seg.StartOffset, nil
}

// lastOffset is the last offset of the last batch of a remote segment; -1: it holds none.
func (r *Reader) lastOffset(ctx context.Context, seg *rlmm.Segment) (int64, error) {
	x, _, err := r.offsetIndex(ctx, seg, new(transfer.Evidence))
	if err != nil && !unusable(err) {
		return -1, err
	}
	if err == nil {
		_, pos := x.Lookup(seg.StartOffset, seg.EndOffset)
		if last, err := r.lastFrom(ctx, seg, pos); last >= 0 || err != nil && abi.KindOf(err) != abi.Corrupt {
			return last, err
		}
	}
	return r.lastFrom(ctx, seg, 0)
}

// lastFrom follows the batches of a segment from position pos to its end.
func (r *Reader) lastFrom(ctx context.Context, seg *rlmm.Segment, pos int64) (last int64, err error) {
	obj := r.log(seg)
	defer obj.Close()
	obj.Expect(min(pos+firstRead, seg.SizeBytes))
	mem := memory{r.buffers.Lease(), nil}
	buf, err := mem.get(ctx, firstRead)
	if err != nil {
		return -1, err
	}
	w := &window{obj: obj, seg: whole(seg), size: seg.SizeBytes, strict: true, first: firstRead, start: pos, mem: mem, buf: buf}
	defer func() { w.buf.Release() }()
	for last = -1; ; {
		h, ok, err := w.header(ctx, pos)
		if err != nil {
			return -1, err
		}
		if !ok {
			return last, nil
		}
		last = max(last, h.LastOffset)
		pos += h.Size()
	}
}
