package locallog

import (
	"fmt"

	"github.com/rsmhost/rsmhost/host/format"
)

// cut is a piece that is missing in the middle of a segment's file: its offset index has what lies behind it further on. The zero
// value is none.
type cut struct {
	bytes       int64
	first, last int64 // the batches that are missing lie between them, inclusive
}

// text says so in a finding.
func (c cut) text() string {
	return fmt.Sprintf("%d bytes are missing in its middle, by its offset index: batches of the offsets from %d to %d", c.bytes, c.first, c.last)
}

// cutSearch holds the batches of a segment, in their order, against the offset index beside it.
type cutSearch struct {
	old     format.OffsetIndex
	base    int64
	i       int // the entry of old that comes next
	gap     cut // the offsets that are left out since the last batch that lies where its entry says
	found   cut
	refuted bool
}

// sees takes in the next batch. next is the offset that follows the one before, anyOffset where that is not known.
func (c *cutSearch) sees(b batchAt, next int64) {
	if next != anyOffset && b.BaseOffset > next {
		if c.gap.last == 0 {
			c.gap.first = next
		}
		c.gap.last = b.BaseOffset - 1
	}
	for ; c.i < c.old.Len(); c.i++ {
		offset, pos := c.old.Entry(c.i, c.base)
		if offset > b.LastOffset {
			return
		}
		if offset == b.LastOffset {
			c.moved(pos - b.Pos)
		}
	}
}

// moved takes in that a batch lies so many bytes before where its entry says.
func (c *cutSearch) moved(bytes int64) {
	switch {
	case bytes == 0 && c.found.bytes == 0:
		c.gap = cut{}
	case bytes > 0 && c.found.bytes == 0 && c.gap.last > 0:
		c.found = cut{bytes, c.gap.first, c.gap.last}
	case bytes != c.found.bytes: // entries of their own are wrong
		c.refuted = true
	}
}

// result is the piece that is missing.
func (c *cutSearch) result() cut {
	if c.refuted {
		return cut{}
	}
	return c.found
}
