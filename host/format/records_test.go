package format

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// TestRecordsEveryCodec: what a codec packs comes back, several batches in a row as a log has them (Kafka's
// RemoteLogInputStreamTest, magic 2).
func TestRecordsEveryCodec(t *testing.T) {
	for _, p := range packings {
		for _, n := range []int{1, 3, 5000} {
			t.Run(fmt.Sprintf("%s/%d", p.name, n), func(t *testing.T) {
				h := plainHeader(0)
				h.Attributes, h.ProducerID, h.ProducerEpoch, h.BaseSequence = attrTransactional, 4000, 1, 7
				var log []byte
				for i := range int64(3) {
					h.BaseOffset = i * int64(n)
					log = append(log, recompress(t, newBatch(t, h, someRecords(h.BaseOffset, n)), p)...)
				}
				var got []Record
				w := Walk(log)
				for w.Next() {
					if err := VerifyBatch(w.Header(), w.Bytes()); err != nil {
						t.Fatal(err)
					}
					if w.Header().Codec() != p.codec || w.Header().ProducerID != 4000 {
						t.Fatalf("header %+v", w.Header())
					}
					recs, err := Records(w.Bytes(), 0)
					if err != nil {
						t.Fatal(err)
					}
					sameHeads(t, w.Bytes(), recs)
					got = append(got, recs...)
				}
				want := slices.Concat(someRecords(0, n), someRecords(int64(n), n), someRecords(int64(2*n), n))
				if !reflect.DeepEqual(got, want) {
					t.Error("other records than were packed")
				}
			})
		}
	}
}

// TestRecordsLegacyEveryCodec does the same for magic 0 and 1, which have no zstd.
func TestRecordsLegacyEveryCodec(t *testing.T) {
	for magic := range byte(2) {
		for _, p := range packings {
			for _, n := range []int{1, 3, 5000} {
				if p.codec == CodecNone || p.codec == CodecZstd {
					continue
				}
				t.Run(fmt.Sprintf("%d/%s/%d", magic, p.name, n), func(t *testing.T) {
					recs := asLegacy(someRecords(20, n), magic)
					checkLegacy(t, legacyWrapper(t, magic, p, recs), recs)
				})
			}
		}
	}
}

func checkLegacy(t *testing.T, b []byte, want []Record) {
	t.Helper()
	h, err := ParseBatchHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := VerifyBatch(&h, b); err != nil {
		t.Fatal(err)
	}
	last := want[len(want)-1]
	if h.LastOffset != last.Offset || h.MaxTimestamp != last.Timestamp {
		t.Errorf("header %+v", h)
	}
	if base, err := LegacyBaseOffset(b); err != nil || base != want[0].Offset {
		t.Errorf("base offset %d, %v, want %d", base, err, want[0].Offset)
	}
	got, err := Records(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("records\n got %+v\nwant %+v", got, want)
	}
	sameHeads(t, b, want)
}

