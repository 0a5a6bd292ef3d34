package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rsmhost/rsmhost/abi"
)

// Codec is the compression of a batch's records; the numbers are those in its attributes.
type Codec int8

// The codecs.
const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLZ4    Codec = 3
	CodecZstd   Codec = 4
)

// String is Kafka's name of the codec.
func (c Codec) String() string {
	names := [...]string{"none", "gzip", "snappy", "lz4", "zstd"}
	if c < 0 || int(c) >= len(names) {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return names[c]
}

// DefaultMaxDecoded is the most bytes that a batch may decompress to where the caller says nothing: 256 MiB. A batch is
// at most message.max.bytes, 1 MiB by default and rarely above 32 MiB.
const DefaultMaxDecoded = 256 << 20

// Decompress unpacks src, the records of a batch of this codec and magic, into at most limit bytes (0:
// DefaultMaxDecoded). With CodecNone the answer is src itself, else it is fresh.
//
// Errors: CORRUPT for damaged data and for zstd below magic 2, EXHAUSTED above limit, UNSUPPORTED for a codec that is
// not known.
func Decompress(c Codec, magic int8, src []byte, limit int64) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultMaxDecoded
	}
	out, err := decompress(c, magic, src, limit)
	if err == nil && int64(len(out)) > limit {
		err = errTooLarge
	}
	if err == nil {
		return out, nil
	}
	return nil, codecError(c, err, len(src), limit)
}

func decompress(c Codec, magic int8, src []byte, limit int64) ([]byte, error) {
	switch {
	case c == CodecNone:
		return src, nil
	case len(src) == 0: // not all decompressors mind
		return nil, errCut
	}
	switch c {
	case CodecGzip:
		return gunzip(src, limit)
	case CodecSnappy:
		return unsnappy(src, limit)
	case CodecLZ4:
		return unlz4(src, magic, limit)
	case CodecZstd:
		if magic < 2 {
			return nil, errors.New("magic 0 and 1 know no zstd")
		}
		return unzstd(src, limit)
	}
	return nil, errCodec
}

var (
	errTooLarge = errors.New("more than the limit") // the text that reaches people is in codecError
	errCodec    = errors.New("not a codec")
	errCut      = errors.New("the compressed data is cut")
)

func codecError(c Codec, err error, size int, limit int64) error {
	subject := fmt.Sprintf("%d bytes of %s", size, c)
	switch {
	case errors.Is(err, errTooLarge):
		return abi.Errorf(op, subject, abi.Exhausted, "they decompress to more than the limit of %d bytes", limit)
	case errors.Is(err, errCodec):
		return unsupported(subject, "a codec that Kafka had not defined when this was written")
	}
	return corrupt(subject, "%w", err)
}

// readAll reads r to its end. What it allocates follows the bytes that arrived, whatever was claimed.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, min(limit, math.MaxInt64-1)+1))
	if err == nil && int64(len(b)) > limit {
		err = errTooLarge
	}
	return b, err
}

var gzipPool = sync.Pool{New: func() any { return new(gzip.Reader) }}

func gunzip(src []byte, limit int64) ([]byte, error) {
	z := gzipPool.Get().(*gzip.Reader)
	defer gzipPool.Put(z)
	if err := z.Reset(bytes.NewReader(src)); err != nil {
		return nil, noEOF(err)
	}
	out, err := readAll(z, limit)
	return out, noEOF(err)
}

// zstdMaxWindow is what Kafka's own decoder takes at most (2^27, zstd's limit without --long).
const zstdMaxWindow = 128 << 20

var zstdPool = sync.Pool{New: func() any {
	// One decoder never fails to be made of constant options, and starts no goroutine when used for DecodeAll alone.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdMaxWindow))
	if err != nil {
		panic(err)
	}
	return d
}}

// unzstd has the decoder allow at least a window, for else it refuses frames whose window is above the limit though
// their content is not. So a frame that does not state its size may take as much before the limit is noticed. One that
// does gets no more at once than the limit, nor than so many bytes could ever decompress to: the decoder sees to that.
func unzstd(src []byte, limit int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, noEOF(err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, errTooLarge
	}
	d := zstdPool.Get().(*zstd.Decoder)
	defer zstdPool.Put(d)
	if err := d.ResetWithOptions(nil, zstd.WithDecoderMaxMemory(uint64(max(limit, zstdMaxWindow)))); err != nil {
		return nil, err
	}
	out, err := d.DecodeAll(src, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errTooLarge
	}
	return out, noEOF(err)
}

// noEOF keeps a decompressor's end of file from being taken for the end of ours.
func noEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errCut
	}
	return err
}
