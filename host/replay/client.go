package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// Keys of the protocol's requests.
const (
	fetchKey       int16 = 1
	listOffsetsKey int16 = 2
	apiVersions    int16 = 18
)

// Client asks a Kafka cluster what is replayed: each partition's leader, or the one address where there is one broker. It is
// a Host. After a failure of a connection the answers of its broker are errors, and Err tells the first.
type Client struct {
	seed     *wire
	security Security
	versions map[int16]int16  // the highest that is served, by api key
	brokers  map[int32]string // addresses by node id
	topics   map[string]*topicInfo

	mu    sync.Mutex      // guards what follows
	wires map[int32]*wire // of leaders, where there are several brokers
	lost  error           // a broker that could not be connected to
}

// topicInfo is what a cluster tells of a topic.
type topicInfo struct {
	id      abi.UUID
	leaders map[int32]int32 // node ids by partition
}

// Dial is DialSecurely to a cluster that asks for nothing.
func Dial(ctx context.Context, address string) (*Client, error) {
	return DialSecurely(ctx, address, Security{})
}

// DialSecurely connects to address. An error names it. The caller closes the client.
func DialSecurely(ctx context.Context, address string, security Security) (*Client, error) {
	w, err := connect(ctx, address, security)
	if err != nil {
		return nil, err
	}
	c := &Client{seed: w, security: security, versions: map[int16]int16{}, brokers: map[int32]string{}, topics: map[string]*topicInfo{}, wires: map[int32]*wire{}}
	if err := cmp.Or(c.readVersions(ctx), c.readTopics(ctx)); err != nil {
		return nil, errors.Join(security.hint(err), c.Close())
	}
	return c, nil
}

// Address is the one that was given.
func (c *Client) Address() string { return c.seed.address }

// Close closes the connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.seed.nc.Close()}
	for _, w := range c.wires {
		errs = append(errs, w.nc.Close())
	}
	return errors.Join(errs...)
}

// Err is what went wrong with a connection; nil: nothing.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmp.Or(c.lost, c.seed.failed())
	for _, w := range c.wires {
		err = cmp.Or(err, w.failed())
	}
	return err
}

// Partitions gives the topic's partitions, in order. An error is NOT_FOUND.
func (c *Client) Partitions(topic string) ([]int32, error) {
	t, ok := c.topics[topic]
	if !ok || len(t.leaders) == 0 {
		return nil, abi.Errorf("find topic", topic, abi.NotFound, "%s has no such topic", c.seed.address)
	}
	var out []int32
	for p := range t.leaders {
		out = append(out, p)
	}
	slices.Sort(out)
	return out, nil
}

// version is the highest version of an api up to want that the cluster serves.
func (c *Client) version(key, want int16) int16 {
	if served, ok := c.versions[key]; ok {
		return min(want, served)
	}
	return want
}

func (c *Client) readVersions(ctx context.Context) error {
	q, resp := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsResponse()
	q.Version, q.ClientSoftwareName, q.ClientSoftwareVersion = 3, "rsmhost", "test"
	if err := c.seed.ask(ctx, q, resp); err != nil {
		return err
	}
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = k.MaxVersion
	}
	return nil
}

// readTopics learns the topics' ids and leaders.
func (c *Client) readTopics(ctx context.Context) error {
	q, resp := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	q.Version = 12
	if err := c.seed.ask(ctx, q, resp); err != nil {
		return err
	}
	for _, b := range resp.Brokers {
		c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		info := &topicInfo{id: t.TopicID, leaders: map[int32]int32{}}
		for _, p := range t.Partitions {
			info.leaders[p.Partition] = p.Leader
		}
		c.topics[*t.Topic] = info
	}
	return nil
}

// ask asks the leader of a partition. A topic that nobody knows is asked for at the address that was given.
func (c *Client) ask(ctx context.Context, topic string, partition int32, q kmsg.Request, resp kmsg.Response) error {
	w, err := c.leader(ctx, topic, partition)
	if err != nil {
		return err
	}
	return w.ask(ctx, q, resp)
}

