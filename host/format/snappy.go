package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Kafka writes snappy in the framing of the xerial library: a header, then blocks, each behind its length. Some
// producers send one bare block; xerial's reader, hence Kafka, takes it too.
//
//	82 53 4e 41 50 50 59 00 | version i32 | compatible version i32 | (length i32 | block)...
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

func unsnappy(src []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappyBlock(nil, src, limit)
	}
	var out []byte
	for len(src) > 0 {
		if bytes.HasPrefix(src, xerialMagic) { // streams may be joined
			if len(src) < xerialHeader {
				return nil, errors.New("the framing header is cut")
			}
			src = src[xerialHeader:]
			continue
		}
		block, rest, err := xerialBlock(src)
		if err != nil {
			return nil, err
		}
		if out, err = snappyBlock(out, block, limit); err != nil {
			return nil, err
		}
		src = rest
	}
	return out, nil
}

func xerialBlock(src []byte) (block, rest []byte, err error) {
	if len(src) < 4 {
		return nil, nil, errors.New("the length of a block is cut")
	}
	n := int64(binary.BigEndian.Uint32(src))
	if n > int64(len(src)-4) {
		return nil, nil, fmt.Errorf("a block of %d bytes has %d left", n, len(src)-4)
	}
	return src[4 : 4+n], src[4+n:], nil
}

// snappyBlock appends the content of one block to dst. Snappy's densest element makes 64 bytes of 3: a block that
// claims more than that is refused before anything is allocated for it.
func snappyBlock(dst, block []byte, limit int64) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if int64(n) > int64(len(block)/3+1)*64 {
		return nil, fmt.Errorf("a block of %d bytes claims to hold %d", len(block), n)
	}
	if int64(len(dst))+int64(n) > limit {
		return nil, errTooLarge
	}
	if cap(dst) == 0 {
		dst = make([]byte, 0, n) // what a block holds, and no more
	}
	dst = slices.Grow(dst, n)
	if _, err := s2.Decode(dst[len(dst):len(dst)+n], block); err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}
