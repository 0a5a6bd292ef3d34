package server

import (
	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// reframe gives records with those of before magic 2 in batches of magic 2, with the same offsets, timestamps, keys and
// values; nil where there are none of them. Entries that follow each other and have their timestamps from the same clock
// become one batch. What is inflated for that is taken off left: an answer ends before the entry for which there is not enough,
// and the next fetch begins with it. One that inflates to more than reframeMost by itself is an error that names it.
func reframe(records []byte, left *int64) ([]byte, error) {
	if !anyLegacy(records) {
		return nil, nil
	}
	var out []byte
	var run legacyRun
	w := format.Walk(records)
	for w.Next() {
		h := w.Header()
		if h.Magic >= 2 {
			var err error
			if out, err = run.flush(out); err != nil {
				return nil, err
			}
			out = append(out, w.Bytes()...)
			continue
		}
		recs, err := format.Records(w.Bytes(), max(*left, 1))
		if abi.KindOf(err) == abi.Exhausted && *left < reframeMost {
			return run.flush(notNil(out))
		}
		if err != nil {
			return nil, err
		}
		*left -= inflated(recs)
		if run.differs(h, recs) {
			if out, err = run.flush(out); err != nil {
				return nil, err
			}
		}
		run.add(h, recs)
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	out, err := run.flush(out)
	return append(out, w.Rest()...), err
}

// reframeMost is what one request's records may be inflated to.
const reframeMost = 32 << 20

// inflated is about what records take in memory.
func inflated(recs []format.Record) (n int64) {
	for i := range recs {
		n += int64(len(recs[i].Key)+len(recs[i].Value)) + recordBytes
	}
	return n
}

// recordBytes is what a record takes beside its key and value.
const recordBytes = 128

// notNil is b for an answer that was written anew, be it empty.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func anyLegacy(records []byte) bool {
	for w := format.Walk(records); w.Next(); {
		if w.Header().Magic < 2 {
			return true
		}
	}
	return false
}

// legacyRun is entries that will be one batch.
type legacyRun struct {
	header format.BatchHeader
	recs   []format.Record
}

// differs reports entries that can't go into the batch: of another clock, of another time where the broker's counts for
// all, or that don't come behind the others.
func (r *legacyRun) differs(h *format.BatchHeader, recs []format.Record) bool {
	if len(r.recs) == 0 || len(recs) == 0 {
		return false
	}
	return attributes(h) != r.header.Attributes || h.TimestampType() == format.LogAppendTime && recs[0].Timestamp != r.recs[0].Timestamp ||
		recs[0].Offset <= r.header.LastOffset || recs[len(recs)-1].Offset-r.header.BaseOffset > runMax
}

// runMax bounds the offsets of a batch.
const runMax = 1 << 20

func (r *legacyRun) add(h *format.BatchHeader, recs []format.Record) {
	if len(recs) == 0 {
		return
	}
	if len(r.recs) == 0 {
		first := &recs[0]
		r.header = format.BatchHeader{BaseOffset: first.Offset, Magic: 2, LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
			Attributes: attributes(h), BaseTimestamp: first.Timestamp, MaxTimestamp: first.Timestamp}
	}
	r.header.LastOffset = recs[len(recs)-1].Offset
	r.recs = append(r.recs, recs...)
}

// logAppendTime is the attribute of a batch whose timestamps are the broker's.
const logAppendTime = 1 << 3

// attributes are those of the batch that an entry goes into.
func attributes(h *format.BatchHeader) int16 {
	if h.TimestampType() == format.LogAppendTime {
		return logAppendTime
	}
	return 0
}

func (r *legacyRun) flush(dst []byte) ([]byte, error) {
	if len(r.recs) == 0 {
		return dst, nil
	}
	dst, err := format.AppendBatch(dst, r.header, r.recs)
	*r = legacyRun{}
	return dst, err
}
