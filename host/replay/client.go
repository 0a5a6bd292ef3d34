package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/reader"
)

const (
	answerMax   = 256 << 20 // bytes of an answer
	dialTimeout = 10 * time.Second
)

// Client asks a Kafka endpoint what is replayed. It is a Host. After a failure of the connection every answer is an error,
// and Err tells the first.
type Client struct {
	address string

	mu          sync.Mutex // guards what follows: one request at a time
	nc          net.Conn
	correlation int32
	ids         map[string]abi.UUID
	err         error
}

// Dial connects to address. An error names it. The caller closes the client.
func Dial(ctx context.Context, address string) (*Client, error) {
	d := net.Dialer{Timeout: dialTimeout}
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, abi.Errorf("connect", address, abi.Unavailable, "%w", err)
	}
	c := &Client{address: address, nc: nc, ids: map[string]abi.UUID{}}
	if err := c.readTopics(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

// Close closes the connection.
func (c *Client) Close() error { return c.nc.Close() }

// Err is what went wrong with the connection; nil: nothing.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// readTopics learns the topics' ids.
func (c *Client) readTopics(ctx context.Context) error {
	q := kmsg.NewPtrMetadataRequest()
	q.Version = 12
	resp := kmsg.NewPtrMetadataResponse()
	if err := c.ask(ctx, q, resp); err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			c.ids[*t.Topic] = t.TopicID
		}
	}
	return nil
}

// ask sends a request and reads its answer.
func (c *Client) ask(ctx context.Context, q kmsg.Request, resp kmsg.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	stop := context.AfterFunc(ctx, func() { c.nc.SetDeadline(time.Now()) })
	defer stop()
	if err := c.exchangeLocked(q, resp); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		c.err = abi.Errorf("ask "+kmsg.NameForKey(q.Key()), c.address, abi.Unavailable, "%w", err)
	}
	return c.err
}

func (c *Client) exchangeLocked(q kmsg.Request, resp kmsg.Response) error {
	c.correlation++
	if _, err := c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("rsmhost-test")).AppendRequest(nil, q, c.correlation)); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < 4 || n > answerMax {
		return fmt.Errorf("an answer of %d bytes", n)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != c.correlation {
		return fmt.Errorf("an answer to request %d, want %d", got, c.correlation)
	}
	b := make([]byte, n-4)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return err
	}
	resp.SetVersion(q.GetVersion())
	if resp.IsFlexible() {
		if len(b) == 0 || b[0] != 0 {
			return errors.New("an answer with tags in its header")
		}
		b = b[1:]
	}
	return resp.ReadFrom(b)
}

// Fetch implements Host: a Fetch without a session that does not wait.
func (c *Client) Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	out := &reader.FetchResponse{}
	q, resp := c.fetchRequest(req), kmsg.NewPtrFetchResponse()
	err := c.ask(ctx, q, resp)
	if err == nil && resp.ErrorCode != 0 {
		err = fmt.Errorf("the answer as a whole has code %d", resp.ErrorCode)
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
	return out
}

// topicID is how a partition's topic is named from version 13 on; zero: it has no id.
func (c *Client) topicID(p *reader.FetchPartition) abi.UUID {
	if !p.TopicID.IsZero() {
		return p.TopicID
	}
	return c.ids[p.Topic]
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

func fillPartition(d *reader.PartitionData, p *kmsg.FetchResponseTopicPartition) {
	d.Code, d.Err = reader.Code(p.ErrorCode), nil
	if d.Code != reader.None {
		d.Err = errors.New(d.Code.String())
	}
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
		if d.Err = c.ask(ctx, q, resp); d.Err == nil && len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) == 1 {
			got := &resp.Topics[0].Partitions[0]
			d.Code, d.Offset, d.Timestamp, d.LeaderEpoch = reader.Code(got.ErrorCode), got.Offset, got.Timestamp, got.LeaderEpoch
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
	if out.Err = c.ask(ctx, q, resp); out.Err == nil && len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) == 1 {
		got := &resp.Topics[0].Partitions[0]
		out.Code, out.LeaderEpoch, out.EndOffset = reader.Code(got.ErrorCode), got.LeaderEpoch, got.EndOffset
	}
	return out
}
