package server

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
)

// topicDenied is TOPIC_AUTHORIZATION_FAILED as a code of a read.
const topicDenied = reader.Code(topicAuthorizationFailed)

var errTopicDenied = errors.New("TOPIC_AUTHORIZATION_FAILED (29): no rule allows it")

// may is what one request's client may do. It is made once a request, and decides by the rules that were in force then.
type may struct {
	c     *conn
	req   *request
	rules *access.Rules
}

// may gives what a request's client may do.
func (c *conn) may(req *request) may { return may{c, req, c.s.o.Access.Rules()} }

// everything reports that there is nothing to decide.
func (m may) everything() bool { return m.rules == nil }

// topic says whether the client may do this to a topic, whether or not there is one. What is denied is said in the log.
func (m may) topic(op access.Operation, name string) bool { return m.ask(op, access.Topic, name) }

// group says whether the client may do this to a consumer group: Read to join it, to commit and to fetch offsets as a
// member, Describe to see it. What is denied is said in the log, and answered with GROUP_AUTHORIZATION_FAILED (30).
func (m may) group(op access.Operation, name string) bool { return m.ask(op, access.Group, name) }

// cluster says whether the client may see what is not a topic's: the broker's settings, its directories.
func (m may) cluster() bool { return m.ask(access.Describe, access.Cluster, "") }

// sees is topic or group without a line in the log: for lists, which leave out what a client may not see.
func (m may) sees(kind access.Kind, name string) bool {
	return m.rules.Allow(m.c.who, access.Describe, kind, name)
}

func (m may) ask(op access.Operation, kind access.Kind, name string) bool {
	if m.rules.Allow(m.c.who, op, kind, name) {
		return true
	}
	m.c.s.counts.denied[kind].Add(1)
	what := denial{m.c.who, short(m.req.client), op, kind, short(name)}
	if m.c.s.denied.first(what) {
		m.c.s.log.Warn("denied by the rules; said once", "principal", string(what.who), "client", what.client, "operation", op.String(),
			kind.String(), what.name, "request", m.req.id, "api", kmsg.NameForKey(m.req.key), "from", m.c.nc.RemoteAddr().String())
	}
	return false
}

// topicID is topic for one that is named by its id. An id that nobody has is nobody's secret.
func (m may) topicID(op access.Operation, id abi.UUID) bool {
	if m.everything() {
		return true
	}
	t, ok := m.c.s.host.Incarnation(id)
	return !ok || m.topic(op, t.Name)
}

// named is topic or topicID, by what a request has.
func (m may) named(op access.Operation, name string, id abi.UUID) bool {
	if id != (abi.UUID{}) {
		return m.topicID(op, id)
	}
	return m.topic(op, name)
}

// topics are those that a client may see.
func (m may) topics(all []*host.Topic) []*host.Topic {
	if m.everything() {
		return all
	}
	var out []*host.Topic
	for _, t := range all {
		if m.sees(access.Topic, t.Name) {
			out = append(out, t)
		}
	}
	return out
}

// fetch reads what the client may read, and answers the rest with an error in its place.
func (m may) fetch(ctx context.Context, ask *reader.FetchRequest) *reader.FetchResponse {
	if m.everything() {
		return m.c.s.host.Fetch(ctx, ask)
	}
	good, part := make([]bool, len(ask.Partitions)), *ask
	part.Partitions = nil
	for i := range ask.Partitions {
		p := &ask.Partitions[i]
		if was := i - 1; i > 0 && ask.Partitions[was].Topic == p.Topic && ask.Partitions[was].TopicID == p.TopicID {
			good[i] = good[was] // clients name a topic's partitions one after the other
		} else {
			good[i] = m.named(access.Read, p.Topic, p.TopicID)
		}
		if good[i] {
			part.Partitions = append(part.Partitions, *p)
		}
	}
	data := m.c.s.host.Fetch(ctx, &part)
	if len(part.Partitions) == len(ask.Partitions) {
		return data
	}
	out := make([]reader.PartitionData, len(ask.Partitions))
	for i, next := 0, 0; i < len(out); i++ {
		if good[i] {
			out[i] = data.Partitions[next]
			next++
			continue
		}
		p := &ask.Partitions[i]
		out[i] = reader.PartitionData{Topic: p.Topic, TopicID: p.TopicID, Partition: p.Partition, Code: topicDenied, Err: errTopicDenied,
			HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, Aborted: []reader.AbortedTransaction{}}
	}
	data.Partitions = out
	return data
}

// listOffsets is fetch for offsets.
func (m may) listOffsets(ctx context.Context, ask *reader.ListOffsetsRequest) []reader.OffsetData {
	if m.everything() {
		return m.c.s.host.ListOffsets(ctx, ask)
	}
	good, part := make([]bool, len(ask.Partitions)), *ask
	part.Partitions = nil
	for i := range ask.Partitions {
		if good[i] = m.topic(access.Describe, ask.Partitions[i].Topic); good[i] {
			part.Partitions = append(part.Partitions, ask.Partitions[i])
		}
	}
	found := m.c.s.host.ListOffsets(ctx, &part)
	out := make([]reader.OffsetData, len(ask.Partitions))
	for i := range out {
		if good[i] {
			out[i], found = found[0], found[1:]
			continue
		}
		p := &ask.Partitions[i]
		out[i] = reader.OffsetData{Topic: p.Topic, Partition: p.Partition, Code: topicDenied, Offset: -1, Timestamp: -1, LeaderEpoch: -1}
	}
	return out
}

// epochEnd is fetch for the end of an epoch.
func (m may) epochEnd(ctx context.Context, ask *reader.EpochRequest) reader.EpochEnd {
	if !m.topic(access.Describe, ask.Topic) {
		return reader.EpochEnd{Code: topicDenied, LeaderEpoch: -1, EndOffset: -1}
	}
	return m.c.s.host.OffsetForLeaderEpoch(ctx, ask)
}
