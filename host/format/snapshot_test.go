package format

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// The vectors of section 6.7.
const (
	hexSnapshot      = "000109533ac6000000010000000000000fa00001000000000000000000000067000000000000018bcfe5681400000009ffffffffffffffff"
	hexEmptySnapshot = "000148674bc700000000"
)

func TestProducerSnapshot(t *testing.T) {
	got, err := ParseProducerSnapshot(unhex(t, hexSnapshot))
	want := []ProducerState{{ProducerID: 4000, ProducerEpoch: 1, LastOffset: 103, Timestamp: T + 20, CoordinatorEpoch: 9, CurrentTxnFirstOffset: -1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = ParseProducerSnapshot(unhex(t, hexEmptySnapshot)); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestProducerSnapshotDamaged(t *testing.T) {
	whole := unhex(t, hexSnapshot)
	for n := range whole {
		_, err := ParseProducerSnapshot(whole[:n])
		wantKind(t, err, abi.Corrupt, "producer snapshot")
	}
	for i := 2; i < len(whole); i++ {
		b := unhex(t, hexSnapshot)
		b[i] ^= 1
		_, err := ParseProducerSnapshot(b)
		wantKind(t, err, abi.Corrupt, "CRC")
	}
	b := unhex(t, hexSnapshot)
	b[1] = 2
	_, err := ParseProducerSnapshot(b)
	wantKind(t, err, abi.Unsupported, "version 2, only 1")
	for _, count := range []uint32{0, 2, 1 << 31, 1<<31 - 1} {
		b := unhex(t, hexSnapshot)
		binary.BigEndian.PutUint32(b[6:], count)
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
		_, err := ParseProducerSnapshot(b)
		wantKind(t, err, abi.Corrupt, "bytes, it has 56")
	}
}
