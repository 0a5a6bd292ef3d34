package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/coordinator"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// wide asks for partitions 0..n-1 of a topic, at the offset 0.
func wide(topic string, n, wait int32) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxBytes, q.MinBytes, q.MaxWaitMillis, q.SessionEpoch = 12, 1<<20, 1, wait, -1
	of := kmsg.FetchRequestTopic{Topic: topic}
	for i := range n {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = i, 1<<20
		of.Partitions = append(of.Partitions, p)
	}
	q.Topics = []kmsg.FetchRequestTopic{of}
	return q
}

// TestLargeRequestsShareTheirMemory: whole fetches of many partitions at once take no more than their shares of memory.max, and
// each is answered.
func TestLargeRequestsShareTheirMemory(t *testing.T) {
	v := serveHost(t, host.Config{LogDirs: []string{local}, MemoryBytes: 64 << 20}, Options{})
	const partitions = 5000
	var wg sync.WaitGroup
	for range 16 {
		w := v.dial(t)
		wg.Go(func() {
			if got := len(ask[*kmsg.FetchResponse](w, wide("nobody's", partitions, 0), 12).Topics[0].Partitions); got != partitions {
				t.Errorf("%d partitions are answered", got)
			}
		})
	}
	wg.Wait()
	for name, s := range map[string]interface {
		InUse() (now, peak int64)
		Size() int64
	}{"decoded": v.memory.decoded, "answers": v.memory.answers} {
		hammer.Eventually(t, 10*time.Second, func() bool { now, _ := s.InUse(); return now == 0 })
		if _, peak := s.InUse(); peak > s.Size() || peak < partitions*50 {
			t.Errorf("%s: %d bytes at most, of %d", name, peak, s.Size())
		}
	}
}

// TestLargeRequestsThatWaitGiveWay: a large fetch waits for data no longer than nobody needs the memory that it takes.
func TestLargeRequestsThatWaitGiveWay(t *testing.T) {
	v := serveHost(t, host.Config{LogDirs: []string{local}, MemoryBytes: 8 << 20}, Options{})
	topic := v.host.Topics()[0]
	waits := func() *wire {
		q := fetchOf(topic, topic.Partitions[0].Offsets.HighWatermark, math.MaxInt32)
		for range 5000 { // of it alone there is nothing to say at once
			q.Topics[0].Partitions = append(q.Topics[0].Partitions, q.Topics[0].Partitions[0])
		}
		q.Version = 18
		w := v.dial(t)
		w.send(frame(q, 1))
		return w
	}
	first := waits()
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
	if now, _ := v.memory.answers.InUse(); now != 0 {
		t.Errorf("it waits, and holds %d bytes for an answer", now)
	}
	second := waits()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 18
	first.receive(resp)
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
	second.nc.Close()
}

// TestLyingRequestsTakeNoMemory: a list that says it is longer than it is costs its sender a connection, and what it took is
// there again.
func TestLyingRequestsTakeNoMemory(t *testing.T) {
	v := serve(t, local, Options{})
	body := make([]byte, 1<<20)
	binary.BigEndian.PutUint32(body[17:], 500_000) // topics
	for i := range 30 {
		body[21+i] = 1
	}
	w := v.dial(t)
	w.send(sized(header(1, 4, body...)...))
	w.closed()
	hammer.Eventually(t, 10*time.Second, func() bool { now, _ := v.memory.decoded.InUse(); return now == 0 })
}

// nobody takes what is sent.
type nobody struct{ nowhere }

func (nobody) Write(p []byte) (int, error)      { return len(p), nil }
func (nobody) Read([]byte) (int, error)         { return 0, io.EOF }
func (nobody) Close() error                     { return nil }
func (nobody) SetDeadline(time.Time) error      { return nil }
func (nobody) SetWriteDeadline(time.Time) error { return nil }

// many is n parts of a request.
func many[T any](n int, each func(i int) T) (out []T) {
	for i := range n {
		out = append(out, each(i))
	}
	return out
}

