package format

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Sizes in bytes of the parts of a batch (KIP-98; Kafka's DefaultRecordBatch and LegacyRecord).
const (
	PeekSize       = 17 // what it takes to know a batch's size and magic
	HeaderSizeV2   = 61 // a whole header of magic 2
	MinBatchLength = 14 // the smallest legal length field, that of an empty record of magic 0

	headerSizeV1 = 26 // offset, length, CRC, magic, attributes, timestamp
	headerSizeV0 = 18 // the same without timestamp
	lengthEnd    = 12 // where the length field ends: it counts the bytes from here
	crcStartV2   = 21 // what magic 2 puts under the CRC begins here
	crcStartV0   = 16 // the same of magic 0 and 1

	minLengthV2 = HeaderSizeV2 - lengthEnd
	minLengthV1 = 22
)

// Bits of a batch's attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// TimestampType says what the timestamps of a batch mean (KIP-32).
type TimestampType int8

// The timestamp types.
const (
	NoTimestampType TimestampType = -1 // magic 0 has no timestamps
	CreateTime      TimestampType = 0  // set by the producer
	LogAppendTime   TimestampType = 1  // set by the broker on append
)

// String is Kafka's name of the type.
func (t TimestampType) String() string {
	switch t {
	case NoTimestampType:
		return "NoTimestampType"
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	}
	return fmt.Sprintf("TimestampType(%d)", int8(t))
}

// BatchHeader is the header of a record batch of magic 2 (KIP-98), or of an entry of magic 0 or 1, which is one record
// or a wrapper around compressed ones.
type BatchHeader struct {
	BaseOffset    int64 // inclusive. Legacy: the entry's offset field, hence LastOffset; see LegacyBaseOffset
	Length        int32 // the length field: bytes after the first 12
	Magic         int8
	LeaderEpoch   int32 // -1: legacy
	CRC           uint32
	Attributes    int16
	LastOffset    int64 // inclusive; compaction keeps it though the record may be gone
	BaseTimestamp int64 // milliseconds; the delete horizon if attribute bit 6 is set. Magic 1: the timestamp; magic 0: -1
	MaxTimestamp  int64 // milliseconds; magic 1: the timestamp; magic 0: -1
	ProducerID    int64 // -1: none, and legacy
	ProducerEpoch int16 // -1: none, and legacy
	BaseSequence  int32 // -1: none, and legacy
	Count         int32 // records, 0 for a batch that compaction emptied; -1: legacy, not known without decompression
}

// Size is the size of the whole batch in bytes.
func (h *BatchHeader) Size() int64 { return lengthEnd + int64(h.Length) }

// Codec is the compression of the records.
func (h *BatchHeader) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// IsTransactional reports a batch that is part of a transaction, its markers included.
func (h *BatchHeader) IsTransactional() bool {
	return h.Magic >= 2 && h.Attributes&attrTransactional != 0
}

// IsControl reports a batch that holds a marker and is never delivered to an application.
func (h *BatchHeader) IsControl() bool { return h.Magic >= 2 && h.Attributes&attrControl != 0 }

// TimestampType says what the timestamps mean.
func (h *BatchHeader) TimestampType() TimestampType {
	switch {
	case h.Magic == 0:
		return NoTimestampType
	case h.Attributes&attrLogAppendTime != 0:
		return LogAppendTime
	}
	return CreateTime
}

// name is the batch in errors.
func (h *BatchHeader) name() string {
	return fmt.Sprintf("batch of offsets %d-%d", h.BaseOffset, h.LastOffset)
}

// NeedHeader says how many bytes ParseBatchHeader needs, given the first PeekSize bytes or more. It is PeekSize where a
// magic that is not known makes more bytes useless.
func NeedHeader(peek []byte) int {
	switch int8(peek[PeekSize-1]) {
	case 0:
		return headerSizeV0
	case 1:
		return headerSizeV1
	case 2:
		return HeaderSizeV2
	}
	return PeekSize
}

// ParseBatchHeader parses the header at the start of b, which may end anywhere after it.
//
// Errors: io.ErrUnexpectedEOF when b is shorter than PeekSize or NeedHeader; CORRUPT for a length below the minimum of
// the magic, a magic that is not known, and negative offsets or a negative last offset delta. It does not look at the
// CRC (VerifyBatch does).
func ParseBatchHeader(b []byte) (BatchHeader, error) {
	if len(b) < PeekSize {
		return BatchHeader{}, io.ErrUnexpectedEOF
	}
	h := BatchHeader{
		BaseOffset: int64(binary.BigEndian.Uint64(b)),
		Length:     int32(binary.BigEndian.Uint32(b[8:])),
		Magic:      int8(b[16]),
	}
	if err := h.checkPeek(); err != nil {
		return BatchHeader{}, err
	}
	if len(b) < NeedHeader(b) {
		return BatchHeader{}, io.ErrUnexpectedEOF
	}
	if h.Magic < 2 {
		h.legacy(b)
		return h, nil
	}
	if err := h.v2(b); err != nil {
		return BatchHeader{}, err
	}
	return h, nil
}

// checkPeek checks what the first 17 bytes tell, so that a damaged length is found before anyone waits for its bytes.
func (h *BatchHeader) checkPeek() error {
	least := int32(MinBatchLength)
	switch h.Magic {
	case 0:
	case 1:
		least = minLengthV1
	case 2:
		least = minLengthV2
	default:
		return corrupt(fmt.Sprintf("batch at offset %d", h.BaseOffset), "magic %d is not 0, 1 or 2", h.Magic)
	}
	if h.Length < least {
		return corrupt(fmt.Sprintf("batch at offset %d", h.BaseOffset),
			"length %d is below %d, the least that magic %d needs", h.Length, least, h.Magic)
	}
	if h.BaseOffset < 0 {
		return corrupt("batch", "its offset is %d", h.BaseOffset)
	}
	return nil
}

func (h *BatchHeader) v2(b []byte) error {
	_ = b[HeaderSizeV2-1]
	h.LeaderEpoch = int32(binary.BigEndian.Uint32(b[12:]))
	h.CRC = binary.BigEndian.Uint32(b[17:])
	h.Attributes = int16(binary.BigEndian.Uint16(b[21:]))
	delta := int32(binary.BigEndian.Uint32(b[23:]))
	h.LastOffset = h.BaseOffset + int64(delta)
	h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[27:]))
	h.MaxTimestamp = int64(binary.BigEndian.Uint64(b[35:]))
	h.ProducerID = int64(binary.BigEndian.Uint64(b[43:]))
	h.ProducerEpoch = int16(binary.BigEndian.Uint16(b[51:]))
	h.BaseSequence = int32(binary.BigEndian.Uint32(b[53:]))
	h.Count = int32(binary.BigEndian.Uint32(b[57:]))
	if delta < 0 || h.BaseOffset > math.MaxInt64-int64(delta) {
		return corrupt(fmt.Sprintf("batch at offset %d", h.BaseOffset), "last offset delta is %d", delta)
	}
	return nil
}

