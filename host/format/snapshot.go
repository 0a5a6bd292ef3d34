package format

import (
	"encoding/binary"
	"hash/crc32"
)

// ProducerState is what a producer snapshot keeps of one idempotent producer (KIP-98).
type ProducerState struct {
	ProducerID            int64
	ProducerEpoch         int16
	LastSequence          int32
	LastOffset            int64
	OffsetDelta           int32 // from the first to the last offset of its last batch
	Timestamp             int64 // milliseconds, of its last batch
	CoordinatorEpoch      int32 // of the last marker
	CurrentTxnFirstOffset int64 // -1: no transaction is open
}

const (
	snapshotHeader = 10 // version i16, CRC u32, count i32
	snapshotEntry  = 46
	snapshotCRCEnd = 6
)

// ParseProducerSnapshot reads a producer snapshot (.snapshot; Kafka's ProducerStateManager): i16 version, CRC-32C of
// what comes after it, i32 count, entries of 46 bytes. A version other than 1 is UNSUPPORTED; a wrong CRC and a wrong
// length are CORRUPT.
func ParseProducerSnapshot(b []byte) ([]ProducerState, error) {
	const what = "producer snapshot"
	c := cursor{b: b}
	version, crc, n := c.i16("version"), uint32(c.i32("CRC")), c.i32("count")
	if len(b) >= 2 && version != 1 {
		return nil, unsupported(what, "it has version %d, only 1 is known", version)
	}
	if !c.ok() {
		return nil, c.err(what)
	}
	if sum := crc32.Checksum(b[snapshotCRCEnd:], castagnoli); sum != crc {
		return nil, corrupt(what, "CRC is %08x, the file says %08x (%d bytes)", sum, crc, len(b))
	}
	if int64(len(b)) != snapshotHeader+int64(n)*snapshotEntry {
		return nil, corrupt(what, "%d producers need %d bytes, it has %d", n, snapshotHeader+int64(n)*snapshotEntry, len(b))
	}
	states := make([]ProducerState, n)
	for i := range states {
		states[i] = producerState(b[snapshotHeader+i*snapshotEntry:])
	}
	return states, nil
}

func producerState(b []byte) ProducerState {
	_ = b[snapshotEntry-1]
	return ProducerState{
		ProducerID:            int64(binary.BigEndian.Uint64(b)),
		ProducerEpoch:         int16(binary.BigEndian.Uint16(b[8:])),
		LastSequence:          int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:            int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta:           int32(binary.BigEndian.Uint32(b[22:])),
		Timestamp:             int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch:      int32(binary.BigEndian.Uint32(b[34:])),
		CurrentTxnFirstOffset: int64(binary.BigEndian.Uint64(b[38:])),
	}
}
