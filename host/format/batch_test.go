package format

import (
	"bytes"
	"encoding/binary"
	"io"
	"reflect"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// The spec's vectors of batches (sections 6.2 and 6.3).
const (
	hexTwoRecords = "0000000000000064000000490000000502121859130000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff0000000214000000046b300476300018000a02046b31010202680209"
	hexTxn        = "00000000000000660000003a00000005028485cd9c0010000000000000018bcfe5680a0000018bcfe5680a0000000000000fa000010000000000000001100000000104763200"
	hexAbort      = "0000000000000067000000420000000502f5eae3aa0030000000000000018bcfe568140000018bcfe568140000000000000fa00001ffffffff000000012000000008000000000c00000000000900"
	hexV1         = "00000000000000070000001839268c3301000000018bcfe56800000000016b0000000176"
	hexV0         = "0000000000000008000000101fecd70a0000000000016b0000000176"
)

// batchVectors are those batches with what is in them.
var batchVectors = []struct {
	name   string
	hex    string
	header BatchHeader
	recs   []Record
}{
	{"two records", hexTwoRecords,
		BatchHeader{BaseOffset: 100, Length: 0x49, Magic: 2, LeaderEpoch: 5, CRC: 0x12185913, LastOffset: 101, BaseTimestamp: T,
			MaxTimestamp: T + 5, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 2},
		[]Record{{Offset: 100, Timestamp: T, Key: []byte("k0"), Value: []byte("v0"), LeaderEpoch: 5},
			{Offset: 101, Timestamp: T + 5, Key: []byte("k1"), Headers: []Header{{"h", []byte{9}}}, LeaderEpoch: 5}}},
	{"transactional", hexTxn,
		BatchHeader{BaseOffset: 102, Length: 0x3a, Magic: 2, LeaderEpoch: 5, CRC: 0x8485cd9c, Attributes: 0x10, LastOffset: 102,
			BaseTimestamp: T + 10, MaxTimestamp: T + 10, ProducerID: 4000, ProducerEpoch: 1, Count: 1},
		[]Record{{Offset: 102, Timestamp: T + 10, Value: []byte("v2"), LeaderEpoch: 5}}},
	{"abort marker", hexAbort,
		BatchHeader{BaseOffset: 103, Length: 0x42, Magic: 2, LeaderEpoch: 5, CRC: 0xf5eae3aa, Attributes: 0x30, LastOffset: 103,
			BaseTimestamp: T + 20, MaxTimestamp: T + 20, ProducerID: 4000, ProducerEpoch: 1, BaseSequence: -1, Count: 1},
		[]Record{{Offset: 103, Timestamp: T + 20, Key: []byte{0, 0, 0, 0}, Value: []byte{0, 0, 0, 0, 0, 9}, LeaderEpoch: 5}}},
	{"magic 1", hexV1,
		BatchHeader{BaseOffset: 7, Length: 0x18, Magic: 1, LeaderEpoch: -1, CRC: 0x39268c33, LastOffset: 7, BaseTimestamp: T,
			MaxTimestamp: T, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: -1},
		[]Record{{Offset: 7, Timestamp: T, Key: []byte("k"), Value: []byte("v"), LeaderEpoch: -1}}},
	{"magic 0", hexV0,
		BatchHeader{BaseOffset: 8, Length: 0x10, Magic: 0, LeaderEpoch: -1, CRC: 0x1fecd70a, LastOffset: 8, BaseTimestamp: -1,
			MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: -1},
		[]Record{{Offset: 8, Timestamp: -1, TimestampType: NoTimestampType, Key: []byte("k"), Value: []byte("v"), LeaderEpoch: -1}}},
}

func TestBatchVectors(t *testing.T) {
	for _, v := range batchVectors {
		t.Run(v.name, func(t *testing.T) {
			b := unhex(t, v.hex)
			h, err := ParseBatchHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			if h != v.header {
				t.Errorf("header\n got %+v\nwant %+v", h, v.header)
			}
			if h.Size() != int64(len(b)) {
				t.Errorf("size %d, want %d", h.Size(), len(b))
			}
			if err := VerifyBatch(&h, b); err != nil {
				t.Error(err)
			}
			recs, err := Records(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(recs, v.recs) {
				t.Errorf("records\n got %+v\nwant %+v", recs, v.recs)
			}
			if v.header.Magic < 2 {
				return
			}
			if again := newBatch(t, v.header, v.recs); string(again) != string(b) {
				t.Errorf("encoded\n got %x\nwant %x", again, b)
			}
		})
	}
}

func TestHeaderFlags(t *testing.T) {
	tests := []struct {
		magic        int8
		attrs        int16
		codec        Codec
		txn, control bool
		ts           TimestampType
	}{
		{2, 0, CodecNone, false, false, CreateTime},
		{2, 0x10 | 4, CodecZstd, true, false, CreateTime},
		{2, 0x30, CodecNone, true, true, CreateTime},
		{2, 0x08 | 0x40 | 1, CodecGzip, false, false, LogAppendTime},
		{1, 0x08 | 2, CodecSnappy, false, false, LogAppendTime},
		{1, 0x30 | 3, CodecLZ4, false, false, CreateTime}, // these bits mean nothing yet
		{0, 0x08, CodecNone, false, false, NoTimestampType},
	}
	for _, tt := range tests {
		h := BatchHeader{Magic: tt.magic, Attributes: tt.attrs}
		if h.Codec() != tt.codec || h.IsTransactional() != tt.txn || h.IsControl() != tt.control || h.TimestampType() != tt.ts {
			t.Errorf("magic %d, attributes %#x: got %v, txn %v, control %v, %v", tt.magic, tt.attrs,
				h.Codec(), h.IsTransactional(), h.IsControl(), h.TimestampType())
		}
	}
}

func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{CodecNone.String(), "none"}, {CodecGzip.String(), "gzip"}, {CodecSnappy.String(), "snappy"}, {CodecLZ4.String(), "lz4"},
		{CodecZstd.String(), "zstd"}, {Codec(5).String(), "codec(5)"}, {Codec(-1).String(), "codec(-1)"},
		{CreateTime.String(), "CreateTime"}, {LogAppendTime.String(), "LogAppendTime"},
		{NoTimestampType.String(), "NoTimestampType"}, {TimestampType(7).String(), "TimestampType(7)"},
		{ControlAbort.String(), "ABORT"}, {ControlCommit.String(), "COMMIT"}, {ControlType(5).String(), "CONTROL(5)"},
		{CopySegmentStarted.String(), "COPY_SEGMENT_STARTED"}, {CopySegmentFinished.String(), "COPY_SEGMENT_FINISHED"},
		{DeleteSegmentStarted.String(), "DELETE_SEGMENT_STARTED"}, {DeleteSegmentFinished.String(), "DELETE_SEGMENT_FINISHED"},
		{SegmentState(4).String(), "SEGMENT_STATE(4)"},
		{DeletePartitionMarked.String(), "DELETE_PARTITION_MARKED"}, {DeletePartitionStarted.String(), "DELETE_PARTITION_STARTED"},
		{DeletePartitionFinished.String(), "DELETE_PARTITION_FINISHED"}, {PartitionDeleteState(-1).String(), "PARTITION_DELETE_STATE(-1)"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// TestHeaderCut: each magic needs what NeedHeader says, not a byte less.
func TestHeaderCut(t *testing.T) {
	for _, v := range batchVectors {
		b := unhex(t, v.hex)
		need := NeedHeader(b)
		if want := map[int8]int{0: 18, 1: 26, 2: 61}[v.header.Magic]; need != want {
			t.Errorf("%s: needs %d, want %d", v.name, need, want)
		}
		for n := range need {
			if _, err := ParseBatchHeader(b[:n:n]); err != io.ErrUnexpectedEOF {
				t.Errorf("%s: %d bytes: error %v", v.name, n, err)
			}
		}
		if _, err := ParseBatchHeader(b[:need:need]); err != nil {
			t.Errorf("%s: %d bytes: %v", v.name, need, err)
		}
	}
}

// TestHeaderDamaged: what is wrong in the first 17 bytes is told without more of them.
func TestHeaderDamaged(t *testing.T) {
	tests := []struct {
		name string
		hex  string
		set  func(b []byte)
		cut  int // how many bytes are there
		want string
	}{
		{"v2 length 48", hexTxn, func(b []byte) { b[11] = 48 }, 17, "length 48 is below 49"},
		{"v1 length 21", hexV1, func(b []byte) { b[11] = 21 }, 17, "length 21 is below 22"},
		{"v0 length 13", hexV0, func(b []byte) { b[11] = 13 }, 17, "length 13 is below 14"},
		{"negative length", hexTxn, func(b []byte) { b[8] = 0x80 }, 17, "length -2147483590"},
		{"magic 3", hexTxn, func(b []byte) { b[16] = 3 }, 17, "offset 102: CORRUPT: magic 3"},
		{"magic -1", hexTxn, func(b []byte) { b[16] = 255 }, 17, "magic -1"},
		{"negative offset", hexTxn, func(b []byte) { b[0] = 0x80 }, 17, "offset is -9223372036854775706"},
		{"negative delta", hexTxn, func(b []byte) { b[23] = 0x80 }, 61, "last offset delta is -2147483648"},
		{"overflow", hexTxn, func(b []byte) { binary.BigEndian.PutUint64(b, 1<<63-1); b[26] = 1 }, 61, "last offset delta is 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := unhex(t, tt.hex)
			tt.set(b)
			_, err := ParseBatchHeader(b[:tt.cut])
			wantKind(t, err, abi.Corrupt, tt.want)
			if n := NeedHeader(b); n < PeekSize || n > HeaderSizeV2 {
				t.Errorf("NeedHeader is %d", n)
			}
			_, err = Records(b, 0)
			wantKind(t, err, abi.Corrupt)
			_, err = LegacyBaseOffset(b)
			wantKind(t, err, abi.Corrupt)
		})
	}
}

// TestVerifyBatch: any flipped bit is found, but for the fields that the broker sets after the producer's CRC.
func TestVerifyBatch(t *testing.T) {
	for _, v := range batchVectors {
		covered := 12
		if v.header.Magic == 2 {
			covered = 17
		}
		for i := covered; i < len(v.hex)/2; i++ {
			b := unhex(t, v.hex)
			b[i] ^= 0x40
			h, err := ParseBatchHeader(b)
			if err != nil {
				continue // the magic
			}
			err, piecewise := VerifyBatch(&h, b), VerifyFrom(&h, bytes.NewReader(b))
			if err == nil || piecewise == nil || err.Error() != piecewise.Error() {
				t.Errorf("%s: byte %d changed: %v; read piece by piece: %v", v.name, i, err, piecewise)
			}
		}
	}
	b := unhex(t, hexTwoRecords)
	b[len(b)-1]++
	h, err := ParseBatchHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, VerifyBatch(&h, b), abi.Corrupt, "offsets 100-101", "the batch says 12185913")
	wantKind(t, VerifyBatch(&h, b[:len(b)-1]), abi.Corrupt, "cut: 84 bytes of 85")
	wantKind(t, VerifyFrom(&h, bytes.NewReader(b[:len(b)-1])), abi.Corrupt, "cut: 84 bytes of 85")
	if err := VerifyFrom(&h, bytes.NewReader(unhex(t, hexTwoRecords))); err != nil {
		t.Errorf("a good batch: %v", err)
	}
}
