package format

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// AppendBatch appends to dst an uncompressed batch of magic 2 with these records. Of h it takes BaseOffset,
// LeaderEpoch, Attributes, LastOffset, the timestamps and the producer fields as they are; it sets magic, length, count
// and CRC. LastOffset and, under CreateTime, MaxTimestamp are raised to what the records have.
//
// A codec in the attributes, a record outside of the batch's offsets and a batch above 2 GiB are INVALID.
func AppendBatch(dst []byte, h BatchHeader, recs []Record) ([]byte, error) {
	if h.Codec() != CodecNone {
		return nil, invalid(h.name(), "codec %s: only uncompressed batches can be written", h.Codec())
	}
	h.cover(recs)
	if h.BaseOffset < 0 || h.LastOffset < h.BaseOffset || h.LastOffset-h.BaseOffset > math.MaxInt32 {
		return nil, invalid(h.name(), "these offsets make no batch")
	}
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSizeV2)...)
	for i := range recs {
		if recs[i].Offset < h.BaseOffset {
			return nil, invalid(h.name(), "a record has offset %d", recs[i].Offset)
		}
		dst = appendRecord(dst, &h, &recs[i])
	}
	length := len(dst) - start - lengthEnd
	if length > math.MaxInt32 {
		return nil, invalid(h.name(), "it has %d bytes", length)
	}
	h.Length, h.Count = int32(length), int32(len(recs))
	h.put(dst[start:])
	binary.BigEndian.PutUint32(dst[start+17:], crc32.Checksum(dst[start+crcStartV2:], castagnoli))
	return dst, nil
}

// cover raises what the header says about its records to what they have.
func (h *BatchHeader) cover(recs []Record) {
	h.Magic = 2
	for i := range recs {
		h.LastOffset = max(h.LastOffset, recs[i].Offset)
		if h.TimestampType() == CreateTime {
			h.MaxTimestamp = max(h.MaxTimestamp, recs[i].Timestamp)
		}
	}
}

// put writes the header, but for the CRC.
func (h *BatchHeader) put(b []byte) {
	_ = b[HeaderSizeV2-1]
	binary.BigEndian.PutUint64(b, uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[8:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[12:], uint32(h.LeaderEpoch))
	b[16] = byte(h.Magic)
	binary.BigEndian.PutUint16(b[21:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[23:], uint32(h.LastOffset-h.BaseOffset))
	binary.BigEndian.PutUint64(b[27:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[35:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[43:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[51:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[53:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[57:], uint32(h.Count))
}

func appendRecord(dst []byte, h *BatchHeader, r *Record) []byte {
	body := []byte{0} // attributes
	body = binary.AppendVarint(body, r.Timestamp-h.BaseTimestamp)
	body = binary.AppendVarint(body, r.Offset-h.BaseOffset)
	body = appendNullable(body, r.Key)
	body = appendNullable(body, r.Value)
	body = binary.AppendVarint(body, int64(len(r.Headers)))
	for _, hd := range r.Headers {
		body = binary.AppendVarint(body, int64(len(hd.Key)))
		body = append(body, hd.Key...)
		body = appendNullable(body, hd.Value)
	}
	dst = binary.AppendVarint(dst, int64(len(body)))
	return append(dst, body...)
}

// appendNullable writes length and bytes, with -1 for null. Go's varints are zigzag as Kafka's are.
func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}
