package server

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/locallog"
)

// body is the records of one partition, where they lie: in memory, or in files of the local tier.
type body struct {
	bytes []byte
	files []locallog.Stretch
	size  int64
}

// fetchReply is a FetchResponse whose records stay where they are until they are sent. RecordBatches of the response are
// not used.
type fetchReply struct {
	*kmsg.FetchResponse
	bodies []body // of all partitions, in their order
}

// appendParts writes the response behind what a holds, with the records left out and named. The fields are those of
// Fetch versions 4 to 18, in their order.
func (r *fetchReply) appendParts(a *answer) {
	w := encoder{b: a.b, flexible: r.Version >= 12}
	w.int32(r.ThrottleMillis)
	if r.Version >= 7 {
		w.int16(r.ErrorCode)
		w.int32(r.SessionID)
	}
	bodies := r.bodies
	w.length(len(r.Topics))
	for i := range r.Topics {
		t := &r.Topics[i]
		if r.Version >= 13 {
			w.b = append(w.b, t.TopicID[:]...)
		} else {
			w.text(t.Topic)
		}
		w.length(len(t.Partitions))
		for j := range t.Partitions {
			w.fetchHead(&t.Partitions[j], r.Version)
			w.recordsLength(bodies[0].size)
			a.b = w.b
			a.put(&bodies[0])
			w.b = a.b
			w.fetchTags(&t.Partitions[j])
			bodies = bodies[1:]
		}
		w.noTags()
	}
	w.brokers(r.Brokers)
	a.b = w.b
}

// encoder appends to b what Kafka's protocol has, in the old or in the flexible form (KIP-482).
type encoder struct {
	b        []byte
	flexible bool
}

func (w *encoder) int16(v int16)   { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *encoder) int32(v int32)   { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *encoder) int64(v int64)   { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *encoder) uvarint(v int64) { w.b = binary.AppendUvarint(w.b, uint64(v)) }

// length is that of a list; n is -1 for null.
func (w *encoder) length(n int) {
	if w.flexible {
		w.uvarint(int64(n) + 1)
		return
	}
	w.int32(int32(n))
}

// recordsLength is that of records.
func (w *encoder) recordsLength(n int64) { w.length(int(n)) }

func (w *encoder) text(s string) {
	if w.flexible {
		w.uvarint(int64(len(s)) + 1)
	} else {
		w.int16(int16(len(s)))
	}
	w.b = append(w.b, s...)
}

func (w *encoder) noTags() {
	if w.flexible {
		w.uvarint(0)
	}
}

// fetchHead is what stands before the records of a partition.
func (w *encoder) fetchHead(p *kmsg.FetchResponseTopicPartition, version int16) {
	w.int32(p.Partition)
	w.int16(p.ErrorCode)
	w.int64(p.HighWatermark)
	w.int64(p.LastStableOffset)
	if version >= 5 {
		w.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		w.length(-1)
	} else {
		w.length(len(p.AbortedTransactions))
	}
	for _, t := range p.AbortedTransactions {
		w.int64(t.ProducerID)
		w.int64(t.FirstOffset)
		w.noTags()
	}
	if version >= 11 {
		w.int32(p.PreferredReadReplica)
	}
}

// fetchTags is what stands behind the records of a partition: the diverging epoch (tag 0) and the leader (tag 1), where
// they are told.
func (w *encoder) fetchTags(p *kmsg.FetchResponseTopicPartition) {
	if !w.flexible {
		return
	}
	diverging := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	n := int64(0)
	for _, told := range []bool{diverging, leader} {
		if told {
			n++
		}
	}
	w.uvarint(n)
	if diverging {
		w.uvarint(0)
		w.uvarint(4 + 8 + 1)
		w.int32(p.DivergingEpoch.Epoch)
		w.int64(p.DivergingEpoch.EndOffset)
		w.noTags()
	}
	if leader {
		w.uvarint(1)
		w.uvarint(4 + 4 + 1)
		w.int32(p.CurrentLeader.LeaderID)
		w.int32(p.CurrentLeader.LeaderEpoch)
		w.noTags()
	}
}

// brokers ends the response: with where the leaders are that partitions name (tag 0).
func (w *encoder) brokers(of []kmsg.FetchResponseBroker) {
	if !w.flexible {
		return
	}
	if len(of) == 0 {
		w.uvarint(0)
		return
	}
	w.uvarint(1)
	w.uvarint(0)
	list := encoder{flexible: true}
	list.length(len(of))
	for _, b := range of {
		list.int32(b.NodeID)
		list.text(b.Host)
		list.int32(b.Port)
		list.uvarint(0) // no rack
		list.noTags()
	}
	w.uvarint(int64(len(list.b)))
	w.b = append(w.b, list.b...)
}
