package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/server/fetchsession"
)

// Requests and answers are counted before they are there: a request of 2 MiB is 60 MiB when it is decoded, 45 bytes that name a
// session are answered about each of its partitions, and each of a thousand connections may ask at once. Three shares of
// memory.max bound them:
//
//	decoded   what requests are when they are decoded, until they are answered
//	answers   what is made for an answer, beside records, until it is sent
//	sessions  what fetch sessions keep
//
// Who holds of decoded may wait for answers, and who holds of answers waits for no share, so that nobody waits for ever.
const (
	decodedPart  = 8 // memory.max by this
	answersPart  = 8
	sessionsPart = 16

	// decodeFactor is what a byte of a request may be while it is decoded, at most: one list of elements of two bytes, with
	// tags. Then it is weighed.
	decodeFactor = 100
	// uncountedAnswer: a smaller answer is not counted.
	uncountedAnswer = 64 << 10
)

// memory is the shares of a Server.
type memory struct {
	decoded, answers *budget.Share
}

func newMemory(pool *budget.Pool) memory {
	return memory{decoded: pool.Share(pool.Limit() / decodedPart), answers: pool.Share(pool.Limit() / answersPart)}
}

// wanted is the bytes that requests wait for.
func (m *memory) wanted() int64 { return m.decoded.Wanted() + m.answers.Wanted() }

// sessionOptions bound fetch sessions by their share, which the pool counts as it counts a cache.
func sessionOptions(pool *budget.Pool) fetchsession.Options {
	o := fetchsession.Options{Reserve: pool.Reserve, Unreserve: pool.Unreserve}
	if limit := pool.Limit(); limit > 0 {
		o.Places = int(min(fetchsession.DefaultPlaces, max(limit/sessionsPart/fetchsession.PlaceBytes, 1)))
	}
	return o
}

// take takes n bytes of a share, and waits for them. Connections that take nothing of their answers are closed for it.
func (s *Server) take(ctx context.Context, of *budget.Share, n int64) (*budget.Held, error) {
	if h := of.Try(n); h != nil {
		return h, nil
	}
	s.shed(n)
	return of.Take(ctx, n)
}

// Bytes that are made for each part of an answer, its encoded form included. TestAnswersAreCountedBeforeTheyAreMade holds them
// against what is allocated.
const (
	fetchEach     = 1300 // a partition of a Fetch
	offsetEach    = 1000 // of a ListOffsets
	epochEach     = 600  // of an OffsetForLeaderEpoch
	topicEach     = 900  // a topic that is described
	partitionEach = 400  // a partition of it
	configEach    = 6000 // a topic whose settings are told
	dirEach       = 120  // a partition in a log directory
	offsetsFactor = 120  // a byte of a decoded OffsetFetch, whose partitions are four
	elseFactor    = 6    // of any other kind
)

// answerBytes is about what an answer takes in memory while it is made and sent, beside records.
func (c *conn) answerBytes(req *request) int64 {
	n := elseFactor * req.weight
	switch q := req.msg.(type) {
	case *kmsg.FetchRequest:
		n = fetchEach * int64(c.s.sessions.Partitions(fetchsession.Who{Owner: c.owner()}, q))
	case *kmsg.ListOffsetsRequest:
		n = 0
		for i := range q.Topics {
			n += topicEach + offsetEach*int64(len(q.Topics[i].Partitions))
		}
	case *kmsg.OffsetForLeaderEpochRequest:
		n = 0
		for i := range q.Topics {
			n += topicEach + epochEach*int64(len(q.Topics[i].Partitions))
		}
	case *kmsg.MetadataRequest:
		n = c.s.metadataBytes(q)
	case *kmsg.ElectLeadersRequest:
		if q.Topics == nil {
			n = c.s.metadataBytes(&kmsg.MetadataRequest{})
		}
	case *kmsg.ListConfigResourcesRequest:
		n = c.s.metadataBytes(&kmsg.MetadataRequest{})
	case *kmsg.DescribeTopicPartitionsRequest:
		n = req.weight + c.s.describedBytes(q)
	case *kmsg.OffsetFetchRequest:
		n = offsetsFactor * req.weight
	case *kmsg.DescribeConfigsRequest:
		for i := range q.Resources {
			if n += topicEach; c.s.named(q.Resources[i].ResourceName) != nil {
				n += configEach
			}
		}
	case *kmsg.DescribeLogDirsRequest:
		for _, d := range c.s.host.LogDirs() {
			n += dirEach * int64(len(d.Partitions))
		}
	}
	return n + c.s.groups.AnswerBytes(req.msg)
}

// describedBytes is answerBytes of a DescribeTopicPartitions, which is answered in pieces.
func (s *Server) describedBytes(q *kmsg.DescribeTopicPartitionsRequest) int64 {
	most := int64(maxDescribedTopicPartitions)
	if n := int64(q.ResponsePartitionLimit); n > 0 {
		most = min(most, n)
	}
	n := int64(0)
	for i := range q.Topics {
		if n += topicBytes(s.named(q.Topics[i].Topic)); n > most*(topicEach+partitionEach) {
			break
		}
	}
	if len(q.Topics) == 0 {
		n = s.metadataBytes(&kmsg.MetadataRequest{})
	}
	return min(n, most*(topicEach+partitionEach))
}

// metadataBytes is answerBytes of a Metadata. A topic that is named twice is counted twice.
func (s *Server) metadataBytes(q *kmsg.MetadataRequest) (n int64) {
	if q.Topics == nil || q.Version == 0 && len(q.Topics) == 0 {
		for _, t := range s.topics() {
			n += topicBytes(t)
		}
		return n
	}
	for i := range q.Topics {
		name := ""
		if q.Topics[i].Topic != nil {
			name = *q.Topics[i].Topic
		}
		n += topicBytes(s.find(name, q.Topics[i].TopicID))
	}
	return n
}

// topicBytes is what an answer takes that describes a topic; nil: it says that there is none.
func topicBytes(t *host.Topic) int64 {
	if t == nil {
		return topicEach
	}
	return topicEach + partitionEach*int64(len(t.Partitions))
}

// making is what an answer takes while it is made. It is for who answers.
type making struct {
	s    *Server
	n    int64
	held *budget.Held
}

// begin takes the answer's bytes, and waits for them.
func (m *making) begin(ctx context.Context) (err error) {
	if m.n >= uncountedAnswer {
		m.held, err = m.s.take(ctx, m.s.memory.answers, m.n)
	}
	return err
}

// end gives them back.
func (m *making) end() {
	m.held.Give()
	m.held = nil
}
