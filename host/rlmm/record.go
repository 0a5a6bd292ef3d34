package rlmm

import (
	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Segment is what is known of one remote segment, as it was when it was asked for. What its slices hold is shared, and
// must not be changed.
type Segment struct {
	abi.SegmentMetadata
	State format.SegmentState
}

// record is a segment as it is kept: 80 bytes, where a Segment takes 192, of which its partition has a part and most of
// the rest is slice headers. It is immutable; an update makes another.
type record struct {
	id         abi.UUID
	start, end int64
	maxMs      int64
	eventMs    int64
	size       int64
	broker     int32
	epoch      int32 // the one leader epoch, which begins with the segment, unless rest has a list
	rest       *rest // nil: there is none
	state      format.SegmentState
	txnEmpty   bool
}

// rest is what most segments do not have.
type rest struct {
	epochs []abi.LeaderEpoch // nil: one alone that begins with the segment, as record has it
	custom []byte
}

func newRecord(m *abi.SegmentMetadata, state format.SegmentState) *record {
	r := &record{id: m.SegmentID, start: m.StartOffset, end: m.EndOffset, maxMs: m.MaxTimestampMs, eventMs: m.EventTimestampMs,
		size: m.SizeBytes, broker: m.BrokerID, epoch: m.LeaderEpochs[0].Epoch, state: state, txnEmpty: m.TxnIndexEmpty}
	epochs := m.LeaderEpochs
	if len(epochs) == 1 && epochs[0].StartOffset == m.StartOffset {
		epochs = nil
	}
	r.setRest(epochs, m.CustomMetadata)
	return r
}

func (r *record) setRest(epochs []abi.LeaderEpoch, custom []byte) {
	r.rest = nil
	if epochs != nil || custom != nil {
		r.rest = &rest{epochs, custom}
	}
}

// updated is the record after an update, which replaces all that it carries.
func (r *record) updated(e *format.SegmentUpdateEvent) *record {
	next := *r
	next.state, next.broker, next.eventMs = e.State, e.BrokerID, e.EventTimestampMs
	next.setRest(r.list(), e.CustomMetadata)
	return &next
}

func (r *record) list() []abi.LeaderEpoch {
	if r.rest == nil {
		return nil
	}
	return r.rest.epochs
}

// parts is how many leader epochs the segment has.
func (r *record) parts() int { return max(1, len(r.list())) }

// part gives the i-th leader epoch, and what the segment holds of it.
func (r *record) part(i int) (epoch int32, x span) {
	list := r.list()
	if list == nil {
		return r.epoch, span{r.start, r.end, r}
	}
	x = span{list[i].StartOffset, r.end, r}
	if i+1 < len(list) {
		x.end = list[i+1].StartOffset - 1
	}
	return list[i].Epoch, x
}

// whole is what the segment holds of the partition.
func (r *record) whole() span { return span{r.start, r.end, r} }

// segment makes the public form, in one piece of memory where the epoch is one.
func (p *Partition) segment(r *record) *Segment {
	s := &struct {
		Segment
		one [1]abi.LeaderEpoch
	}{}
	s.SegmentMetadata = abi.SegmentMetadata{TopicIDPartition: p.ID, SegmentID: r.id, StartOffset: r.start, EndOffset: r.end,
		MaxTimestampMs: r.maxMs, SizeBytes: r.size, BrokerID: r.broker, EventTimestampMs: r.eventMs, TxnIndexEmpty: r.txnEmpty}
	s.State = r.state
	if r.rest != nil {
		s.CustomMetadata = r.rest.custom
	}
	if s.LeaderEpochs = r.list(); s.LeaderEpochs == nil {
		s.one[0] = abi.LeaderEpoch{Epoch: r.epoch, StartOffset: r.start}
		s.LeaderEpochs = s.one[:]
	}
	return &s.Segment
}
