package server

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/format"
)

func internal(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

func metadata(_ context.Context, c *conn, req *request, q *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	s, resp, may := c.s, kmsg.NewPtrMetadataResponse(), c.may(req)
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: s.node, Host: c.address.host, Port: c.address.port}}
	resp.ClusterID, resp.ControllerID, resp.AuthorizedOperations = &s.o.ClusterID, s.node, noAuthorizedOperations
	if q.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = may.clusterOperations()
	}
	resp.Topics = may.described(q)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		switch {
		case q.IncludeTopicAuthorizedOperations && t.ErrorCode == 0:
			t.AuthorizedOperations = may.topicOperations(*t.Topic)
		case t.ErrorCode == unknownTopicOrPartition && q.AllowAutoTopicCreation && c.s.producers.has(c.producer(req), time.Now()):
			t.ErrorCode = topicAuthorizationFailed
		}
	}
	return resp, nil
}

// A producer that asks for a topic which is not there, and would have it made, is told that it may not make it, as by a broker whose
// rules deny that. Of a topic that is unknown it would ask again until max.block.ms is over, a minute for each record: MirrorMaker 2,
// which writes down how far it is in a topic of its own beside the one that it copies, copied nothing. Consumers wait for a topic
// that comes later.

// described are the topics of a request, or all that the client may see.
func (m may) described(q *kmsg.MetadataRequest) []kmsg.MetadataResponseTopic {
	out := []kmsg.MetadataResponseTopic{}
	if q.Topics == nil || q.Version == 0 && len(q.Topics) == 0 {
		for _, t := range m.topics(m.c.s.topics()) {
			out = append(out, m.c.s.describe(t))
		}
		return out
	}
	seen := map[string]bool{} // a topic that is asked for often is answered once: the answer must not be much longer than the question
	for i := range q.Topics {
		name := string(q.Topics[i].TopicID[:])
		if t := q.Topics[i].Topic; t != nil {
			name += *t
		}
		if !seen[name] {
			seen[name] = true
			out = append(out, m.find(&q.Topics[i]))
		}
	}
	return out
}

// find describes the topic that a client names, by its id where it gives one. One that the client may not see is denied
// whether or not it is there.
func (m may) find(q *kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	s, missing := m.c.s, kmsg.NewMetadataResponseTopic()
	missing.TopicID, missing.Partitions = q.TopicID, []kmsg.MetadataResponseTopicPartition{}
	if q.TopicID != (abi.UUID{}) {
		if !m.topicID(access.Describe, q.TopicID) {
			missing.ErrorCode = topicAuthorizationFailed // and no name, as a broker does it
			return missing
		}
		if t := s.identified(q.TopicID); t != nil {
			return s.describe(t)
		}
		missing.ErrorCode = unknownTopicID
		return missing
	}
	missing.ErrorCode, missing.Topic = unknownTopicOrPartition, q.Topic
	if q.Topic == nil {
		return missing
	}
	if !m.topic(access.Describe, *q.Topic) {
		missing.ErrorCode = topicAuthorizationFailed
		return missing
	}
	if t := s.named(*q.Topic); t != nil {
		return s.describe(t)
	}
	if !format.ValidTopic(*q.Topic) { // no topic can have it: a client says so, and does not wait for one
		missing.ErrorCode = invalidTopic
	}
	return missing
}

func (s *Server) describe(t *host.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.WireID(), internal(t.Name)
	out.Partitions = []kmsg.MetadataResponseTopicPartition{}
	for _, p := range t.Partitions {
		out.Partitions = append(out.Partitions, withoutLeader(int32(len(out.Partitions)), p.ID.Partition)...)
		one := kmsg.NewMetadataResponseTopicPartition()
		one.Partition, one.Leader, one.LeaderEpoch = p.ID.Partition, s.node, p.KnownLeaderEpoch()
		one.Replicas, one.ISR, one.OfflineReplicas = []int32{s.node}, []int32{s.node}, []int32{}
		out.Partitions = append(out.Partitions, one)
	}
	return out
}

