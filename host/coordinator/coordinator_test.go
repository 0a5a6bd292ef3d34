package coordinator

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// topics are what a test serves.
type topics struct {
	mu      sync.Mutex
	now     []Topic
	changed chan struct{}
}

func (s *topics) Topics() []Topic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *topics) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// serve serves other topics from now on. Who follows them may not have heard of it when it returns.
func (s *topics) serve(now ...Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

var (
	orders   = Topic{"orders", abi.UUID{1, 1}, 4}
	payments = Topic{"payments", abi.UUID{2, 2}, 2}
)

// buffer is a log that a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// opened is a coordinator of a test.
type opened struct {
	*Coordinator
	topics *topics
	log    *buffer
}

// open opens a coordinator of orders and payments, and closes it when the test ends.
func open(t testing.TB, dir string) *opened {
	t.Helper()
	o := &opened{topics: &topics{now: []Topic{orders, payments}}, log: &buffer{}}
	var err error
	if o.Coordinator, err = Open(Options{Topics: o.topics, Dir: dir, Log: slog.New(slog.NewTextHandler(o.log, nil))}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// connect begins a session, and closes it when the test ends.
func (o *opened) connect(t testing.TB) *Session {
	s := o.Connect("192.0.2.7", Rights{})
	t.Cleanup(s.Close)
	return s
}

// newest gives a request the newest version that is served.
func newest[Q kmsg.Request](q Q) Q {
	q.SetVersion(q.MaxVersion())
	return q
}

// do asks something.
func do[R kmsg.Response](t testing.TB, s *Session, q kmsg.Request) R {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Do(ctx, "tester", q).(R)
}

// commitOf is a commit of one partition of a topic.
func commitOf(group string, topic Topic, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group = 10, group
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 7, kmsg.StringPtr("note")
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return q
}

// mustCommit commits, and gives the code.
func mustCommit(t testing.TB, s *Session, q *kmsg.OffsetCommitRequest) int16 {
	t.Helper()
	resp := do[*kmsg.OffsetCommitResponse](t, s, q)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Topic != q.Topics[0].Topic || resp.Topics[0].TopicID != q.Topics[0].TopicID {
		t.Fatalf("%+v", resp)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// fetchOf asks for one partition.
func fetchOf(group string, topic Topic, partition int32) *kmsg.OffsetFetchRequest {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version = 10
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []int32{partition}}}
	q.Groups = []kmsg.OffsetFetchRequestGroup{g}
	return q
}

// offsetOf gives what a group committed of a partition; -1: nothing.
func offsetOf(t testing.TB, s *Session, group string, topic Topic, partition int32) int64 {
	t.Helper()
	resp := do[*kmsg.OffsetFetchResponse](t, s, fetchOf(group, topic, partition))
	if len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	if p.Offset >= 0 && (p.LeaderEpoch != 7 || *p.Metadata != "note") {
		t.Errorf("%+v", p)
	}
	return p.Offset
}

// beat is a heartbeat of KIP-848; with epoch 0 the member joins.
func beat(group, member string, epoch int32, subscribed ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.MemberEpoch, q.RebalanceTimeoutMillis = 1, group, member, epoch, 60_000
	q.SubscribedTopicNames, q.Topics = subscribed, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return q
}

// joinOf is a JoinGroup of the classic protocol.
func joinOf(group, member string) *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 9, group, member, "consumer", 45_000, 300_000
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: (&kmsg.ConsumerMemberMetadata{Topics: []string{"orders"}}).AppendTo(nil)}}
	return q
}

// joined gives a member that is in a group of its own.
func joined(t testing.TB, s *Session, group string) *kmsg.JoinGroupResponse {
	t.Helper()
	resp := do[*kmsg.JoinGroupResponse](t, s, joinOf(group, ""))
	if resp.ErrorCode != 79 { // MEMBER_ID_REQUIRED
		t.Fatalf("%+v", resp)
	}
	resp = do[*kmsg.JoinGroupResponse](t, s, joinOf(group, resp.MemberID))
	if resp.ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	return resp
}