// TestRecordsEmptied: compaction may leave a header alone, with whatever codec the batch had.
func TestRecordsEmptied(t *testing.T) {
	for codec := range int16(8) {
		h := plainHeader(10)
		h.LastOffset = 14
		b := newBatch(t, h, nil)
		b[22] = byte(codec)
		sealV2(b)
		recs, err := Records(b, 0)
		if err != nil || len(recs) != 0 {
			t.Errorf("codec %d: %v, %v", codec, recs, err)
		}
		if h, err := ParseBatchHeader(b); err != nil || h.LastOffset != 14 || h.Count != 0 {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

func TestRecordsLogAppendTime(t *testing.T) {
	h := plainHeader(0)
	h.Attributes, h.MaxTimestamp = attrLogAppendTime, T+1000
	recs, err := Records(newBatch(t, h, someRecords(0, 3)), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if r.Timestamp != T+1000 || r.TimestampType != LogAppendTime {
			t.Errorf("record %d: %d, %v", r.Offset, r.Timestamp, r.TimestampType)
		}
	}
}

// TestRecordsCompacted: gaps and a last offset without a record.
func TestRecordsCompacted(t *testing.T) {
	all := someRecords(50, 10)
	kept := []Record{all[2], all[3], all[7]}
	h := plainHeader(50)
	h.LastOffset = 59
	b := newBatch(t, h, kept)
	got, err := Records(b, 0)
	if err != nil || !reflect.DeepEqual(got, kept) {
		t.Errorf("%+v, %v", got, err)
	}
	if h, err := ParseBatchHeader(b); err != nil || h.BaseOffset != 50 || h.LastOffset != 59 || h.Count != 3 {
		t.Errorf("%+v, %v", h, err)
	}
}

// TestRecordsTrailing: what follows the batch in b does not matter, and is not within reach of the slices.
func TestRecordsTrailing(t *testing.T) {
	b := append(unhex(t, hexV1), unhex(t, hexV0)...)
	recs, err := Records(b, 0)
	if err != nil || len(recs) != 1 || cap(recs[0].Value) != 1 {
		t.Errorf("%+v, %v", recs, err)
	}
	_, err = Records(b[:20], 0)
	wantKind(t, err, abi.Corrupt, "header is cut: 20 bytes")
	_, err = Records(b[:30], 0)
	wantKind(t, err, abi.Corrupt, "offsets 7-7", "30 bytes of 36")
	_, err = LegacyBaseOffset(b[:20])
	wantKind(t, err, abi.Corrupt, "header is cut: 20 bytes")
}

// payload makes a batch of one record, offset 100, whose bytes are given; count says how many it claims.
func payload(count int32, hex string) func(testing.TB) []byte {
	return func(t testing.TB) []byte {
		b := append(newBatch(t, plainHeader(100), nil), unhex(t, hex)...)
		binary.BigEndian.PutUint32(b[57:], uint32(count))
		return sealV2(b)
	}
}

func TestRecordsDamaged(t *testing.T) {
	tests := []struct {
		name string
		make func(testing.TB) []byte
		want string
	}{
		{"count above bytes", payload(math.MaxInt32, "0c 00 00 00 01 01 00"), "2147483647 records cannot stand in 7 bytes"},
		{"negative count", payload(-1, "0c 00 00 00 01 01 00"), "-1 records"},
		{"count 0 with bytes", payload(0, "0c 00 00 00 01 01 00"), "7 bytes left after the last record"},
		{"count too small", payload(1, "0c 00 00 00 01 01 00 0c 00 00 00 01 01 00"), "record 1 of 1, byte 7 of its 14"},
		{"count too large", payload(2, "1a 00 00 00 01 01 00 00 00 00 00 00 00 00"), "7 bytes left after the record's headers"},
		{"record past the end", payload(1, "0e 00 00 00 01 01 00"), "record's length is 7, 6 bytes are left"},
		{"record of negative length", payload(1, "0b 00 00 00 01 01 00"), "record's length is -6"},
		{"length varint too long", payload(1, "ff ff ff ff 7f 00 00"), "too large"},
		{"length varint cut", payload(1, "80 80 80 80 80 80 80"), "cut"},
		{"offset delta above", payload(1, "0c 00 00 02 01 01 00"), "offset delta 1 is outside"},
		{"offset delta negative", payload(1, "0c 00 00 01 01 01 00"), "offset delta -1 is outside"},
		{"key of length -2", payload(1, "0c 00 00 00 03 01 00"), "key has length -2"},
		{"key past the record", payload(1, "0c 00 00 00 06 01 00"), "key has length 3, 2 bytes are left"},
		{"value past the record", payload(1, "0c 00 00 00 01 04 00"), "value has length 2, 1 bytes are left"},
		{"headers cut", payload(1, "0c 00 00 00 01 01 02"), "1 headers cannot stand in 0 bytes"},
		{"negative header count", payload(1, "0c 00 00 00 01 01 01"), "-1 headers"},
		{"header without key", payload(1, "10 00 00 00 01 01 02 01 01"), "header 0 has no key"},
		{"header value past the record", payload(1, "10 00 00 00 01 01 02 00 02"), "header value has length 1"},
		{"record cut inside", payload(1, "0a 00 00 00 01 01 00"), "header count is cut"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Records(tt.make(t), 0)
			wantKind(t, err, abi.Corrupt, tt.want, "offsets 100-100")
		})
	}
}

// TestRecordsManyClaimed: more records than get room at once.
func TestRecordsManyClaimed(t *testing.T) {
	h := plainHeader(0)
	recs := make([]Record, 3*maxUnproven)
	headers := make([]Header, 3*maxUnproven)
	for i := range recs {
		recs[i] = Record{Offset: int64(i), Timestamp: T, LeaderEpoch: 5}
	}
	recs[7].Headers = headers
	got, err := Records(newBatch(t, h, recs), 0)
	if err != nil || !reflect.DeepEqual(got, recs) {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestAppendBatchRefuses(t *testing.T) {
	zipped, early, wide := plainHeader(0), plainHeader(10), plainHeader(0)
	zipped.Attributes = 1
	wide.LastOffset = math.MaxInt32 + 1
	backwards := plainHeader(10)
	backwards.LastOffset = 9
	tests := []struct {
		name string
		h    BatchHeader
		recs []Record
		want string
	}{
		{"codec", zipped, nil, "codec gzip"},
		{"record before base", early, []Record{{Offset: 9}, {Offset: 11}}, "a record has offset 9"},
		{"too many offsets", wide, nil, "no batch"},
		{"last before base", backwards, nil, "no batch"},
		{"negative base", plainHeader(-1), nil, "no batch"},
	}
	for _, tt := range tests {
		_, err := AppendBatch(nil, tt.h, tt.recs)
		wantKind(t, err, abi.Invalid, tt.want)
	}
}

func TestAppendBatchKeepsDst(t *testing.T) {
	b, err := AppendBatch([]byte("before"), plainHeader(3), someRecords(3, 2))
	if err != nil || string(b[:6]) != "before" {
		t.Fatalf("%q, %v", b, err)
	}
	h, err := ParseBatchHeader(b[6:])
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, VerifyBatch(&h, b[6:]), 0)
	if h.LastOffset != 4 || h.MaxTimestamp != T+1 || h.Count != 2 {
		t.Errorf("%+v", h)
	}
}

// TestRecordsCodecErrors: what a decompressor finds comes with the offsets of the batch, and keeps its kind.
func TestRecordsCodecErrors(t *testing.T) {
	plain := newBatch(t, plainHeader(100), someRecords(100, 3))
	for _, tt := range []struct {
		codec byte
		kind  abi.Kind
	}{{1, abi.Corrupt}, {2, abi.Corrupt}, {3, abi.Corrupt}, {4, abi.Corrupt}, {5, abi.Unsupported}, {7, abi.Unsupported}} {
		plain[22] = tt.codec
		_, err := Records(sealV2(plain), 0)
		wantKind(t, err, tt.kind, "offsets 100-102", Codec(tt.codec).String())
	}
	plain[22] = 0
	for _, p := range packings[1:] {
		_, err := Records(recompress(t, plain, p), 10)
		wantKind(t, err, abi.Exhausted, "offsets 100-102", "limit of 10 bytes")
	}
}