func (c *Client) leader(ctx context.Context, topic string, partition int32) (*wire, error) {
	t, ok := c.topics[topic]
	if !ok || len(c.brokers) < 2 { // one broker may be behind another address than it tells
		return c.seed, nil
	}
	node := t.leaders[partition]
	address, ok := c.brokers[node]
	if !ok {
		return c.seed, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.wires[node]; w != nil {
		return w, nil
	}
	w, err := connect(ctx, address, c.security)
	if err != nil {
		c.lost = cmp.Or(c.lost, err)
		return nil, err
	}
	c.wires[node] = w
	return w, nil
}

const (
	waited   = 20 * time.Millisecond // an empty answer that took as long may have been one that was not ready in time
	patience = time.Minute           // that long it is asked for again
)

// Fetch implements Host: a Fetch without a session that does not wait. An answer that was not ready in time, which the protocol
// does not tell from an empty one, is asked for again.
func (c *Client) Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	for began := time.Now(); ; {
		asked := time.Now()
		out := c.fetch(ctx, req)
		if !unready(req, out) || time.Since(asked) < waited || time.Since(began) > patience || ctx.Err() != nil {
			return out
		}
	}
}

// unready reports an answer without any records, where there are some.
func unready(req *reader.FetchRequest, resp *reader.FetchResponse) bool {
	behind := false
	for i := range resp.Partitions {
		p, asked := &resp.Partitions[i], &req.Partitions[i]
		if p.Code != reader.None || p.Diverging != nil || len(p.Records) > 0 {
			return false
		}
		bound := p.HighWatermark
		if req.Isolation == locality.ReadCommitted {
			bound = p.LastStableOffset
		}
		behind = behind || asked.Offset < bound && asked.MaxBytes > 0 && req.MaxBytes > 0
	}
	return behind
}

func (c *Client) fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	out := &reader.FetchResponse{}
	q, resp := c.fetchRequest(req), kmsg.NewPtrFetchResponse()
	first := &req.Partitions[0] // of several leaders the others answer for themselves: NOT_LEADER_OR_FOLLOWER
	err := c.ask(ctx, first.Topic, first.Partition, q, resp)
	if err == nil && resp.ErrorCode != 0 {
		err = refusal(resp.ErrorCode)
	}
	for i := range req.Partitions {
		p := &req.Partitions[i]
		d := reader.PartitionData{Topic: p.Topic, TopicID: p.TopicID, Partition: p.Partition, Code: reader.UnknownServerError, Err: err}
		if err == nil {
			d.Err = errors.New("the answer does not have this partition")
			if got := takePartition(resp, p.Topic, c.topicID(p), p.Partition); got != nil {
				fillPartition(&d, got)
			}
		}
		out.Partitions = append(out.Partitions, d)
	}
	if n := partitionsLeft(resp); err == nil && n > 0 {
		for i := range out.Partitions {
			out.Partitions[i].Code, out.Partitions[i].Err = reader.UnknownServerError, fmt.Errorf("the answer has %d partitions that were not asked for", n)
		}
	}
	return out
}

// partitionsLeft is how many partitions of an answer nobody took.
func partitionsLeft(resp *kmsg.FetchResponse) (n int) {
	for i := range resp.Topics {
		n += len(resp.Topics[i].Partitions)
	}
	return n
}

// topicID is how a partition's topic is named from version 13 on; zero: it has no id.
func (c *Client) topicID(p *reader.FetchPartition) abi.UUID {
	if !p.TopicID.IsZero() {
		return p.TopicID
	}
	if t, ok := c.topics[p.Topic]; ok {
		return t.id
	}
	return abi.UUID{}
}

func (c *Client) fetchRequest(req *reader.FetchRequest) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.ReplicaID, q.ReplicaState.ID, q.SessionEpoch = req.Version, req.ReplicaID, req.ReplicaID, -1
	q.MaxBytes, q.IsolationLevel = int32(req.MaxBytes), int8(req.Isolation)
	for i := range req.Partitions {
		p := &req.Partitions[i]
		t := kmsg.FetchRequestTopic{Topic: p.Topic, TopicID: c.topicID(p)}
		if t.TopicID == (abi.UUID{}) {
			q.Version = min(q.Version, 12) // named by its name
		}
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.CurrentLeaderEpoch, one.FetchOffset = p.Partition, p.CurrentLeaderEpoch, p.Offset
		one.LastFetchedEpoch, one.PartitionMaxBytes = p.LastFetchedEpoch, int32(p.MaxBytes)
		t.Partitions = append(t.Partitions, one)
		q.Topics = append(q.Topics, t)
	}
	return q
}

