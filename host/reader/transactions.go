package reader

import (
	"slices"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/internal/planted"
)

// openTxn is a transaction with records in an answer and no marker behind them yet.
type openTxn struct {
	producer int64
	first    int64 // base offset of its first batch in the answer
	before   int64 // offset of the producer's marker before it in the answer; -1: there is none
}

// endedTxn is a transaction that was aborted.
type endedTxn struct {
	openTxn
	last int64 // offset of its marker
}

// transactions is what the batches of one answer tell of the transactions that they belong to, while they are taken in their
// order. What matters to a client is the data that it gets: a transaction begins for it with its first batch in the answer.
// The zero value is good.
type transactions struct {
	open    []openTxn  // undecided at the end of the answer, by first offset
	aborted []endedTxn // with data in the answer
	others  []endedTxn // aborts, in the answer, of transactions without data in it
	data    []openTxn  // of each producer the last batch of data
	ends    []openTxn  // of each producer the last marker
}

// none reports an answer without any transactional batch.
func (t *transactions) none() bool { return len(t.data) == 0 && len(t.others) == 0 }

// saw takes in the next batch. read gives the bytes of a marker, and is asked for nothing else.
func (t *transactions) saw(h *format.BatchHeader, read func() ([]byte, error)) error {
	i := slices.IndexFunc(t.open, func(o openTxn) bool { return o.producer == h.ProducerID })
	if !h.IsControl() {
		if i < 0 {
			t.open = append(t.open, openTxn{h.ProducerID, h.BaseOffset, t.endBefore(h.ProducerID)})
		}
		t.data = saw(t.data, h)
		return nil
	}
	b, err := read()
	if err != nil {
		return err
	}
	abort, ends, err := format.EndOfTransaction(b)
	switch {
	case err != nil || !ends:
		return err
	case i >= 0 && abort:
		t.aborted = append(t.aborted, endedTxn{t.open[i], h.BaseOffset})
	case abort:
		t.others = append(t.others, endedTxn{openTxn{h.ProducerID, h.BaseOffset, t.endBefore(h.ProducerID)}, h.BaseOffset})
	}
	t.ends = saw(t.ends, h)
	if i >= 0 {
		t.open = slices.Delete(t.open, i, i+1)
	}
	return nil
}

// saw notes a batch as the last one of its producer.
func saw(last []openTxn, h *format.BatchHeader) []openTxn {
	i := slices.IndexFunc(last, func(o openTxn) bool { return o.producer == h.ProducerID })
	if i < 0 {
		i, last = len(last), append(last, openTxn{producer: h.ProducerID, before: -1})
	}
	last[i].first = h.BaseOffset
	return last
}

// endBefore is the offset of a producer's last marker in the answer, -1 where there is none: what it writes next begins behind it.
func (t *transactions) endBefore(producer int64) int64 {
	if i := slices.IndexFunc(t.ends, func(o openTxn) bool { return o.producer == producer }); i >= 0 {
		return t.ends[i].first
	}
	return -1
}

// hasData reports data of a producer in the answer at or above offset.
func (t *transactions) hasData(producer, offset int64) bool {
	return slices.ContainsFunc(t.data, func(o openTxn) bool { return o.producer == producer && o.first >= offset })
}

// clone is a copy that can be thrown away.
func (t *transactions) clone() transactions {
	return transactions{slices.Clone(t.open), slices.Clone(t.aborted), slices.Clone(t.others), slices.Clone(t.data), slices.Clone(t.ends)}
}

// tracks says whether a batch matters to the list of aborted transactions of an answer.
func (r *Reader) tracks(rd *read, h *format.BatchHeader) bool {
	return h.IsTransactional() && rd.iso == locality.ReadCommitted && r.policy.ExactAborted && !planted.NoTxnIndex
}

// markerOf reads the batch of a local segment that begins at pos.
func markerOf(s *locallog.Segment, h *format.BatchHeader, pos int64) func() ([]byte, error) {
	return func() ([]byte, error) {
		b := &locallog.Batch{BatchHeader: *h, Segment: s, Pos: pos}
		bytes, err := b.Bytes()
		if err != nil {
			return nil, err
		}
		return bytes, format.VerifyBatch(h, bytes)
	}
}

// producerOf is whose transaction that is open begins at offset.
func (t *transactions) producerOf(first int64) int64 {
	for _, o := range t.open {
		if o.first == first {
			return o.producer
		}
	}
	return -1
}
