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

	// Where the first batch lies, for Kafka's estimate of the aborted transactions. One of the two is set.
	seg   *rlmm.Segment
	local *locallog.Span
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