// TestAnswersAreCountedBeforeTheyAreMade: what is counted for a large answer is about what it takes; half of what is allocated is
// let go of on the way.
func TestAnswersAreCountedBeforeTheyAreMade(t *testing.T) {
	v := serve(t, local, Options{})
	const n = 20_000
	name := func(i int) string { return fmt.Sprintf("topic-%d", i) }
	session := wide("nobody's", n, 0)
	session.SessionEpoch = 0
	for what, tt := range map[string]struct {
		version int16
		q       kmsg.Request
	}{
		"fetch of partitions": {12, wide("nobody's", n, 0)},
		"fetch of topics": {12, func() kmsg.Request {
			q := wide("x", 1, 0)
			q.Topics = many(n, func(i int) kmsg.FetchRequestTopic {
				return kmsg.FetchRequestTopic{Topic: name(i), Partitions: q.Topics[0].Partitions}
			})
			return q
		}()},
		"fetch with a session": {12, session},
		"metadata": {12, &kmsg.MetadataRequest{Topics: many(n, func(i int) kmsg.MetadataRequestTopic {
			return kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(name(i))}
		})}},
		"offsets": {7, &kmsg.ListOffsetsRequest{Topics: []kmsg.ListOffsetsRequestTopic{{Topic: "nobody's", Partitions: many(n, func(i int) kmsg.ListOffsetsRequestTopicPartition {
			return kmsg.ListOffsetsRequestTopicPartition{Partition: int32(i), Timestamp: -1}
		})}}}},
		"leader epochs": {4, &kmsg.OffsetForLeaderEpochRequest{Topics: []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "nobody's", Partitions: many(n, func(i int) kmsg.OffsetForLeaderEpochRequestTopicPartition {
			return kmsg.OffsetForLeaderEpochRequestTopicPartition{Partition: int32(i)}
		})}}}},
		"configurations": {4, &kmsg.DescribeConfigsRequest{Resources: many(n, func(i int) kmsg.DescribeConfigsRequestResource {
			return kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name(i)}
		})}},
		"partitions": {0, &kmsg.DescribeTopicPartitionsRequest{Topics: many(n, func(i int) kmsg.DescribeTopicPartitionsRequestTopic {
			return kmsg.DescribeTopicPartitionsRequestTopic{Topic: name(i)}
		})}},
		"committed offsets": {8, &kmsg.OffsetFetchRequest{Groups: []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{
			Topic: "nobody's", Partitions: many(n, func(i int) int32 { return int32(i) })}}}}}},
		"records to delete": {2, &kmsg.DeleteRecordsRequest{Topics: []kmsg.DeleteRecordsRequestTopic{{Topic: "x", Partitions: many(n, func(i int) kmsg.DeleteRecordsRequestTopicPartition {
			return kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(i)}
		})}}}},
		"topics to make": {7, &kmsg.CreateTopicsRequest{Topics: many(n, func(i int) kmsg.CreateTopicsRequestTopic {
			return kmsg.CreateTopicsRequestTopic{Topic: name(i)}
		})}},
	} {
		t.Run(what, func(t *testing.T) { holdAnswer(t, v, tt.version, tt.q) })
	}
}

// holdAnswer holds what is counted for an answer against what is allocated while it is made.
func holdAnswer(t *testing.T, v *served, version int16, q kmsg.Request) {
	c := newConn(v.Server, nobody{})
	req := &request{api: v.apis[q.Key()], key: q.Key(), version: version, msg: q, id: "x", client: "x"}
	q.SetVersion(version)
	req.weight = weigh(req.msg)
	counted := c.answerBytes(req)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.answer(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if c.groups != nil {
		c.groups.Close()
	}
	took := int64(after.TotalAlloc - before.TotalAlloc)
	t.Logf("%d bytes counted, %d allocated", counted, took)
	if counted < took/2 || counted > took*5 {
		t.Errorf("%d bytes are counted, and %d allocated", counted, took)
	}
}

// TestAnswersAboutGroupsAreCounted: what a short question about groups is answered with is in proportion to what they keep, and
// counted so.
func TestAnswersAboutGroupsAreCounted(t *testing.T) {
	v := serve(t, local, Options{})
	inside := v.groups.Connect("127.0.0.1", coordinator.Rights{})
	defer inside.Close()
	do := func(version int16, q kmsg.Request) kmsg.Response {
		q.SetVersion(version)
		return inside.Do(t.Context(), "x", q)
	}
	for i := range 5000 {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Group, q.Generation = fmt.Sprintf("group-%d-%s", i, strings.Repeat("n", i%200)), -1
		do(8, q)
	}
	commits := kmsg.NewPtrOffsetCommitRequest()
	commits.Group, commits.Generation = "commits", -1
	for _, topic := range v.host.Topics() {
		for _, p := range topic.Partitions {
			commits.Topics = append(commits.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic.Name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{
				{Partition: p.ID.Partition, LeaderEpoch: -1, Metadata: kmsg.StringPtr(strings.Repeat("m", 4000))}}})
		}
	}
	do(8, commits)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "members", "consumer", 60_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 1<<20)}}
	in := do(3, join).(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = "members", in.Generation, in.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: in.MemberID, MemberAssignment: make([]byte, 1<<20)}}
	if r := do(3, sync).(*kmsg.SyncGroupResponse); r.ErrorCode != 0 {
		t.Fatal(r.ErrorCode)
	}
	for i := range 300 {
		beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = "KIP-848", fmt.Sprint("m", i), 60_000
		beat.SubscribedTopicNames, beat.Topics = []string{"payments"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if r := do(0, beat).(*kmsg.ConsumerGroupHeartbeatResponse); r.ErrorCode != 0 {
			t.Fatal(r.ErrorCode)
		}
	}
	for what, tt := range map[string]struct {
		version int16
		q       kmsg.Request
	}{
		"list":                  {5, &kmsg.ListGroupsRequest{}},
		"description":           {5, &kmsg.DescribeGroupsRequest{Groups: []string{"members"}}},
		"description, KIP-848":  {0, &kmsg.ConsumerGroupDescribeRequest{Groups: []string{"KIP-848"}}},
		"all offsets":           {7, &kmsg.OffsetFetchRequest{Group: "commits"}},
		"all offsets of groups": {8, &kmsg.OffsetFetchRequest{Groups: []kmsg.OffsetFetchRequestGroup{{Group: "commits"}}}},
	} {
		t.Run(what, func(t *testing.T) { holdAnswer(t, v, tt.version, tt.q) })
	}
}

