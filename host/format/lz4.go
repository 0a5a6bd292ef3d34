package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/pierrec/lz4/v4"
)

var lz4Pool = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

func unlz4(src []byte, magic int8, limit int64) ([]byte, error) {
	if magic == 0 {
		src = mendLZ4Header(src)
	}
	z := lz4Pool.Get().(*lz4.Reader)
	defer lz4Pool.Put(z)
	z.Reset(bytes.NewReader(src))
	out, err := readAll(z, limit)
	return out, noEOF(err)
}

// mendLZ4Header gives src with the right checksum in its frame header. Kafka's first LZ4 writer took the checksum over
// the frame's magic number too (KAFKA-3160), and every batch of magic 0 carries that mistake.
//
//	04 22 4d 18 | FLG | BD | content size 0 or 8 | dictionary id 0 or 4 | checksum
//	            '---------- under the checksum -----------------------'
func mendLZ4Header(src []byte) []byte {
	const flags, contentSize, dictID = 4, 0x08, 0x01
	if len(src) <= flags {
		return src
	}
	end := flags + 2
	if src[flags]&contentSize != 0 {
		end += 8
	}
	if src[flags]&dictID != 0 {
		end += 4
	}
	if len(src) <= end {
		return src
	}
	src = bytes.Clone(src)
	src[end] = byte(xxh32(src[flags:end]) >> 8)
	return src
}

// xxh32 is XXH32 with seed 0 of fewer than 16 bytes, all that a frame header ever has.
func xxh32(b []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	h := uint32(p5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h += binary.LittleEndian.Uint32(b) * p3
		h = bits.RotateLeft32(h, 17) * p4
	}
	for _, c := range b {
		h += uint32(c) * p5
		h = bits.RotateLeft32(h, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}
