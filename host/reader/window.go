package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/transfer"
)

const (
	// firstRead is how much is read to find the first batch: Kafka indexes every 4 KiB (index.interval.bytes), so it lies
	// within two intervals of the index's position unless batches are larger.
	firstRead = 8 << 10
	// maxBatchSize bounds what a batch may claim to be. Brokers refuse batches above message.max.bytes, 1 MiB by default.
	maxBatchSize = 256 << 20
	// lastRead is how much is read at once where the first batch lies far from the position: each read is twice the one
	// before, up to this.
	lastRead = 1 << 20
)

// window is a stretch of a remote segment in memory, from position start on.
//
//	segment  0 ......... start ######## start+len ........ size
//	                     [    buf     ]
type window struct {
	obj    *transfer.Object
	seg    piece
	size   int64        // where the segment ends: as its metadata says; not strict: or where it turned out to
	strict bool         // a segment that ends early is an error, and not only its end
	first  int64        // how much is read at once while the first batch is looked for; it grows
	scans  *scanIndexes // takes in what is passed over; nil: nothing does
	noted  int64        // position of the last batch that scans took in
	lost   error        // a batch that a search passed over: its offsets are not its own

	start int64
	mem   memory
	buf   *budget.Buffer
	n     int64 // bytes in buf
	moved int64 // bytes that came in all
}

// fill reads on until the window reaches end, or the segment does.
func (w *window) fill(ctx context.Context, end int64) error {
	end = min(end, w.size)
	need := end - w.start
	if need <= w.n {
		return nil
	}
	var err error
	if w.buf, err = w.mem.grow(ctx, w.buf, int(need)); err != nil {
		return err
	}
	n, err := w.obj.ReadAt(ctx, w.buf.B[w.n:need], w.start+w.n)
	w.n += int64(n)
	w.moved += int64(n)
	if errors.Is(err, io.EOF) || err != nil && abi.KindOf(err) == abi.Invalid {
		return w.short()
	}
	return err
}

const (
	// fillStep is how much of an answer is read at once where its request may be answered without it; more from a store that brings
	// that within fillQuick.
	fillStep  = 256 << 10
	fillQuick = 20 * time.Millisecond
)

// fillUntil is fill, and ends with less where rd is hurried, with least bytes from the window's begin at the least.
func (w *window) fillUntil(ctx context.Context, end, least int64, rd *read) error {
	if rd.over == nil {
		return w.fill(ctx, end)
	}
	for step := int64(fillStep); w.start+w.n < min(end, w.size) && !(w.n >= least && rd.hurried()); {
		began := time.Now()
		if err := w.fill(ctx, min(end, w.start+w.n+step)); err != nil {
			return err
		}
		if time.Since(began) < fillQuick {
			step *= 2
		}
	}
	return nil
}

// short is what it means that the segment ended before its size.
func (w *window) short() error {
	ends := w.start + w.n
	if !w.strict {
		w.size = ends
		return nil
	}
	return abi.Errorf("read", fmt.Sprintf("%s.log", w.seg.Key()), abi.Corrupt,
		"the segment ends at byte %d, and its metadata says %d", ends, w.size)
}

// lookahead is how much is read behind the last batch: the header that proves its offsets.
func (w *window) lookahead() int64 {
	if !w.strict {
		return 0
	}
	return format.HeaderSizeV2
}

// restart goes to position pos, and forgets what lies in the window.
func (w *window) restart(pos int64) { w.start, w.n, w.first, w.lost = pos, 0, firstRead, nil }

// bytes gives what lies in the window from position pos to end.
func (w *window) bytes(pos, end int64) []byte { return w.buf.B[pos-w.start : min(end-w.start, w.n)] }

// drop lets go of what lies before pos, which may lie behind the window.
func (w *window) drop(pos int64) {
	keep := max(0, w.start+w.n-pos)
	copy(w.buf.B, w.buf.B[w.n-keep:w.n])
	w.start, w.n = pos, keep
}

// header parses the batch header at pos. It reports false where the segment ends.
func (w *window) header(ctx context.Context, pos int64) (format.BatchHeader, bool, error) {
	var failed error
	if pos+format.HeaderSizeV2 > w.start+w.n { // what lies before it is not wanted
		w.drop(pos)
		failed = w.fill(ctx, max(pos+format.HeaderSizeV2, w.start+w.first))
		if w.strict {
			w.first = min(2*w.first, max(w.first, lastRead))
		}
	}
	b := w.bytes(pos, pos+format.HeaderSizeV2)
	if failed != nil && len(b) < format.HeaderSizeV2 { // else what failed was to read ahead
		return format.BatchHeader{}, false, failed
	}
	if len(b) == 0 {
		return format.BatchHeader{}, false, nil
	}
	h, err := format.ParseBatchHeader(b)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return h, false, w.bad(pos, fmt.Errorf("only %d bytes are left", len(b)))
	case err != nil && len(b) >= format.PeekSize && !w.strict && !tiny(b):
		return h, false, nil
	case err != nil:
		return h, false, w.corrupt(pos, err)
	case pos+h.Size() > w.size || h.Size() > maxBatchSize:
		return h, false, w.bad(pos, fmt.Errorf("batch %d-%d claims %d bytes", h.BaseOffset, h.LastOffset, h.Size()))
	}
	if err := w.seg.strays(&h); w.strict && err != nil {
		return h, false, w.corrupt(pos, err)
	}
	return h, true, nil
}

// tiny reports a length below the smallest legal one: the one defect of a batch that Kafka's stream parser names.
func tiny(b []byte) bool {
	length := int32(uint32(b[8])<<24 | uint32(b[9])<<16 | uint32(b[10])<<8 | uint32(b[11]))
	return length < format.MinBatchLength
}

// bad is an error for a strict reader, and the end of the segment for one that is as Kafka's.
func (w *window) bad(pos int64, err error) error {
	if !w.strict {
		return nil
	}
	return w.corrupt(pos, err)
}

func (w *window) corrupt(pos int64, err error) error {
	return abi.E("read", fmt.Sprintf("%s.log at byte %d of %d", w.seg.Key(), pos, w.size), abi.Corrupt, badBatch{err})
}

// badBatch marks an error of a batch's own bytes.
type badBatch struct{ error }

// Unwrap gives the error.
func (b badBatch) Unwrap() error { return b.error }

// leaves reports whether a batch at or above offset until begins n bytes into the window.
func (w *window) leaves(n, until int64) bool {
	h, err := format.ParseBatchHeader(w.buf.B[n:w.n])
	return err == nil && h.BaseOffset >= until && w.seg.strays(&h) == nil
}

// verify checks the CRC of a batch that was passed over, and behind which offset is not found: that it ends before offset
// must not be a damaged header's word.
func (w *window) verify(ctx context.Context, pos int64, h *format.BatchHeader) error {
	if !w.strict {
		return nil
	}
	b := w.buf.B[max(0, pos-w.start):w.n]
	if pos < w.start || int64(len(b)) < h.Size() { // it is not in the window as a whole
		buf, err := w.mem.get(ctx, int(h.Size()))
		if err != nil {
			return err
		}
		defer buf.Release()
		b = buf.B[:h.Size()]
		if _, err := w.obj.ReadAt(ctx, b, pos); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if err := format.VerifyBatch(h, b); err != nil {
		return w.corrupt(pos, err)
	}
	return nil
}
