package host

import (
	"fmt"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// Consume gives the records of an answer that a consumer delivers: those at or above from, without control records, and
// with read_committed without those of aborted transactions. next is the offset to fetch from then; it is from itself
// where the answer holds nothing. Slices may point into the answer.
//
// Errors: CORRUPT for a batch that can't be decoded, with its offsets; the records before it come too.
func Consume(p *reader.PartitionData, from int64, iso locality.Isolation) (records []format.Record, next int64, err error) {
	skip := NewDelivery(p.Aborted, iso)
	next = from
	w := format.Walk(p.Records)
	for w.Next() {
		h := w.Header()
		if h.LastOffset < from {
			continue
		}
		visible, err := skip.Delivers(h, w.Bytes())
		if err == nil && visible {
			records, err = appendRecords(records, w.Bytes(), from)
		}
		if err != nil {
			return records, next, abi.E("decode", fmt.Sprintf("%s-%d offsets %d-%d", p.Topic, p.Partition, h.BaseOffset, h.LastOffset), abi.KindOf(err), err)
		}
		next = h.LastOffset + 1
	}
	return records, next, w.Err()
}

func appendRecords(dst []format.Record, batch []byte, from int64) ([]format.Record, error) {
	recs, err := format.Records(batch, 0)
	if err != nil {
		return dst, err
	}
	for _, r := range recs {
		if r.Offset >= from {
			dst = append(dst, r)
		}
	}
	return dst, nil
}

// Delivery is a consumer's state over one answer: which producers' records belong to a transaction that was aborted.
type Delivery struct {
	iso     locality.Isolation
	pending []reader.AbortedTransaction // by first offset
	open    map[int64]bool              // by producer id
}

// NewDelivery begins an answer with its aborted transactions, by first offset.
func NewDelivery(aborted []reader.AbortedTransaction, iso locality.Isolation) *Delivery {
	return &Delivery{iso: iso, pending: aborted, open: map[int64]bool{}}
}

// Delivers says whether a consumer delivers the records of an answer's next batch. All batches have to be shown, in order. An
// error is CORRUPT: the batch is a marker that can't be read.
func (a *Delivery) Delivers(h *format.BatchHeader, batch []byte) (bool, error) {
	for len(a.pending) > 0 && a.pending[0].FirstOffset <= h.LastOffset {
		a.open[a.pending[0].ProducerID] = true
		a.pending = a.pending[1:]
	}
	if h.IsControl() {
		return false, a.marker(h, batch)
	}
	return a.iso != locality.ReadCommitted || !h.IsTransactional() || !a.open[h.ProducerID], nil
}

// marker ends a producer's aborted transaction. A commit does not: the protocol's list holds aborted ones alone.
func (a *Delivery) marker(h *format.BatchHeader, batch []byte) error {
	t, ok, err := format.ControlOf(batch)
	if ok && t == format.ControlAbort {
		delete(a.open, h.ProducerID)
	}
	return err
}
