package format

import (
	"encoding/binary"
	"fmt"
	"math"
)

// cursor reads Kafka's primitive types one after another. The first thing that does not fit ends it: from then on
// every read gives zero, so a parser may read a whole struct and ask once. Loops ask each round (ok).
type cursor struct {
	b   []byte
	pos int
	bad string // what was wrong, empty: nothing
	at  int    // where
}

func (c *cursor) ok() bool  { return c.bad == "" }
func (c *cursor) left() int { return len(c.b) - c.pos }

// failAt notes the first fault; later ones are its consequences.
func (c *cursor) failAt(at int, format string, args ...any) {
	if c.bad == "" {
		c.bad, c.at = fmt.Sprintf(format, args...), at
	}
	c.pos = len(c.b)
}

// err gives the fault as CORRUPT; nil if there was none.
func (c *cursor) err(subject string) error {
	if c.ok() {
		return nil
	}
	return corrupt(subject, "byte %d: %s", c.at, c.bad)
}

// end demands that everything was read.
func (c *cursor) end(what string) {
	if c.ok() && c.left() > 0 {
		c.failAt(c.pos, "%d bytes left after %s", c.left(), what)
	}
}

// take gives the next n bytes, nil when there are fewer.
func (c *cursor) take(n int, what string) []byte {
	if n < 0 || n > c.left() {
		c.failAt(c.pos, "%s needs %d bytes, %d are left", what, n, c.left())
		return nil
	}
	c.pos += n
	return c.b[c.pos-n : c.pos : c.pos]
}

// nullable gives the next n bytes, and nil for the length -1 that Kafka writes for null.
func (c *cursor) nullable(n int64, what string) []byte {
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(c.left()) {
		c.failAt(c.pos, "%s has length %d, %d bytes are left", what, n, c.left())
		return nil
	}
	return c.take(int(n), what)
}

func (c *cursor) i8(what string) int8 {
	if b := c.take(1, what); b != nil {
		return int8(b[0])
	}
	return 0
}

func (c *cursor) i16(what string) int16 {
	if b := c.take(2, what); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) i32(what string) int32 {
	if b := c.take(4, what); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) i64(what string) int64 {
	if b := c.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// uvarint reads an unsigned varint of at most limit.
func (c *cursor) uvarint(limit uint64, what string) uint64 {
	v, n := binary.Uvarint(c.b[c.pos:])
	switch {
	case n == 0:
		c.failAt(c.pos, "%s is cut", what)
		return 0
	case n < 0 || v > limit:
		c.failAt(c.pos, "%s is a varint that is too large", what)
		return 0
	}
	c.pos += n
	return v
}

// varint reads a zigzag varint of 32 bits, varlong one of 64.
func (c *cursor) varint(what string) int64  { return unzigzag(c.uvarint(math.MaxUint32, what)) }
func (c *cursor) varlong(what string) int64 { return unzigzag(c.uvarint(math.MaxUint64, what)) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
