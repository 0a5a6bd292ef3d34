package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// accumulator collects the bytes of one partition's answer, from as many segments as it takes.
type accumulator struct {
	buf *budget.Buffer // bytes 0 to n are the answer
	n   int64
	// files is the answer, of inFiles bytes, where it is given as stretches of files; buf is nil then.
	files   []locallog.Stretch
	inFiles int64

	remote    int64 // of n: what came from the store, which is what comes first
	firstBase int64 // base offset of the first batch
	next      int64 // one past the last whole batch's last offset
	batches   int
	codecs    uint8   // a bit for each codec seen in the segment at hand
	segs      []piece // remote segments that records came from
	wentLocal bool    // records came from the local tier too
	tooBig    bool    // the first batch did not fit, and need not

	txns transactions // of the batches, of a read_committed read
	tail tail         // where the batch behind the answer begins

	// Where the first batch lies, for Kafka's estimate of the aborted transactions. One of the two is set.
	seg   *rlmm.Segment
	local *locallog.Span
	pos   int64
}

// tail is a position in the segment that the end of an answer came from: the last of accumulator.segs, or local.
type tail struct {
	local *locallog.Segment // nil: the remote one
	pos   int64
}

func (a *accumulator) len() int64 { return a.n + a.inFiles }

// point adds a stretch of a file.
func (a *accumulator) point(s *locallog.Segment, pos, n int64) {
	a.files = append(a.files, locallog.Stretch{Segment: s, Pos: pos, Bytes: n})
	a.inFiles += n
}

// begin takes over a buffer whose bytes 0 to n are the first part of the answer.
func (a *accumulator) begin(buf *budget.Buffer, n int64) { a.buf, a.n = buf, n }

// grow makes room for n more bytes behind those that are there, and gives it.
func (a *accumulator) grow(ctx context.Context, mem memory, n int64) (_ []byte, err error) {
	if a.buf == nil {
		a.buf, err = mem.get(ctx, int(n))
	} else {
		a.buf, err = mem.grow(ctx, a.buf, int(a.n+n))
	}
	if err != nil {
		return nil, err
	}
	return a.buf.B[a.n : a.n+n], nil
}

// saw counts a batch of the answer.
func (a *accumulator) saw(h *format.BatchHeader) {
	if a.batches == 0 {
		a.firstBase = h.BaseOffset
	}
	a.batches++
	a.next = h.LastOffset + 1
	a.codecs |= 1 << uint8(h.Codec())
}

func (a *accumulator) take() ([]byte, *budget.Buffer) {
	if a.n == 0 {
		a.release()
		return nil, nil
	}
	return a.buf.B[:a.n:a.n], a.buf
}

func (a *accumulator) release() {
	a.buf.Release()
	a.buf, a.n, a.files, a.inFiles = nil, 0, nil, 0
}

// cut takes from the answer what begins at or above offset. It reports false where nothing is left.
func (a *accumulator) cut(offset int64) bool {
	if a.inFiles > 0 {
		return a.cutFiles(offset)
	}
	n, next, batches := int64(0), int64(0), 0
	for w := format.Walk(a.buf.B[:a.n]); w.Next() && w.Header().BaseOffset < offset; batches++ {
		n, next = n+w.Header().Size(), w.Header().LastOffset+1
	}
	if n == 0 {
		return false
	}
	a.n, a.remote, a.next, a.batches = n, min(a.remote, n), next, batches
	return true
}

// cutFiles is cut where the answer is given as stretches of files.
func (a *accumulator) cutFiles(offset int64) bool {
	left := *a
	left.files, left.inFiles, left.batches = nil, 0, 0
	for _, f := range a.files {
		n := int64(0)
		over := false
		_, err := f.Segment.Batches(f.Pos, func(b *locallog.Batch) (bool, error) {
			if over = b.BaseOffset >= offset; over || b.Pos >= f.Pos+f.Bytes {
				return true, nil
			}
			n, left.next, left.batches = n+b.Size(), b.LastOffset+1, left.batches+1
			return false, nil
		})
		if n > 0 {
			left.point(f.Segment, f.Pos, n)
		}
		if over || err != nil {
			break
		}
	}
	if left.inFiles > 0 {
		*a = left
	}
	return left.inFiles > 0
}
