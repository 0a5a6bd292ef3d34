package rlmm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// maxBatch bounds one batch of the metadata topic: a broker's message.max.bytes is 1 MiB by default.
const maxBatch = 64 << 20

// maxSearch bounds the bytes whose CRC a search for the next batch works out: what looks like a header may lie anywhere.
const maxSearch = 256 << 20

// chunk is how much of a file is read at once.
const chunk = 256 << 10

var (
	errTorn  = errors.New("torn batch: the file ends inside it")
	errBlank = errors.New("zeros, with something behind them")
)

// batchReader reads the batches of a file that may grow meanwhile.
type batchReader struct {
	f    *os.File
	in   *bufio.Reader
	size int64 // that the file has at least
	buf  []byte
}

// newBatchReader reads f from pos on.
func newBatchReader(f *os.File, pos int64) *batchReader {
	return &batchReader{f: f, in: bufio.NewReaderSize(io.NewSectionReader(f, pos, math.MaxInt64-pos), chunk)}
}

// next reads the batch at pos, where the reader stands. It is valid up to the next call. io.EOF is the end of the file;
// errBlank says that zeros begin here. Any other error ends the reader.
func (b *batchReader) next(pos int64) ([]byte, format.BatchHeader, error) {
	head, err := b.in.Peek(format.HeaderSizeV2)
	if err != nil && (!errors.Is(err, io.EOF) || len(head) == 0) {
		return nil, format.BatchHeader{}, err
	}
	if blank(head) {
		return nil, format.BatchHeader{}, errBlank
	}
	h, err := format.ParseBatchHeader(head)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, h, errTorn
	case err != nil:
		return nil, h, err
	case h.Size() > maxBatch:
		return nil, h, fmt.Errorf("a batch of %d bytes, %d at most", h.Size(), maxBatch)
	}
	if err := b.reaches(pos + h.Size()); err != nil {
		return nil, h, err
	}
	b.buf = slices.Grow(b.buf[:0], int(h.Size()))[:h.Size()]
	if _, err := io.ReadFull(b.in, b.buf); err != nil {
		return nil, h, err
	}
	return b.buf, h, format.VerifyBatch(&h, b.buf)
}

// reaches checks that the file has the bytes up to end, before room is made for them.
func (b *batchReader) reaches(end int64) error {
	if end <= b.size {
		return nil
	}
	info, err := b.f.Stat()
	if err != nil {
		return err
	}
	if b.size = info.Size(); end > b.size {
		return errTorn
	}
	return nil
}

func blank(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// blankTo reports whether a file holds nothing but zeros from pos to end, or to its own end where that is nearer.
func blankTo(ctx context.Context, f *os.File, pos, end int64) (bool, error) {
	buf := make([]byte, chunk)
	for pos < end {
		if err := ctx.Err(); err != nil {
			return false, abi.E("read metadata", f.Name(), abi.KindOf(err), err)
		}
		n, err := f.ReadAt(buf[:min(chunk, end-pos)], pos)
		if !blank(buf[:n]) {
			return false, nil
		}
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, abi.E("read metadata", f.Name(), abi.FileKind(err), err)
		}
		pos += int64(n)
	}
	return true, nil
}

// nextBatch is the position of the first whole batch at or behind pos: what looks like a header, and has a CRC that is right.
// It reports false where there is none.
func nextBatch(ctx context.Context, f *os.File, pos int64) (at int64, ok bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, false, abi.E("read metadata", f.Name(), abi.FileKind(err), err)
	}
	size, search := info.Size(), int64(maxSearch)
	buf := make([]byte, chunk)
	for pos+format.HeaderSizeV2 <= size && search > 0 {
		if err := ctx.Err(); err != nil {
			return 0, false, abi.E("read metadata", f.Name(), abi.KindOf(err), err)
		}
		n, err := f.ReadAt(buf, pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, false, abi.E("read metadata", f.Name(), abi.FileKind(err), err)
		}
		if n < format.HeaderSizeV2 {
			return 0, false, nil
		}
		for _, i := range headers(buf[:n], size-pos) {
			took, whole := wholeBatch(f, pos+i)
			if whole {
				return pos + i, true, nil
			}
			search -= took
		}
		pos += int64(n) - format.HeaderSizeV2 + 1
	}
	return 0, false, nil
}

// headers gives the places in b that look like a header of a batch of the metadata topic that ends within left bytes.
func headers(b []byte, left int64) (places []int64) {
	for i := 0; i+format.HeaderSizeV2 <= len(b); i++ {
		next := bytes.IndexByte(b[i+format.PeekSize-1:], 2) // the magic
		if next < 0 {
			break
		}
		if i += next; i+format.HeaderSizeV2 > len(b) {
			break
		}
		h, err := format.ParseBatchHeader(b[i:])
		if err == nil && h.Size() <= min(maxBatch, left-int64(i)) && int64(h.Count) == h.LastOffset-h.BaseOffset+1 {
			places = append(places, int64(i))
		}
	}
	return places
}

// wholeBatch reports whether a batch begins at pos, is all there, and has the right CRC; took is the bytes that were looked at.
func wholeBatch(f *os.File, pos int64) (took int64, ok bool) {
	var head [format.HeaderSizeV2]byte
	if _, err := f.ReadAt(head[:], pos); err != nil {
		return 1, false
	}
	h, err := format.ParseBatchHeader(head[:])
	if err != nil || h.Size() > maxBatch {
		return 1, false
	}
	batch := make([]byte, h.Size())
	if _, err := f.ReadAt(batch, pos); err != nil && !errors.Is(err, io.EOF) {
		return h.Size(), false
	}
	return h.Size(), format.VerifyBatch(&h, batch) == nil
}