// maxFilled bounds the numbers of partitions that are told although they are not there.
const maxFilled = 10_000

// withoutLeader is the partitions from next to before number, which are in none of the tiers here: as a broker tells of those that
// nobody leads. A client that misses a number takes none of the topic's partitions.
func withoutLeader(next, number int32) []kmsg.MetadataResponseTopicPartition {
	var out []kmsg.MetadataResponseTopicPartition
	for ; next < min(number, maxFilled); next++ {
		one := kmsg.NewMetadataResponseTopicPartition()
		one.Partition, one.ErrorCode, one.Leader, one.LeaderEpoch = next, leaderNotAvailable, -1, -1
		one.Replicas, one.ISR, one.OfflineReplicas = []int32{}, []int32{}, []int32{}
		out = append(out, one)
	}
	return out
}

func describeCluster(_ context.Context, c *conn, req *request, q *kmsg.DescribeClusterRequest) (*kmsg.DescribeClusterResponse, error) {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.EndpointType, resp.ClusterID, resp.ControllerID = 1, c.s.o.ClusterID, c.s.node
	resp.ClusterAuthorizedOperations = noAuthorizedOperations
	if q.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = c.may(req).clusterOperations()
	}
	if q.Version >= 1 && q.EndpointType != 1 {
		resp.ErrorCode, resp.ErrorMessage = unsupportedEndpointType, kmsg.StringPtr("this is a broker: there is no controller to ask")
		return resp, nil
	}
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: c.s.node, Host: c.address.host, Port: c.address.port}}
	return resp, nil
}

// describeTopicPartitions gives topics by name, up to a number of partitions, and where to go on.
func describeTopicPartitions(_ context.Context, c *conn, req *request, q *kmsg.DescribeTopicPartitionsRequest) (*kmsg.DescribeTopicPartitionsResponse, error) {
	resp, may := kmsg.NewPtrDescribeTopicPartitionsResponse(), c.may(req)
	resp.Topics = []kmsg.DescribeTopicPartitionsResponseTopic{}
	limit := maxDescribedTopicPartitions
	if n := int(q.ResponsePartitionLimit); n > 0 && n < limit {
		limit = n
	}
	from, partition := "", int32(0)
	if q.Cursor != nil {
		from, partition = q.Cursor.Topic, max(q.Cursor.Partition, 0)
	}
	for _, name := range may.names(q.Topics) {
		if name < from {
			continue
		}
		if name != from {
			partition = 0
		}
		if limit <= 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: partition}
			break
		}
		one := may.find(&kmsg.MetadataRequestTopic{Topic: &name})
		out := describedTopic(&one, partition)
		if n := len(out.Partitions); n > limit {
			next := out.Partitions[limit].Partition
			out.Partitions = out.Partitions[:limit]
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
		}
		limit -= max(1, len(out.Partitions)) // also what has none takes room
		resp.Topics = append(resp.Topics, out)
		if resp.NextCursor != nil {
			break
		}
	}
	return resp, nil
}

// names are those of a request, or of all topics that the client may see, in order and each once.
func (m may) names(asked []kmsg.DescribeTopicPartitionsRequestTopic) []string {
	var out []string
	for _, t := range asked {
		out = append(out, t.Topic)
	}
	if len(asked) == 0 {
		for _, t := range m.topics(m.c.s.topics()) {
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func describedTopic(t *kmsg.MetadataResponseTopic, from int32) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.ErrorCode, out.Topic, out.TopicID, out.IsInternal = t.ErrorCode, t.Topic, t.TopicID, t.IsInternal
	for _, p := range t.Partitions {
		if p.Partition < from {
			continue
		}
		one := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		one.Partition, one.LeaderID, one.LeaderEpoch = p.Partition, p.Leader, p.LeaderEpoch
		one.Replicas, one.ISR, one.OfflineReplicas = p.Replicas, p.ISR, p.OfflineReplicas
		one.EligibleLeaderReplicas, one.LastKnownELR = []int32{}, []int32{} // Kafka's own admin client does not bear null
		out.Partitions = append(out.Partitions, one)
	}
	return out
}
