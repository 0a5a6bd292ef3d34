package format

import (
	"encoding/binary"
	"sort"
)

// TimeIndex is the content of a segment's time index (.timeindex; Kafka's TimeIndex, KIP-33): entries of 12 bytes, i64
// timestamp in milliseconds and i32 offset relative to the segment's base. An entry says: up to and including this
// offset the largest timestamp is this. The last one has the segment's largest. base is always the segment's base
// offset.
type TimeIndex []byte

const timeEntrySize = 12

// Check tells an index that can be trusted from a damaged one, which is CORRUPT: the length is a multiple of 12,
// timestamps do not fall, and offsets do not fall from base on. The index of an active segment may end in zeros that
// were never written, and then fails.
func (x TimeIndex) Check(base int64) error {
	const what = "time index"
	if len(x)%timeEntrySize != 0 {
		return corrupt(what, "its length, %d, is not a multiple of %d", len(x), timeEntrySize)
	}
	lastTs, lastOffset := int64(-1), base
	for i := range x.Len() {
		ts, offset := x.Entry(i, base)
		if ts < lastTs || offset < lastOffset {
			return corrupt(what, "entry %d (timestamp %d, offset %d) is below timestamp %d, offset %d before it",
				i, ts, offset, lastTs, lastOffset)
		}
		lastTs, lastOffset = ts, offset
	}
	return nil
}

// Len is the number of entries.
func (x TimeIndex) Len() int { return len(x) / timeEntrySize }

// Entry is the i-th entry.
func (x TimeIndex) Entry(i int, base int64) (ts, offset int64) {
	e := x[i*timeEntrySize:]
	return int64(binary.BigEndian.Uint64(e)), base + int64(int32(binary.BigEndian.Uint32(e[8:])))
}

// Lookup gives the last entry whose timestamp is at most ts, and (-1, base) below the first: nothing before offset has
// a timestamp above ts.
func (x TimeIndex) Lookup(base, ts int64) (t, offset int64) {
	i := sort.Search(x.Len(), func(i int) bool {
		t, _ := x.Entry(i, base)
		return t > ts
	})
	if i == 0 {
		return -1, base
	}
	return x.Entry(i-1, base)
}

// Below gives the number of the last entry whose timestamp is below ts, -1 where there is none.
func (x TimeIndex) Below(ts int64) int {
	return sort.Search(x.Len(), func(i int) bool {
		t, _ := x.Entry(i, 0)
		return t >= ts
	}) - 1
}
