package format

import (
	"io"

	"github.com/rsmhost/rsmhost/abi"
)

// Header is a header of a record (KIP-82).
type Header struct {
	Key   string
	Value []byte // nil: null
}

// Record is one record of a batch of any magic.
type Record struct {
	Offset        int64
	Timestamp     int64 // milliseconds; -1: magic 0
	TimestampType TimestampType
	Key, Value    []byte // nil: null; an empty one is not nil
	Headers       []Header
	LeaderEpoch   int32 // of the batch; -1: legacy
}

// minRecordSize is the size of the least record of magic 2: seven fields of one byte.
const minRecordSize = 7

// maxUnproven is how many records or headers get room because a count says so; for more they must be there. A batch
// rarely has more records, a record never has more headers.
const maxUnproven = 1024

// Records decodes every record of the one batch at the start of b, of any magic and codec, its control records
// included. Keys and values may point into b. maxDecoded bounds the decompressed bytes (0: DefaultMaxDecoded). It does
// not check the CRC; call VerifyBatch before.
//
// Errors: CORRUPT, EXHAUSTED and UNSUPPORTED as Decompress has them; CORRUPT for a cut batch and for records that do
// not fit the header.
func Records(b []byte, maxDecoded int64) ([]Record, error) {
	h, err := ParseBatchHeader(b)
	if err != nil {
		return nil, cutBatch(err, len(b))
	}
	if int64(len(b)) < h.Size() {
		return nil, corrupt(h.name(), "it is cut: %d bytes of %d", len(b), h.Size())
	}
	b = b[:h.Size():h.Size()]
	if h.Magic < 2 {
		return legacyRecords(&h, b, maxDecoded)
	}
	return recordsV2(&h, b[HeaderSizeV2:], maxDecoded)
}

func recordsV2(h *BatchHeader, payload []byte, maxDecoded int64) ([]Record, error) {
	if h.Count == 0 && len(payload) == 0 {
		return nil, nil // emptied by compaction, whatever its codec
	}
	payload, err := Decompress(h.Codec(), h.Magic, payload, maxDecoded)
	if err != nil {
		return nil, within(h, err)
	}
	if int64(h.Count) > int64(len(payload)/minRecordSize) || h.Count < 0 {
		return nil, corrupt(h.name(), "%d records cannot stand in %d bytes", h.Count, len(payload))
	}
	c := cursor{b: payload}
	recs := make([]Record, 0, min(h.Count, maxUnproven))
	for i := range int(h.Count) {
		if recs = append(recs, c.record(h)); !c.ok() {
			return nil, recordError(h, i, &c)
		}
	}
	if c.end("the last record"); !c.ok() {
		return nil, recordError(h, len(recs), &c)
	}
	return recs, nil
}

// recordError places a fault: positions are those in the records after decompression.
func recordError(h *BatchHeader, i int, c *cursor) error {
	return corrupt(h.name(), "record %d of %d, byte %d of its %d bytes of records (codec %s): %s",
		i, h.Count, c.at, len(c.b), h.Codec(), c.bad)
}

// record reads one record of magic 2.
func (c *cursor) record(h *BatchHeader) Record {
	n := c.varint("the record's length")
	if n < 0 || n > int64(c.left()) {
		c.failAt(c.pos, "the record's length is %d, %d bytes are left", n, c.left())
		return Record{}
	}
	all, start := c.b, c.pos
	c.b = all[: start+int(n) : start+int(n)] // nothing in the record may reach past its end
	r := c.recordBody(h)
	c.end("the record's headers")
	c.b = all
	return r
}

func (c *cursor) recordBody(h *BatchHeader) Record {
	c.i8("attributes")
	r := Record{TimestampType: h.TimestampType(), LeaderEpoch: h.LeaderEpoch}
	r.Timestamp = h.BaseTimestamp + c.varlong("timestamp delta")
	if r.TimestampType == LogAppendTime {
		r.Timestamp = h.MaxTimestamp
	}
	at := c.pos
	delta := c.varint("offset delta")
	if delta < 0 || delta > h.LastOffset-h.BaseOffset {
		c.failAt(at, "offset delta %d is outside the batch", delta)
	}
	r.Offset = h.BaseOffset + delta
	r.Key = c.nullable(c.varint("key length"), "key")
	r.Value = c.nullable(c.varint("value length"), "value")
	r.Headers = c.headers()
	return r
}

func (c *cursor) headers() []Header {
	at := c.pos
	n := c.varint("header count")
	if n < 0 || n > int64(c.left()/2) { // a header is two lengths at least
		c.failAt(at, "%d headers cannot stand in %d bytes", n, c.left())
		return nil
	}
	if n == 0 {
		return nil
	}
	hs := make([]Header, 0, min(n, maxUnproven))
	for i := range n {
		key := c.nullable(c.varint("header key length"), "header key")
		if key == nil {
			c.failAt(c.pos, "header %d has no key", i)
		}
		hs = append(hs, Header{Key: string(key), Value: c.nullable(c.varint("header value length"), "header value")})
		if !c.ok() {
			return nil
		}
	}
	return hs
}

// within says in which batch the compressed data is that err is about.
func within(h *BatchHeader, err error) error {
	e := abi.AsError(op, "", err)
	return &abi.Error{Op: op, Subject: h.name(), Kind: e.Kind, Err: e}
}

// cutBatch makes an *abi.Error of the bare error that ParseBatchHeader has for readers of streams.
func cutBatch(err error, n int) error {
	if err == io.ErrUnexpectedEOF {
		return corrupt("batch", "its header is cut: %d bytes", n)
	}
	return err
}