func (h *BatchHeader) legacy(b []byte) {
	h.LastOffset = h.BaseOffset
	h.LeaderEpoch, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.Count = -1, -1, -1, -1, -1
	h.CRC = binary.BigEndian.Uint32(b[12:])
	h.Attributes = int16(b[17])
	h.BaseTimestamp = -1
	if h.Magic == 1 {
		h.BaseTimestamp = int64(binary.BigEndian.Uint64(b[18:]))
	}
	h.MaxTimestamp = h.BaseTimestamp
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VerifyBatch checks the CRC of the batch at the start of b, whose header is h: CRC-32C for magic 2, IEEE for legacy.
// It covers neither the offset nor the leader epoch, which the broker sets. A mismatch, and a b that is shorter than
// the batch, are CORRUPT and name the offsets.
func VerifyBatch(h *BatchHeader, b []byte) error {
	size := h.Size()
	if int64(len(b)) < size {
		return corrupt(h.name(), "it is cut: %d bytes of %d", len(b), size)
	}
	sum := uint32(0)
	if h.Magic < 2 {
		sum = crc32.ChecksumIEEE(b[crcStartV0:size])
	} else {
		sum = crc32.Checksum(b[crcStartV2:size], castagnoli)
	}
	return h.verify(sum)
}

// VerifyFrom is VerifyBatch for a batch that is not in memory: it begins at offset 0 of r, and is read piece by piece. An error
// may be r's.
func VerifyFrom(h *BatchHeader, r io.ReaderAt) error {
	sum, from := crc32.New(castagnoli), int64(crcStartV2)
	if h.Magic < 2 {
		sum, from = crc32.NewIEEE(), crcStartV0
	}
	n, err := io.Copy(sum, io.NewSectionReader(r, from, h.Size()-from))
	if err != nil {
		return err
	}
	if n += from; n < h.Size() {
		return corrupt(h.name(), "it is cut: %d bytes of %d", n, h.Size())
	}
	return h.verify(sum.Sum32())
}

// verify holds a batch against the sum of its bytes.
func (h *BatchHeader) verify(sum uint32) error {
	if sum != h.CRC {
		return corrupt(h.name(), "CRC is %08x, the batch says %08x (magic %d, %d bytes)", sum, h.CRC, h.Magic, h.Size())
	}
	return nil
}
