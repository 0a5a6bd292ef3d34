package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// produce refuses each partition with an error after which no client tries again: what a broker says to a client that may not
// write to the topic. Who wants no answer is told by a closed connection, as a broker does it.
func produce(ctx context.Context, c *conn, _ *request, q *kmsg.ProduceRequest) (*kmsg.ProduceResponse, error) {
	if q.Acks == 0 {
		return nil, broken("Produce without acknowledgement: %s", readOnly)
	}
	c.writes.wait(ctx, c.s.draining)
	resp := kmsg.NewPtrProduceResponse()
	for _, t := range q.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode, one.ErrorMessage = p.Partition, topicAuthorizationFailed, kmsg.StringPtr(readOnly)
			one.BaseOffset, one.LogAppendTime, one.LogStartOffset = -1, -1, -1
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// initProducerID gives out a producer id that is never used: an idempotent producer, which today's are if nobody says otherwise,
// asks for one before it sends anything, and asks again without a pause where it is refused. Its records are refused instead,
// once each. A transactional one is refused here too, after which it ends.
func initProducerID(ctx context.Context, c *conn, req *request, q *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	c.writes.wait(ctx, c.s.draining)
	resp := kmsg.NewPtrInitProducerIDResponse()
	if q.TransactionalID != nil {
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = transactionalIDDenied, -1, -1
		return resp, nil
	}
	c.s.producers.add(c.producer(req), time.Now())
	resp.ProducerID, resp.ProducerEpoch = c.s.producerID.Add(1), 0
	return resp, nil
}

const (
	// writesAtOnce is how many attempts to write a connection may make at once; each that follows waits for writePause, and each
	// writePause without one allows one more.
	writesAtOnce = 50
	writePause   = 100 * time.Millisecond
)

// writePace slows down a client that tries to write and tries again, whatever it was told.
type writePace struct {
	debt int // attempts, less those that were waited for
	last time.Time
}

// wait waits for a connection's turn to be refused once more.
func (p *writePace) wait(ctx context.Context, stop <-chan struct{}) {
	now := time.Now()
	p.debt = max(0, p.debt-int(min(now.Sub(p.last)/writePause, writesAtOnce))) + 1
	if p.last = now; p.debt <= writesAtOnce {
		return
	}
	select {
	case <-time.After(writePause):
	case <-ctx.Done():
	case <-stop:
	}
}

// createTopics refuses as a broker does it whose rules do not allow to make topics: what needs a topic for itself (MirrorMaker 2,
// Connect) goes on without it after that error alone.
func createTopics(q *kmsg.CreateTopicsRequest) *kmsg.CreateTopicsResponse {
	resp := kmsg.NewPtrCreateTopicsResponse()
	for _, t := range q.Topics {
		one := kmsg.NewCreateTopicsResponseTopic()
		one.Topic, one.ErrorCode, one.ErrorMessage = t.Topic, topicAuthorizationFailed, kmsg.StringPtr(readOnly)
		one.NumPartitions, one.ReplicationFactor = -1, -1
		resp.Topics = append(resp.Topics, one)
	}
	return resp
}

func deleteTopics(q *kmsg.DeleteTopicsRequest) *kmsg.DeleteTopicsResponse {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		one := kmsg.NewDeleteTopicsResponseTopic()
		one.Topic, one.TopicID, one.ErrorCode, one.ErrorMessage = name, id, policyViolation, kmsg.StringPtr(readOnly)
		resp.Topics = append(resp.Topics, one)
	}
	for _, name := range q.TopicNames {
		add(&name, [16]byte{})
	}
	for _, t := range q.Topics {
		add(t.Topic, t.TopicID)
	}
	return resp
}

func deleteRecords(q *kmsg.DeleteRecordsRequest) *kmsg.DeleteRecordsResponse {
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for _, t := range q.Topics {
		out := kmsg.DeleteRecordsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.DeleteRecordsResponseTopicPartition{Partition: p.Partition, LowWatermark: -1, ErrorCode: policyViolation})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func createPartitions(q *kmsg.CreatePartitionsRequest) *kmsg.CreatePartitionsResponse {
	resp := kmsg.NewPtrCreatePartitionsResponse()
	for _, t := range q.Topics {
		resp.Topics = append(resp.Topics, kmsg.CreatePartitionsResponseTopic{Topic: t.Topic, ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
	}
	return resp
}

func alterConfigs(q *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	resp := kmsg.NewPtrAlterConfigsResponse()
	for _, r := range q.Resources {
		resp.Resources = append(resp.Resources, kmsg.AlterConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName,
			ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
	}
	return resp
}

func incrementalAlterConfigs(q *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for _, r := range q.Resources {
		resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName,
			ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
	}
	return resp
}
