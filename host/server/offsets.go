package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// listOffsetsTimeout is remote.list.offsets.request.timeout.ms: for requests that don't tell theirs.
const listOffsetsTimeout = 30 * time.Second

// topicPartition names a partition in a request.
type topicPartition struct {
	topic     string
	partition int32
}

func listOffsets(ctx context.Context, c *conn, req *request, q *kmsg.ListOffsetsRequest) (*kmsg.ListOffsetsResponse, error) {
	timeout := listOffsetsTimeout
	if q.TimeoutMillis > 0 {
		timeout = time.Duration(q.TimeoutMillis) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen := map[topicPartition]int{}
	ask := &reader.ListOffsetsRequest{ID: req.id, ClientID: req.client, Version: req.version, ReplicaID: q.ReplicaID, Isolation: locality.Isolation(q.IsolationLevel),
		Markers: true} // else a client that comes from a broker would be told another place, for the same records
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			key := topicPartition{t.Topic, p.Partition}
			if seen[key]++; seen[key] == 1 {
				ask.Partitions = append(ask.Partitions, reader.ListOffsetsPartition{Topic: t.Topic, Partition: p.Partition,
					Timestamp: p.Timestamp, CurrentLeaderEpoch: p.CurrentLeaderEpoch})
			}
		}
	}
	found := map[topicPartition]*reader.OffsetData{}
	answers := c.may(req).listOffsets(ctx, ask)
	for i := range answers {
		a := &answers[i]
		found[topicPartition{a.Topic, a.Partition}] = a
		if a.Err != nil {
			c.tell(req, "list offsets", a.Topic, a.Partition, ask.Partitions[i].Timestamp, a.Code, a.Err)
		}
	}
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, t := range q.Topics {
		out := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			key := topicPartition{t.Topic, p.Partition}
			out.Partitions = append(out.Partitions, offsetAnswer(req.version, p.Partition, found[key], seen[key] > 1))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func offsetAnswer(version int16, partition int32, a *reader.OffsetData, twice bool) kmsg.ListOffsetsResponseTopicPartition {
	out := kmsg.NewListOffsetsResponseTopicPartition()
	out.Partition, out.Offset, out.Timestamp, out.LeaderEpoch = partition, -1, -1, -1
	if twice {
		out.ErrorCode = invalidRequest
		return out
	}
	out.ErrorCode, out.Offset, out.Timestamp, out.LeaderEpoch = int16(a.Code), a.Offset, a.Timestamp, a.LeaderEpoch
	if version == 0 && a.Offset >= 0 {
		out.OldStyleOffsets = []int64{a.Offset}
	}
	return out
}

func offsetForLeaderEpoch(ctx context.Context, c *conn, req *request, q *kmsg.OffsetForLeaderEpochRequest) (*kmsg.OffsetForLeaderEpochResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, listOffsetsTimeout)
	defer cancel()
	var asks []reader.EpochRequest
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			asks = append(asks, reader.EpochRequest{Topic: t.Topic, Partition: p.Partition,
				LeaderEpoch: p.LeaderEpoch, CurrentLeaderEpoch: p.CurrentLeaderEpoch})
		}
	}
	ends := c.may(req).epochEnds(ctx, asks)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range q.Topics {
		out := kmsg.OffsetForLeaderEpochResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			end := ends[0]
			ends = ends[1:]
			if end.Err != nil {
				c.tell(req, "leader epoch", t.Topic, p.Partition, int64(p.LeaderEpoch), end.Code, end.Err)
			}
			out.Partitions = append(out.Partitions, kmsg.OffsetForLeaderEpochResponseTopicPartition{ErrorCode: int16(end.Code),
				Partition: p.Partition, LeaderEpoch: end.LeaderEpoch, EndOffset: end.EndOffset})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}
