package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/server/fetchsession"
)

// reframedSince is the version of Fetch from which on records of before magic 2 are sent as batches of magic 2: librdkafka
// mis-reads the old form there.
const reframedSince = 12

// fetch answers a Fetch: at once where there is enough, the remote tier was asked and had something or something is wrong, else
// when data comes or the client's wait is over.
func fetch(ctx context.Context, c *conn, req *request, q *kmsg.FetchRequest) (*fetchReply, error) {
	resp := &fetchReply{FetchResponse: kmsg.NewPtrFetchResponse()}
	parts, sess, code := c.s.sessions.Begin(fetchsession.Who{Owner: c.owner(), Keep: c.may(req).keep(q)}, q)
	if code != 0 {
		resp.ErrorCode = code
		c.s.log.Info("fetch session", "request", req.id, "client", short(req.client), "session", q.SessionID, "epoch", q.SessionEpoch, "code", code)
		return resp, nil
	}
	if sess != nil {
		resp.SessionID = sess.ID()
	}
	f := &fetching{c: c, req: req, q: q, parts: parts, left: reframeMost}
	data := f.run(ctx)
	req.after = data.Release
	c.s.counts.fetched(req, data)
	told := make([]bool, len(parts))
	for i := range told {
		told[i] = true
	}
	if sess != nil {
		told = c.s.sessions.End(sess, q.SessionEpoch > 0, parts, summary(data))
	}
	f.fill(resp, data, told)
	return resp, nil
}

// fetching is one Fetch while it is worked on.
type fetching struct {
	c     *conn
	req   *request
	q     *kmsg.FetchRequest
	parts []fetchsession.Partition
	left  int64 // of what its records may be inflated to
}

// ask is the request for the reader.
func (f *fetching) ask() *reader.FetchRequest {
	out := &reader.FetchRequest{ID: f.req.id, ClientID: f.req.client, Version: f.req.version, ReplicaID: f.q.ReplicaID,
		Isolation: locality.Isolation(f.q.IsolationLevel), MaxBytes: min(int64(f.q.MaxBytes), f.c.s.live.Load().MaxFetchBytes), Files: true,
		Partitions: make([]reader.FetchPartition, 0, len(f.parts))}
	if f.req.version >= 15 {
		out.ReplicaID = f.q.ReplicaState.ID
	}
	for _, p := range f.parts {
		out.Partitions = append(out.Partitions, reader.FetchPartition{Topic: p.Key.Topic, TopicID: p.Key.ID, Partition: p.Key.Partition,
			Offset: p.Ask.FetchOffset, CurrentLeaderEpoch: p.Ask.CurrentLeaderEpoch, LastFetchedEpoch: p.Ask.LastFetchedEpoch,
			MaxBytes: int64(p.Ask.PartitionMaxBytes)})
	}
	return out
}

// run reads, and reads again when something changed, until the answer is good enough or the client's wait is over.
func (f *fetching) run(ctx context.Context) *reader.FetchResponse {
	ask := f.ask()
	timer := time.NewTimer(time.Duration(max(f.q.MaxWaitMillis, 0)) * time.Millisecond)
	defer timer.Stop()
	for last := f.q.MaxWaitMillis <= 0 || len(f.parts) == 0; ; {
		changed := f.c.s.host.Changed() // taken before the read: what comes during it is not missed
		data := f.c.may(f.req).fetch(ctx, ask)
		if last || enough(data, int64(f.q.MinBytes)) {
			return data
		}
		data.Release()
		f.req.making.end()
		last = !f.wait(ctx, changed, timer.C)
		if f.req.making.begin(ctx) != nil { // the connection ends
			return &reader.FetchResponse{Partitions: make([]reader.PartitionData, len(f.parts))}
		}
	}
}

// keep reports that all that a request names may be read, so that a session may keep it. What is denied is said in the log when
// it is answered.
func (m may) keep(q *kmsg.FetchRequest) bool {
	if m.everything() {
		return true
	}
	for i := range q.Topics {
		name := q.Topics[i].Topic
		if t := m.c.s.identified(q.Topics[i].TopicID); t != nil {
			name = t.Name
		}
		if name != "" && !m.rules.Allow(m.c.who, access.Read, access.Topic, name) {
			return false
		}
	}
	return true
}

// wait reports whether something changed before there is no more time. A large request that others wait for has none.
func (f *fetching) wait(ctx context.Context, changed <-chan struct{}, over <-chan time.Time) bool {
	f.c.s.waits.Add(1)
	defer f.c.s.waits.Add(-1)
	select {
	case <-changed:
		return true
	case <-over:
	case <-f.short():
	case <-f.c.s.draining:
	case <-ctx.Done():
	}
	return false
}

