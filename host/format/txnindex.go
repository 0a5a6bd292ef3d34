package format

import (
	"encoding/binary"
	"sort"
)

// AbortedTxn is an aborted transaction: what ProducerID wrote transactionally at the offsets from FirstOffset to
// LastOffset, both inclusive, a read_committed consumer does not see.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // that of the abort marker
	LastStableOffset int64 // after this abort: the first offset of the next open transaction, else LastOffset+1
}

// TxnIndex is the content of a segment's transaction index (.txnindex; Kafka's TransactionIndex, KIP-98): an entry of
// 34 bytes, i16 version and the four fields of AbortedTxn, for each abort marker in the segment; the data of that
// transaction may lie many segments before. A segment without markers of aborts has no such file, or an empty one.
type TxnIndex []byte

const txnEntrySize = 34

// Check tells an index that can be trusted from a damaged one, which is CORRUPT: the length is a multiple of 34 (Kafka
// takes a cut last entry, and then misses an abort), each entry has version 0 and a last offset of base or more. base
// is the segment's base offset.
func (x TxnIndex) Check(base int64) error {
	const what = "transaction index"
	if len(x)%txnEntrySize != 0 {
		return corrupt(what, "its length, %d, is not a multiple of %d", len(x), txnEntrySize)
	}
	for i := range x.Len() {
		if v := int16(binary.BigEndian.Uint16(x[i*txnEntrySize:])); v != 0 {
			return corrupt(what, "entry %d has version %d, not 0", i, v)
		}
		if e := x.Entry(i); e.LastOffset < base {
			return corrupt(what, "entry %d ends at offset %d, below the segment's first, %d", i, e.LastOffset, base)
		}
	}
	return nil
}

// CheckOrder tells whether the entries can be of a segment of the offsets from start to end, both inclusive: markers lie in it in
// ascending order, each transaction begins at or before its marker and not below what was decided at the one before it. What is
// not so is CORRUPT.
func (x TxnIndex) CheckOrder(start, end int64) error {
	const what = "transaction index"
	last, stable := start-1, int64(0)
	for i := range x.Len() {
		e := x.Entry(i)
		switch {
		case e.LastOffset <= last || e.LastOffset > end:
			return corrupt(what, "entry %d has its marker at offset %d, behind that at %d in a segment that ends at %d", i, e.LastOffset, last, end)
		case e.ProducerID < 0 || e.FirstOffset < 0 || e.FirstOffset > e.LastOffset:
			return corrupt(what, "entry %d is of producer %d, from offset %d to %d", i, e.ProducerID, e.FirstOffset, e.LastOffset)
		case e.FirstOffset < stable || e.LastStableOffset < stable || e.LastStableOffset > e.LastOffset+1:
			return corrupt(what, "entry %d begins at offset %d and says that all is decided up to %d; the one before says up to %d",
				i, e.FirstOffset, e.LastStableOffset, stable)
		}
		last, stable = e.LastOffset, e.LastStableOffset
	}
	return nil
}

// Len is the number of entries.
func (x TxnIndex) Len() int { return len(x) / txnEntrySize }

// Before is the entries whose marker lies below offset: they stand in the order of the markers.
func (x TxnIndex) Before(offset int64) TxnIndex {
	n := sort.Search(x.Len(), func(i int) bool { return x.Entry(i).LastOffset >= offset })
	return x[:n*txnEntrySize]
}

// Entry is the i-th entry.
func (x TxnIndex) Entry(i int) AbortedTxn {
	e := x[i*txnEntrySize:]
	return AbortedTxn{
		ProducerID:       int64(binary.BigEndian.Uint64(e[2:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(e[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(e[18:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(e[26:])),
	}
}

// AppendAborted appends an entry to a transaction index.
func AppendAborted(index TxnIndex, a AbortedTxn) TxnIndex {
	index = append(index, 0, 0)
	for _, v := range [...]int64{a.ProducerID, a.FirstOffset, a.LastOffset, a.LastStableOffset} {
		index = binary.BigEndian.AppendUint64(index, uint64(v))
	}
	return index
}

// Collect appends to dst the transactions that a read of the offsets from (inclusive) to upper (exclusive) needs: those
// that end at or after from and begin before upper. complete says that no later segment can add to them, since all
// transactions below upper were decided here (Kafka's collectAbortedTxns).
func (x TxnIndex) Collect(dst []AbortedTxn, from, upper int64) (out []AbortedTxn, complete bool) {
	for i := range x.Len() {
		e := x.Entry(i)
		if e.LastOffset >= from && e.FirstOffset < upper {
			dst = append(dst, e)
		}
		if e.LastStableOffset >= upper {
			return dst, true
		}
	}
	return dst, false
}