// TestProduceOfManyPartitions: what is kept of them is counted, and where there is no room its connection ends.
func TestProduceOfManyPartitions(t *testing.T) {
	v := serveHost(t, host.Config{LogDirs: []string{local}, MemoryBytes: 32 << 20}, Options{})
	produce := func(n int) *kmsg.ProduceRequest {
		q := kmsg.NewPtrProduceRequest()
		q.Version, q.Acks = 9, -1
		q.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", Partitions: many(n, func(i int) kmsg.ProduceRequestTopicPartition {
			return kmsg.ProduceRequestTopicPartition{Partition: int32(i)}
		})}}
		return q
	}
	w := v.dial(t)
	if got := len(ask[*kmsg.ProduceResponse](w, produce(5000), 9).Topics[0].Partitions); got != 5000 {
		t.Errorf("%d partitions are answered", got)
	}
	if _, peak := v.memory.decoded.InUse(); peak < 5000*100 {
		t.Errorf("%d bytes are counted at most", peak)
	}
	w.send(frame(produce(50_000), 1))
	w.closed()
	hammer.Eventually(t, 10*time.Second, func() bool { now, _ := v.memory.decoded.InUse(); return now == 0 })
}

// TestWeigh: a decoded request is weighed with all that it points to, and loses the tags that nobody knows.
func TestWeigh(t *testing.T) {
	q := wide("orders", 100, 0)
	q.UnknownTags.Set(77, make([]byte, 1000))
	q.Topics[0].Partitions[7].UnknownTags.Set(78, []byte("x"))
	least, most := int64(100*50), int64(100*100+1000)
	if got := weigh(q); got < least || got > most {
		t.Errorf("%d bytes, want %d to %d", got, least, most)
	}
	if q.UnknownTags.Len()+q.Topics[0].Partitions[7].UnknownTags.Len() > 0 {
		t.Error("tags are kept")
	}
	if q.Topics[0].Partitions[7].Partition != 7 || q.Topics[0].Topic != "orders" {
		t.Errorf("it is another request now: %+v", q.Topics[0].Partitions[7])
	}
	name := strings.Repeat("n", 5000)
	if got := weigh(&kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: &name}}}); got < 5000 || got > 5200 {
		t.Errorf("a long name is %d bytes", got)
	}
}

// TestSessionOfOneWhoMayNotRead: the rules are asked before a session begins or grows.
func TestSessionOfOneWhoMayNotRead(t *testing.T) {
	k := newKeep(t)
	v := k.serve(access.Options{RulesFile: k.write("acl", "* read topic:mine")}, Options{})
	w := v.dial(t)
	q := wide("secret", 100, 0)
	q.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](w, q, 12)
	if n, _ := v.sessions.Size(); n != 0 || resp.SessionID != 0 || resp.Topics[0].Partitions[99].ErrorCode != topicAuthorizationFailed {
		t.Errorf("%d sessions: %d", n, resp.SessionID)
	}
	q.Topics[0].Topic = "mine"
	resp = ask[*kmsg.FetchResponse](w, q, 12)
	if n, parts := v.sessions.Size(); n != 1 || parts != 100 || resp.SessionID == 0 {
		t.Errorf("%d sessions of %d partitions: %d", n, parts, resp.SessionID)
	}
	more := wide("secret", 1, 0)
	more.SessionID, more.SessionEpoch = resp.SessionID, 1
	if resp = ask[*kmsg.FetchResponse](w, more, 12); resp.ErrorCode == 0 || len(resp.Topics) > 0 {
		t.Errorf("it grew: %+v", resp)
	}
	if n, _ := v.sessions.Size(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}
