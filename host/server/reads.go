package server

import (
	"context"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
)

// refused are the refusals of some partitions' topics.
type refused struct {
	codes []reader.Code // by place in the request; nil: none is refused
	errs  []error
}

func (r *refused) set(i, all int, code reader.Code, err error) {
	if r.codes == nil {
		r.codes, r.errs = make([]reader.Code, all), make([]error, all)
	}
	r.codes[i], r.errs[i] = code, err
}

func (r *refused) has(i int) bool { return r.codes != nil && r.codes[i] != reader.None }

// fetch reads what the client may read of what is there, and answers the rest with an error in its place. A topic that went
// while it was read is answered as one that is not there: an offset that is out of range in it would reset its consumers.
func (m may) fetch(ctx context.Context, ask *reader.FetchRequest) *reader.FetchResponse {
	no, part := m.refusedOf(ask.Partitions), ask
	if no.codes != nil {
		some := *ask
		some.Partitions = nil
		for i := range ask.Partitions {
			if !no.has(i) {
				some.Partitions = append(some.Partitions, ask.Partitions[i])
			}
		}
		part = &some
	}
	data := m.c.s.host.Fetch(ctx, part)
	if no.codes != nil {
		out, read := make([]reader.PartitionData, len(ask.Partitions)), data.Partitions
		for i := range out {
			if no.has(i) {
				out[i] = unread(&ask.Partitions[i], no.codes[i], no.errs[i])
				continue
			}
			out[i], read = read[0], read[1:]
		}
		data.Partitions = out
	}
	for i := range data.Partitions {
		p, q := &data.Partitions[i], &ask.Partitions[i]
		if !no.has(i) && p.Size() == 0 && m.c.s.find(q.Topic, q.TopicID) == nil {
			code, err := missing(q.Topic, q.TopicID)
			*p = unread(q, code, err)
		}
	}
	return data
}

// refusedOf are the partitions of a fetch that are not read.
func (m may) refusedOf(ask []reader.FetchPartition) (no refused) {
	var code reader.Code
	var err error
	for i := range ask {
		p := &ask[i]
		if i == 0 || ask[i-1].Topic != p.Topic || ask[i-1].TopicID != p.TopicID { // clients name a topic's partitions one after the other
			code, err = m.refusal(access.Read, p.Topic, p.TopicID)
		}
		if code != reader.None {
			no.set(i, len(ask), code, err)
		}
	}
	return no
}

// unread is the answer of a partition that is not read.
func unread(p *reader.FetchPartition, code reader.Code, err error) reader.PartitionData {
	return reader.PartitionData{Topic: p.Topic, TopicID: p.TopicID, Partition: p.Partition, Code: code, Err: err,
		HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, Aborted: []reader.AbortedTransaction{}}
}

// listOffsets is fetch for offsets.
func (m may) listOffsets(ctx context.Context, ask *reader.ListOffsetsRequest) []reader.OffsetData {
	no, part := refused{}, *ask
	part.Partitions = nil
	for i := range ask.Partitions {
		if code, err := m.refusal(access.Describe, ask.Partitions[i].Topic, abi.UUID{}); code != reader.None {
			no.set(i, len(ask.Partitions), code, err)
		} else {
			part.Partitions = append(part.Partitions, ask.Partitions[i])
		}
	}
	found := m.c.s.host.ListOffsets(ctx, &part)
	out := make([]reader.OffsetData, len(ask.Partitions))
	for i := range out {
		p := &ask.Partitions[i]
		if no.has(i) {
			out[i] = noOffset(p, no.codes[i], no.errs[i])
			continue
		}
		if out[i], found = found[0], found[1:]; m.c.s.named(p.Topic) == nil { // it went meanwhile
			code, err := missing(p.Topic, abi.UUID{})
			out[i] = noOffset(p, code, err)
		}
	}
	return out
}

// noOffset is the answer of a partition whose offsets are not looked for. What the rules deny is in the log already.
func noOffset(p *reader.ListOffsetsPartition, code reader.Code, err error) reader.OffsetData {
	if code == topicDenied {
		err = nil
	}
	return reader.OffsetData{Topic: p.Topic, Partition: p.Partition, Code: code, Err: err, Offset: -1, Timestamp: -1, LeaderEpoch: -1}
}

// epochEnds is fetch for the ends of epochs.
func (m may) epochEnds(ctx context.Context, asks []reader.EpochRequest) []reader.EpochEnd {
	ends := make([]reader.EpochEnd, len(asks))
	var allowed []reader.EpochRequest
	var places []int // of those, among asks
	for i := range asks {
		end := &ends[i]
		end.LeaderEpoch, end.EndOffset = -1, -1
		if end.Code, end.Err = m.refusal(access.Describe, asks[i].Topic, asks[i].TopicID); end.Code == topicDenied {
			end.Err = nil // it is in the log already
		}
		if end.Code == reader.None {
			allowed, places = append(allowed, asks[i]), append(places, i)
		}
	}
	for k, found := range m.c.s.host.OffsetsForLeaderEpochs(ctx, allowed) {
		ask, end := &allowed[k], &ends[places[k]]
		if m.c.s.find(ask.Topic, ask.TopicID) == nil { // it went meanwhile
			end.Code, end.Err = missing(ask.Topic, ask.TopicID)
			continue
		}
		*end = found
	}
	return ends
}