// short is closed while a request waits for memory that this one has; nil: it has none that counts.
func (f *fetching) short() <-chan struct{} {
	if f.req.weight < uncountedAnswer {
		return nil
	}
	return f.c.s.memory.decoded.Short()
}

// enough says whether an answer goes out before the client's wait is over. A remote read has taken its time and does not wait for
// more; one that found nothing, since all from the offset on was compacted away, waits: its client would ask again at
// once, and each time the store is asked.
func enough(data *reader.FetchResponse, minBytes int64) bool {
	var n int64
	for i := range data.Partitions {
		p := &data.Partitions[i]
		if p.Code != reader.None || p.Diverging != nil || p.Remote && !p.Spent {
			return true
		}
		n += p.Size()
	}
	return n >= minBytes
}

func summary(data *reader.FetchResponse) []fetchsession.Answered {
	out := make([]fetchsession.Answered, len(data.Partitions))
	for i := range data.Partitions {
		p := &data.Partitions[i]
		failed, some := p.Code != reader.None, p.Size() > 0
		out[i] = fetchsession.Answered{News: failed || p.Diverging != nil || some, Failed: failed, Taken: p.Late || p.Spent || some,
			HighWatermark: p.HighWatermark, LastStable: p.LastStableOffset, LogStart: p.LogStartOffset}
	}
	return out
}

// fill makes the answer of those partitions that the client is told of.
func (f *fetching) fill(resp *fetchReply, data *reader.FetchResponse, told []bool) {
	byID := f.req.version >= 13
	resp.bodies = make([]body, 0, len(told))
	room := make([]kmsg.FetchResponseTopicPartition, 0, len(told)) // that topics take theirs from
	for i := range data.Partitions {
		if !told[i] {
			continue
		}
		p := &data.Partitions[i]
		key, offset := f.parts[i].Key, f.parts[i].Ask.FetchOffset
		if p.Err != nil {
			f.c.tell(f.req, "fetch", f.c.s.nameOf(&key), key.Partition, offset, p.Code, p.Err)
		}
		if n := len(resp.Topics); n == 0 || resp.Topics[n-1].Topic != key.Topic || resp.Topics[n-1].TopicID != key.ID {
			resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{Topic: key.Topic, TopicID: key.ID, Partitions: room[len(resp.bodies):len(resp.bodies)]})
		}
		if byID && key.ID == (abi.UUID{}) { // the reader takes it for a topic without a name
			p = &reader.PartitionData{Code: reader.UnknownTopicID, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, Aborted: []reader.AbortedTransaction{}}
		}
		records, err := f.records(p)
		if err != nil {
			f.c.tell(f.req, "fetch", f.c.s.nameOf(&key), key.Partition, offset, reader.CorruptMessage, err)
			p = &reader.PartitionData{Code: reader.CorruptMessage, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}
		}
		one := partition(p)
		one.Partition = key.Partition
		if p.Leader != nil && f.req.version >= 16 && len(resp.Brokers) == 0 {
			resp.Brokers = []kmsg.FetchResponseBroker{{NodeID: f.c.s.node, Host: f.c.address.host, Port: f.c.address.port}}
		}
		t := &resp.Topics[len(resp.Topics)-1]
		t.Partitions = append(t.Partitions, one)
		resp.bodies = append(resp.bodies, records)
	}
}

// partition is what stands beside the records.
func partition(p *reader.PartitionData) kmsg.FetchResponseTopicPartition {
	out := kmsg.NewFetchResponseTopicPartition()
	out.ErrorCode, out.HighWatermark, out.LastStableOffset, out.LogStartOffset = int16(p.Code), p.HighWatermark, p.LastStableOffset, p.LogStartOffset
	if p.Aborted != nil {
		out.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for _, a := range p.Aborted {
			out.AbortedTransactions = append(out.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
		}
	}
	if p.Diverging != nil {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = p.Diverging.Epoch, p.Diverging.StartOffset
	}
	if p.Leader != nil {
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = p.Leader.ID, p.Leader.Epoch
	}
	return out
}

// records gives the records of an answer where they lie, or written anew where they are of before magic 2 and the client
// needs that. An error is CORRUPT.
func (f *fetching) records(p *reader.PartitionData) (body, error) {
	out := body{bytes: p.Records, files: p.Files, size: p.Size()}
	if f.req.version < reframedSince || f.c.s.o.KafkaExact {
		return out, nil
	}
	b, err := reframe(p.Records, &f.left)
	if err != nil {
		return body{}, err
	}
	if b != nil {
		out = body{bytes: b, size: int64(len(b))}
	}
	return out, nil
}
