package format

import "fmt"

// entry is one record of magic 0 or 1, or the wrapper around compressed ones (Kafka's LegacyRecord).
//
//	offset i64 | length i32 | CRC i32 | magic i8 | attributes i8 | timestamp i64, magic 1 only | key | value
type entry struct {
	BatchHeader
	key, value []byte
}

// readEntry reads the whole entry at c.
func (c *cursor) readEntry() entry {
	start := c.pos
	h, err := ParseBatchHeader(c.b[start:])
	switch {
	case err != nil:
		c.failAt(start, "an entry that is no record: %v", err)
		return entry{}
	case h.Magic > 1:
		c.failAt(start, "a record of magic %d among older ones", h.Magic)
		return entry{}
	case h.Size() > int64(c.left()):
		c.failAt(start, "an entry of %d bytes, %d are left", h.Size(), c.left())
		return entry{}
	}
	all := c.b
	c.b = all[:start+int(h.Size())]
	c.pos += NeedHeader(c.b[start:])
	e := entry{BatchHeader: h}
	e.key = c.nullable(int64(c.i32("key length")), "key")
	e.value = c.nullable(int64(c.i32("value length")), "value")
	c.end("the value")
	c.b = all
	return e
}

// record is the entry as a record at this offset. The wrapper's kind of time holds for what it wraps: if the broker set
// it, the inner ones are whatever the producer wrote.
func (e *entry) record(offset int64, wrapper *BatchHeader) Record {
	r := Record{Offset: offset, Timestamp: e.BaseTimestamp, Key: e.key, Value: e.value, LeaderEpoch: -1}
	r.TimestampType = e.TimestampType()
	if e.Magic == 1 {
		r.TimestampType = wrapper.TimestampType()
	}
	if r.TimestampType == LogAppendTime {
		r.Timestamp = wrapper.MaxTimestamp
	}
	return r
}

func legacyRecords(h *BatchHeader, b []byte, maxDecoded int64) ([]Record, error) {
	c := cursor{b: b}
	outer := c.readEntry()
	if !c.ok() {
		return nil, c.err(h.name())
	}
	if h.Codec() == CodecNone {
		return []Record{outer.record(outer.LastOffset, h)}, nil
	}
	inner, err := unwrap(h, outer.value, maxDecoded)
	if err != nil {
		return nil, err
	}
	base, err := innerBase(h, inner)
	if err != nil {
		return nil, err
	}
	recs := make([]Record, len(inner))
	for i := range inner {
		recs[i] = inner[i].record(base+inner[i].LastOffset, h)
	}
	return recs, nil
}

// unwrap gives the entries in a wrapper's value. There is at least one.
func unwrap(h *BatchHeader, value []byte, maxDecoded int64) ([]entry, error) {
	if value == nil {
		return nil, corrupt(h.name(), "a wrapper of %s whose value is null", h.Codec())
	}
	data, err := Decompress(h.Codec(), h.Magic, value, maxDecoded)
	if err != nil {
		return nil, within(h, err)
	}
	var inner []entry
	c := cursor{b: data}
	for c.ok() && c.left() > 0 {
		at := c.pos
		e := c.readEntry()
		if c.ok() && (e.Magic != h.Magic || e.Codec() != CodecNone) {
			c.failAt(at, "magic %d, codec %s inside a wrapper of magic %d", e.Magic, e.Codec(), h.Magic)
		}
		inner = append(inner, e)
	}
	if !c.ok() {
		return nil, c.err(fmt.Sprintf("%s, decompressed", h.name()))
	}
	if len(inner) == 0 {
		return nil, corrupt(h.name(), "a wrapper of %s without records", h.Codec())
	}
	return inner, nil
}

// innerBase is what to add to the offsets inside a wrapper. Magic 0 has absolute ones. Magic 1 counts from 0 and the
// wrapper has the offset of the last (KIP-31), so that the broker need not recompress; 0 there is what some clients
// send, and Kafka then takes the inner offsets as they are.
func innerBase(h *BatchHeader, inner []entry) (int64, error) {
	if h.Magic == 0 || h.LastOffset == 0 {
		return 0, nil
	}
	last := inner[len(inner)-1].LastOffset
	if last > h.LastOffset {
		return 0, corrupt(h.name(), "its last relative offset is %d, more than its own", last)
	}
	return h.LastOffset - last, nil
}

// LegacyBaseOffset gives the true base offset, inclusive, of the one entry of magic 0 or 1 at the start of b: its first
// inner record's, for which a wrapper must be decompressed. Of magic 2 it gives the base offset. Errors as Records.
func LegacyBaseOffset(b []byte) (int64, error) {
	h, err := ParseBatchHeader(b)
	if err != nil {
		return 0, cutBatch(err, len(b))
	}
	if h.Magic >= 2 || h.Codec() == CodecNone {
		return h.BaseOffset, nil
	}
	recs, err := Records(b, 0)
	if err != nil {
		return 0, err
	}
	return recs[0].Offset, nil
}