// takePartition takes a partition out of an answer, so that one that was asked for twice is answered twice.
func takePartition(resp *kmsg.FetchResponse, topic string, id abi.UUID, partition int32) *kmsg.FetchResponseTopicPartition {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if resp.Version >= 13 && t.TopicID != id || resp.Version < 13 && t.Topic != topic {
			continue
		}
		for j := range t.Partitions {
			if t.Partitions[j].Partition == partition {
				p := t.Partitions[j]
				t.Partitions = append(t.Partitions[:j:j], t.Partitions[j+1:]...)
				return &p
			}
		}
	}
	return nil
}

// errNotAsked is an answer that is none to what was asked.
var errNotAsked = errors.New("the answer is not of the one partition that was asked for")

// codeError is the sentence behind a code that came over the wire; nil with None.
func codeError(c reader.Code) error {
	if c == reader.None {
		return nil
	}
	return errors.New(c.String())
}

func fillPartition(d *reader.PartitionData, p *kmsg.FetchResponseTopicPartition) {
	d.Code = reader.Code(p.ErrorCode)
	d.Err = codeError(d.Code)
	d.HighWatermark, d.LastStableOffset, d.LogStartOffset, d.Records = p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches
	if p.AbortedTransactions != nil {
		d.Aborted = []reader.AbortedTransaction{}
	}
	for _, a := range p.AbortedTransactions {
		d.Aborted = append(d.Aborted, reader.AbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
	}
	if p.DivergingEpoch.EndOffset >= 0 || p.DivergingEpoch.Epoch >= 0 {
		d.Diverging = &abi.LeaderEpoch{Epoch: p.DivergingEpoch.Epoch, StartOffset: p.DivergingEpoch.EndOffset}
	}
	if p.CurrentLeader.LeaderID >= 0 || p.CurrentLeader.LeaderEpoch >= 0 {
		d.Leader = &reader.Leader{ID: p.CurrentLeader.LeaderID, Epoch: p.CurrentLeader.LeaderEpoch}
	}
}

// ListOffsets implements Host.
func (c *Client) ListOffsets(ctx context.Context, req *reader.ListOffsetsRequest) []reader.OffsetData {
	var out []reader.OffsetData
	for i := range req.Partitions {
		p := &req.Partitions[i]
		q, resp := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrListOffsetsResponse()
		q.Version, q.ReplicaID, q.IsolationLevel = req.Version, req.ReplicaID, int8(req.Isolation)
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp, one.CurrentLeaderEpoch = p.Partition, p.Timestamp, p.CurrentLeaderEpoch
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: p.Topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{one}}}
		d := reader.OffsetData{Topic: p.Topic, Partition: p.Partition, Code: reader.UnknownServerError, Offset: -1, Timestamp: -1, LeaderEpoch: -1}
		if d.Err = c.ask(ctx, p.Topic, p.Partition, q, resp); d.Err == nil {
			d.Err = errNotAsked
			if t := resp.Topics; len(t) == 1 && t[0].Topic == p.Topic && len(t[0].Partitions) == 1 && t[0].Partitions[0].Partition == p.Partition {
				got := &t[0].Partitions[0]
				d.Code, d.Offset, d.Timestamp, d.LeaderEpoch = reader.Code(got.ErrorCode), got.Offset, got.Timestamp, got.LeaderEpoch
				d.Err = codeError(d.Code)
			}
		}
		out = append(out, d)
	}
	return out
}

// OffsetForLeaderEpoch implements Host.
func (c *Client) OffsetForLeaderEpoch(ctx context.Context, req *reader.EpochRequest) reader.EpochEnd {
	q, resp := kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewPtrOffsetForLeaderEpochResponse()
	q.Version, q.ReplicaID = 4, -1
	one := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	one.Partition, one.CurrentLeaderEpoch, one.LeaderEpoch = req.Partition, req.CurrentLeaderEpoch, req.LeaderEpoch
	q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: req.Topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{one}}}
	out := reader.EpochEnd{Code: reader.UnknownServerError, LeaderEpoch: -1, EndOffset: -1}
	if out.Err = c.ask(ctx, req.Topic, req.Partition, q, resp); out.Err == nil {
		out.Err = errNotAsked
		if t := resp.Topics; len(t) == 1 && t[0].Topic == req.Topic && len(t[0].Partitions) == 1 && t[0].Partitions[0].Partition == req.Partition {
			got := &t[0].Partitions[0]
			out.Code, out.LeaderEpoch, out.EndOffset = reader.Code(got.ErrorCode), got.LeaderEpoch, got.EndOffset
			out.Err = codeError(out.Code)
		}
	}
	return out
}
