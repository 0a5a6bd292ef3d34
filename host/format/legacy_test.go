package format

import (
	"bytes"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// gzipPacking is the packing of the spec's vector of a wrapper.
var gzipPacking = packings[1]

// TestLegacyVectors are those of section 6.3 that have no fixed bytes, and the plain ones.
func TestLegacyVectors(t *testing.T) {
	recs := asLegacy([]Record{{Offset: 20, Timestamp: T, Value: []byte("a")}, {Offset: 21, Timestamp: T + 1, Value: []byte("b")}}, 1)
	checkLegacy(t, legacyWrapper(t, 1, gzipPacking, recs), recs)
	checkLegacy(t, unhex(t, hexV1), batchVectors[3].recs)
	checkLegacy(t, unhex(t, hexV0), batchVectors[4].recs)
	if base, err := LegacyBaseOffset(unhex(t, hexTwoRecords)); err != nil || base != 100 {
		t.Errorf("magic 2: %d, %v", base, err)
	}
}

// TestLegacyCompacted: holes in the inner offsets, relative ones counted from the first that ever was.
func TestLegacyCompacted(t *testing.T) {
	inner := append(legacyEntry(1, 0, 2, T, nil, []byte("a")), legacyEntry(1, 0, 5, T+1, nil, []byte("b"))...)
	b := legacyEntry(1, byte(CodecGzip), 105, T+1, nil, packGzip(t, inner))
	checkLegacy(t, b, asLegacy([]Record{{Offset: 102, Timestamp: T, Value: []byte("a")}, {Offset: 105, Timestamp: T + 1, Value: []byte("b")}}, 1))
}

// TestLegacyLogAppendTime: the wrapper's time holds for all within.
func TestLegacyLogAppendTime(t *testing.T) {
	inner := append(legacyEntry(1, 0, 0, T, nil, []byte("a")), legacyEntry(1, 0, 1, T+1, nil, []byte("b"))...)
	b := legacyEntry(1, byte(CodecGzip)|attrLogAppendTime, 21, T+500, nil, packGzip(t, inner))
	recs, err := Records(b, 0)
	if err != nil || len(recs) != 2 {
		t.Fatal(recs, err)
	}
	for i, r := range recs {
		if r.Timestamp != T+500 || r.TimestampType != LogAppendTime || r.Offset != int64(20+i) {
			t.Errorf("%+v", r)
		}
	}
	recs, err = Records(legacyEntry(1, attrLogAppendTime, 3, T, nil, nil), 0)
	if err != nil || recs[0].TimestampType != LogAppendTime || recs[0].Timestamp != T || recs[0].Key != nil || recs[0].Value != nil {
		t.Errorf("%+v, %v", recs, err)
	}
}

// TestLegacyWrapperOffsetZero: some clients leave 0, and Kafka takes the inner offsets as they are.
func TestLegacyWrapperOffsetZero(t *testing.T) {
	inner := append(legacyEntry(1, 0, 0, T, nil, []byte("a")), legacyEntry(1, 0, 1, T, nil, []byte("b"))...)
	recs, err := Records(legacyEntry(1, byte(CodecGzip), 0, T, nil, packGzip(t, inner)), 0)
	if err != nil || len(recs) != 2 || recs[0].Offset != 0 || recs[1].Offset != 1 {
		t.Errorf("%+v, %v", recs, err)
	}
}

func TestLegacyDamaged(t *testing.T) {
	one := legacyEntry(1, 0, 0, T, nil, []byte("a"))
	wrap := func(codec Codec, inner []byte) []byte { return legacyEntry(1, byte(codec), 30, T, nil, inner) }
	nullValue := legacyEntry(1, byte(CodecGzip), 30, T, nil, nil)
	keyTooLong := legacyEntry(1, 0, 30, T, []byte("kk"), []byte("v"))
	keyTooLong[29] = 200
	valueTooShort := sealLegacy(append(legacyEntry(1, 0, 30, T, nil, []byte("v")), 'x'))
	tests := []struct {
		name string
		b    []byte
		kind abi.Kind
		want string
	}{
		{"null wrapper", nullValue, abi.Corrupt, "value is null"},
		{"empty wrapper", wrap(CodecGzip, packGzip(t, nil)), abi.Corrupt, "without records"},
		{"no gzip", wrap(CodecGzip, []byte("nothing of the kind")), abi.Corrupt, "gzip"},
		{"zstd", wrap(CodecZstd, packZstd(t, one)), abi.Corrupt, "no zstd"},
		{"codec 5", wrap(5, one), abi.Unsupported, "codec(5)"},
		{"other magic inside", wrap(CodecGzip, packGzip(t, legacyEntry(0, 0, 0, 0, nil, nil))), abi.Corrupt, "byte 0: magic 0, codec none inside a wrapper of magic 1"},
		{"magic 2 inside", wrap(CodecGzip, packGzip(t, append(bytes.Clone(one), unhex(t, hexTxn)...))), abi.Corrupt, "byte 35: a record of magic 2"},
		{"wrapper inside", wrap(CodecGzip, packGzip(t, wrap(CodecGzip, nil))), abi.Corrupt, "codec gzip inside"},
		{"cut inside", wrap(CodecGzip, packGzip(t, one[:len(one)-1])), abi.Corrupt, "an entry of 35 bytes, 34 are left"},
		{"cut header inside", wrap(CodecGzip, packGzip(t, one[:20])), abi.Corrupt, "unexpected EOF"},
		{"relative offset above wrapper's", wrap(CodecGzip, packGzip(t, legacyEntry(1, 0, 31, T, nil, nil))), abi.Corrupt, "relative offset is 31"},
		{"key too long", keyTooLong, abi.Corrupt, "key has length 200"},
		{"bytes after the value", valueTooShort, abi.Corrupt, "1 bytes left after the value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Records(tt.b, 0)
			wantKind(t, err, tt.kind, tt.want, "offsets 30-30")
			if tt.b[17]&attrCodec != 0 {
				_, err = LegacyBaseOffset(tt.b)
				wantKind(t, err, tt.kind)
			}
		})
	}
}
