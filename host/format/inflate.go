package format

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// inflater decompresses the records of a batch as a stream: what it holds does not grow with what comes out.
type inflater struct {
	io.Reader
	close func()
}

// inflateBlock is what a block of LZ4 may hold at most, and what other codecs need beside their window.
const inflateBlock = 4 << 20

// InflateMemory is the most bytes that RecordHeads holds while it goes over the one batch at the start of b: what its codec
// needs, whatever it inflates to. It is 0 where nothing is compressed, and for what RecordHeads refuses.
func InflateMemory(b []byte) int64 {
	h, payload, err := compressed(b)
	if err != nil {
		return 0
	}
	switch h.Codec() {
	case CodecGzip:
		return 64 << 10
	case CodecSnappy:
		return snappyMost(payload)
	case CodecLZ4:
		return 2*inflateBlock + int64(len(payload))
	case CodecZstd:
		window, err := zstdWindow(payload)
		if err != nil {
			return 0
		}
		return int64(window) + 1<<20
	}
	return 0
}

// compressed gives the part of a batch that its codec is about.
func compressed(b []byte) (h BatchHeader, payload []byte, err error) {
	if h, err = ParseBatchHeader(b); err != nil {
		return h, nil, cutBatch(err, len(b))
	}
	if int64(len(b)) < h.Size() {
		return h, nil, corrupt(h.name(), "it is cut: %d bytes of %d", len(b), h.Size())
	}
	b = b[:h.Size():h.Size()]
	if h.Magic >= 2 {
		return h, b[HeaderSizeV2:], nil
	}
	c := cursor{b: b}
	outer := c.readEntry()
	if h.Codec() != CodecNone && outer.value == nil && c.ok() {
		return h, nil, corrupt(h.name(), "a wrapper of %s whose value is null", h.Codec())
	}
	return h, outer.value, c.err(h.name())
}

// inflate opens the stream of what src inflates to. It ends with errTooLarge behind limit bytes.
func inflate(h *BatchHeader, src []byte, limit int64) (*inflater, error) {
	in, err := openInflater(h, src)
	if err != nil {
		return nil, noEOF(err)
	}
	in.Reader = &boundedReader{in.Reader, limit}
	return in, nil
}

func openInflater(h *BatchHeader, src []byte) (*inflater, error) {
	c := h.Codec()
	switch {
	case c == CodecNone:
		return &inflater{bytes.NewReader(src), func() {}}, nil
	case len(src) == 0:
		return nil, errCut
	}
	switch c {
	case CodecGzip:
		z := gzipPool.Get().(*gzip.Reader)
		if err := z.Reset(bytes.NewReader(src)); err != nil {
			gzipPool.Put(z)
			return nil, err
		}
		return &inflater{z, func() { gzipPool.Put(z) }}, nil
	case CodecSnappy:
		return &inflater{&snappyReader{src: src, bare: !bytes.HasPrefix(src, xerialMagic)}, func() {}}, nil
	case CodecLZ4:
		if h.Magic == 0 {
			src = mendLZ4Header(src)
		}
		z := lz4Pool.Get().(*lz4.Reader)
		z.Reset(bytes.NewReader(src))
		return &inflater{z, func() { lz4Pool.Put(z) }}, nil
	case CodecZstd:
		if h.Magic < 2 {
			return nil, errors.New("magic 0 and 1 know no zstd")
		}
		return openZstd(src)
	}
	return nil, errCodec
}

// zstdLeastWindow is what a frame may have for a window that says less: a frame may follow the first one.
const zstdLeastWindow = 8 << 20

// zstdWindow is the window of the first frame, as its header has it.
func zstdWindow(src []byte) (uint64, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return 0, noEOF(err)
	}
	return max(h.WindowSize, zstdLeastWindow), nil
}

// zstdStreams are decoders that hold no more than the least window.
var zstdStreams = sync.Pool{New: func() any { return newZstdStream(zstdLeastWindow) }}

func newZstdStream(window uint64) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil { // only for options that can't be
		panic(err)
	}
	return d
}

func openZstd(src []byte) (*inflater, error) {
	window, err := zstdWindow(src)
	switch {
	case err != nil:
		return nil, err
	case window > zstdMaxWindow:
		return nil, errTooLarge
	case window > zstdLeastWindow:
		d := newZstdStream(window)
		return &inflater{d, d.Close}, d.Reset(bytes.NewReader(src))
	}
	d := zstdStreams.Get().(*zstd.Decoder)
	return &inflater{d, func() { zstdStreams.Put(d) }}, d.Reset(bytes.NewReader(src))
}

// boundedReader gives left bytes at most, and then errTooLarge.
type boundedReader struct {
	io.Reader
	left int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, errTooLarge
	}
	n, err := r.Reader.Read(p[:min(int64(len(p)), r.left+1)])
	if r.left -= int64(n); r.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// snappyReader reads snappy block by block.
type snappyReader struct {
	src  []byte
	bare bool // src is one block
	buf  []byte
	rest []byte // of buf
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		if err := r.block(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *snappyReader) block() (err error) {
	block := r.src
	switch {
	case r.bare:
		r.src = nil
	case bytes.HasPrefix(r.src, xerialMagic): // streams may be joined
		if len(r.src) < xerialHeader {
			return errors.New("the framing header is cut")
		}
		r.src = r.src[xerialHeader:]
		return nil
	default:
		if block, r.src, err = xerialBlock(r.src); err != nil {
			return err
		}
	}
	r.buf, err = snappyBlock(r.buf[:0], block, DefaultMaxDecoded)
	r.rest = r.buf
	return err
}

// snappyMost is the size of the largest block in src, decompressed.
func snappyMost(src []byte) int64 {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappySize(src)
	}
	most := int64(0)
	for len(src) > 0 {
		if bytes.HasPrefix(src, xerialMagic) {
			src = src[min(len(src), xerialHeader):]
			continue
		}
		block, rest, err := xerialBlock(src)
		if err != nil {
			break
		}
		most, src = max(most, snappySize(block)), rest
	}
	return most
}

func snappySize(block []byte) int64 {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return 0
	}
	return min(int64(n), int64(len(block)/3+1)*64)
}

// bufioPool is of readers that stand behind an inflater.
var bufioPool = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}
