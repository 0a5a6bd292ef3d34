package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/rsmhost/rsmhost/abi"
)

// T is the time of the spec's vectors.
const T = 1700000000000

// unhex reads hex with spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantKind demands an *abi.Error of this kind, 0 for none, whose text has every one of words.
func wantKind(t testing.TB, err error, kind abi.Kind, words ...string) {
	t.Helper()
	if abi.KindOf(err) != kind {
		t.Fatalf("error %v, kind %v, want kind %v", err, abi.KindOf(err), kind)
	}
	if _, ok := err.(*abi.Error); err != nil && !ok {
		t.Fatalf("error %v is a %T, not an *abi.Error", err, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// packing is a codec as one kind of producer uses it.
type packing struct {
	name  string
	codec Codec
	pack  func(testing.TB, []byte) []byte
}

var packings = []packing{
	{"none", CodecNone, func(_ testing.TB, b []byte) []byte { return b }},
	{"gzip", CodecGzip, packGzip},
	{"snappy/xerial", CodecSnappy, packXerial},
	{"snappy/raw", CodecSnappy, func(_ testing.TB, b []byte) []byte { return snappy.Encode(nil, b) }},
	{"lz4", CodecLZ4, packLZ4},
	{"lz4/dependent blocks and checksums", CodecLZ4, packLZ4Rich},
	{"zstd", CodecZstd, packZstd},
	{"zstd/streamed", CodecZstd, packZstdStream},
}

func packGzip(t testing.TB, b []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	closed(t, w, b)
	return buf.Bytes()
}

// packXerial cuts into small blocks, so that there are many.
func packXerial(_ testing.TB, b []byte) []byte {
	out := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(b) > 0 {
		n := min(len(b), 100)
		block := snappy.Encode(nil, b[:n])
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
		b = b[n:]
	}
	return out
}

func packLZ4(t testing.TB, b []byte) []byte {
	return lz4With(t, b, lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
}

func packLZ4Rich(t testing.TB, b []byte) []byte {
	return lz4With(t, b, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(b))))
}

func lz4With(t testing.TB, b []byte, o ...lz4.Option) []byte {
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if err := w.Apply(o...); err != nil {
		t.Fatal(err)
	}
	closed(t, w, b)
	return buf.Bytes()
}

func packZstd(t testing.TB, b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func packZstdStream(t testing.TB, b []byte) []byte {
	var buf bytes.Buffer
	w, err := zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		t.Fatal(err)
	}
	closed(t, w, b)
	return buf.Bytes()
}

func closed(t testing.TB, w interface {
	Write([]byte) (int, error)
	Close() error
}, b []byte) {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// breakLZ4Header puts the checksum that Kafka's first writer made: over the frame's magic too.
func breakLZ4Header(frame []byte) []byte {
	out := bytes.Clone(frame)
	end := 6
	if out[4]&0x08 != 0 { // content size
		end += 8
	}
	sum := byte(xxh32(out[:end]) >> 8)
	if sum == out[end] {
		sum++ // the wrong one is the right one by chance
	}
	out[end] = sum
	return out
}

// recompress makes a batch of AppendBatch a compressed one.
func recompress(t testing.TB, batch []byte, p packing) []byte {
	t.Helper()
	payload := p.pack(t, batch[HeaderSizeV2:])
	out := append(bytes.Clone(batch[:HeaderSizeV2]), payload...)
	out[22] = out[22]&^attrCodec | byte(p.codec)
	return sealV2(out)
}

// sealV2 sets length and CRC after something was changed.
func sealV2(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[crcStartV2:], castagnoli))
	return b
}

// legacyEntry writes one entry of magic 0 or 1.
func legacyEntry(magic, attrs byte, offset, ts int64, key, value []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = append(b, make([]byte, 8)...) // length, CRC
	b = append(b, magic, attrs)
	if magic == 1 {
		b = binary.BigEndian.AppendUint64(b, uint64(ts))
	}
	for _, f := range [][]byte{key, value} {
		n := int32(len(f))
		if f == nil {
			n = -1
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(n)), f...)
	}
	return sealLegacy(b)
}

func sealLegacy(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[crcStartV0:]))
	return b
}

// legacyWrapper compresses records, whose offsets are absolute, into one entry.
func legacyWrapper(t testing.TB, magic byte, p packing, recs []Record) []byte {
	t.Helper()
	var inner []byte
	maxTs := int64(-1)
	for _, r := range recs {
		offset := r.Offset
		if magic == 1 {
			offset -= recs[0].Offset
		}
		inner = append(inner, legacyEntry(magic, 0, offset, r.Timestamp, r.Key, r.Value)...)
		maxTs = max(maxTs, r.Timestamp)
	}
	packed := p.pack(t, inner)
	if magic == 0 && p.codec == CodecLZ4 {
		packed = breakLZ4Header(packed)
	}
	return legacyEntry(magic, byte(p.codec), recs[len(recs)-1].Offset, maxTs, nil, packed)
}

// someRecords are n records of many shapes from an offset on, as magic 2 holds them.
func someRecords(base int64, n int) []Record {
	recs := make([]Record, n)
	for i := range recs {
		r := &recs[i]
		*r = Record{Offset: base + int64(i), Timestamp: T + int64(i), TimestampType: CreateTime, LeaderEpoch: 5}
		r.Key = []byte(fmt.Sprintf("key-%d", i))
		r.Value = bytes.Repeat([]byte(fmt.Sprintf("value %d ", i)), 10)
		switch i % 5 {
		case 1:
			r.Key, r.Headers = nil, []Header{{"h", []byte{9}}, {"", nil}, {"ключ", []byte{}}}
		case 2:
			r.Value = nil
		case 3:
			r.Key, r.Value = []byte{}, []byte{}
		}
	}
	return recs
}

// asLegacy is what magic 0 or 1 keeps of records.
func asLegacy(recs []Record, magic byte) []Record {
	out := make([]Record, len(recs))
	for i, r := range recs {
		out[i] = Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, LeaderEpoch: -1}
		if magic == 0 {
			out[i].Timestamp, out[i].TimestampType = -1, NoTimestampType
		}
	}
	return out
}

// newBatch is an uncompressed batch of records that must be fine.
func newBatch(t testing.TB, h BatchHeader, recs []Record) []byte {
	t.Helper()
	b, err := AppendBatch(nil, h, recs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plainHeader is the header of a batch without a producer.
func plainHeader(base int64) BatchHeader {
	return BatchHeader{BaseOffset: base, LastOffset: base, LeaderEpoch: 5, BaseTimestamp: T, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
}
