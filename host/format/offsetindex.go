package format

import (
	"encoding/binary"
	"sort"
)

// OffsetIndex is the content of a segment's offset index (.index; Kafka's OffsetIndex): a sparse list of entries of 8
// bytes, i32 offset relative to the segment's base and i32 position in its log, both ascending.
//
// An entry has the last offset of the batch that starts at the position: whoever looks up an offset goes to the
// position and scans on. The first batch has no entry, and small segments have none at all. base is always the
// segment's base offset, and never stands in the file.
type OffsetIndex []byte

const offsetEntrySize = 8

// Check tells an index that can be trusted from a damaged one, which is CORRUPT: the length is a multiple of 8, and
// offsets ascend from base and positions from 0. The index of an active segment may end in zeros that were never
// written, and then fails.
func (x OffsetIndex) Check(base int64) error {
	const what = "offset index"
	if len(x)%offsetEntrySize != 0 {
		return corrupt(what, "its length, %d, is not a multiple of %d", len(x), offsetEntrySize)
	}
	lastOffset, lastPos := base-1, int64(-1)
	for i := range x.Len() {
		offset, pos := x.Entry(i, base)
		if offset <= lastOffset || pos <= lastPos {
			return corrupt(what, "entry %d (offset %d, position %d) does not come after offset %d, position %d",
				i, offset, pos, lastOffset, lastPos)
		}
		lastOffset, lastPos = offset, pos
	}
	return nil
}

// Len is the number of entries.
func (x OffsetIndex) Len() int { return len(x) / offsetEntrySize }

// Entry is the i-th entry: the last offset of the batch that starts at pos.
func (x OffsetIndex) Entry(i int, base int64) (offset, pos int64) {
	e := x[i*offsetEntrySize:]
	return base + int64(int32(binary.BigEndian.Uint32(e))), int64(int32(binary.BigEndian.Uint32(e[4:])))
}

// AppendOffsetEntry appends an entry to the offset index of the segment with this base: the last offset of the batch
// that begins at position pos.
func AppendOffsetEntry(index OffsetIndex, base, offset, pos int64) OffsetIndex {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(index, uint32(offset-base)), uint32(pos))
}

// Lookup gives the last entry whose offset is at most target, and (base, 0) below the first: a batch that holds target
// starts at pos or after it.
func (x OffsetIndex) Lookup(base, target int64) (offset, pos int64) {
	i := sort.Search(x.Len(), func(i int) bool {
		o, _ := x.Entry(i, base)
		return o > target
	})
	if i == 0 {
		return base, 0
	}
	return x.Entry(i-1, base)
}

// UpperBound gives the offset of the first entry whose position is limit or more: no batch that starts before limit has
// a greater offset. ok is false if there is none.
func (x OffsetIndex) UpperBound(base, limit int64) (offset int64, ok bool) {
	return x.bound(base, limit, false)
}

// KafkaUpperBound is UpperBound with the quirk of Kafka's fetchUpperBoundOffset, for answers that must be the broker's
// to the byte: an exact hit on the first entry gives the second, or none if there is only one.
func (x OffsetIndex) KafkaUpperBound(base, limit int64) (offset int64, ok bool) {
	return x.bound(base, limit, true)
}

func (x OffsetIndex) bound(base, limit int64, quirk bool) (int64, bool) {
	i := sort.Search(x.Len(), func(i int) bool {
		_, p := x.Entry(i, base)
		return p >= limit
	})
	if quirk && i == 0 && x.Len() > 0 {
		if _, p := x.Entry(0, base); p == limit {
			i = 1
		}
	}
	if i == x.Len() {
		return 0, false
	}
	offset, _ := x.Entry(i, base)
	return offset, true
}
