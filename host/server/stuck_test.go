package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// offsets reads one partition from an offset on until n records came, and gives their offsets.
func offsets(t *testing.T, v *served, topic string, from int64, n int, o ...kgo.Opt) []int64 {
	t.Helper()
	cl := at(t, v, topic, from, o...)
	defer cl.Close()
	return take(t, cl, n)
}

// at is a consumer of one partition from an offset on.
func at(t *testing.T, v *served, topic string, from int64, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(v.address), kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}})}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// take gives the offsets of the next n records.
func take(t *testing.T, cl *kgo.Client, n int) (got []int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for len(got) < n {
		for _, r := range cl.PollFetches(ctx).Records() {
			got = append(got, r.Offset)
		}
		if ctx.Err() != nil {
			t.Fatalf("stuck after %v", got)
		}
	}
	return got
}

// TestNoConsumerIsStuck: whatever lies at an offset, a consumer comes to the next record behind it. A segment's tail may be
// compacted away, in the middle of the remote tier and at its end, before the local tier and within it.
func TestNoConsumerIsStuck(t *testing.T) {
	id := tp("orders")
	batch := func(base int64) kafkabytes.Batch { return kafkabytes.Batch{Base: base, Last: base} } // one record
	until := func(s *kafkabytes.Segment, end int64) *kafkabytes.Segment { s.Meta.EndOffset = end; return s }
	a := until(kafkabytes.NewSegment(t, id, 1, batch(0), batch(5)), 19) // 6 to 19 are gone
	b := until(kafkabytes.NewSegment(t, id, 2, batch(20), batch(25)), 39)
	c := until(kafkabytes.NewSegment(t, id, 3, batch(40)), 59) // the last that is tiered
	c.Meta.LeaderEpochs[0].StartOffset = 40
	local := []*kafkabytes.Segment{kafkabytes.NewSegment(t, id, 4, batch(60), batch(65)), kafkabytes.NewSegment(t, id, 5, batch(80))}
	meta, dir := t.TempDir(), t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(a, b, c)...)
	kafkabytes.WriteLog(t, dir, id, local...)
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
	all := []int64{0, 5, 20, 25, 40, 60, 65, 80}
	v := serveHost(t, host.Config{RSM: memrsm.New(memrsm.Inline, a, b, c), Metadata: "dir:" + meta, LogDirs: []string{dir}}, Options{})
	for from := int64(0); from <= 80; from++ {
		i, _ := slices.BinarySearch(all, from)
		if got := offsets(t, v, "orders", from, len(all)-i); !slices.Equal(got, all[i:]) {
			t.Errorf("from %d: %v, want %v", from, got, all[i:])
		}
	}
}

// TestOpenTransaction: a read_committed consumer waits before a transaction that is open, and goes on behind it when it was aborted.
func TestOpenTransaction(t *testing.T) {
	id, dir := tp("orders"), t.TempDir()
	plain := kafkabytes.Batch{Base: 0, Last: 0, ProducerID: -1}
	open := kafkabytes.Batch{Base: 1, Last: 1, Attributes: kafkabytes.Transactional, ProducerID: 7}
	behind := kafkabytes.Batch{Base: 2, Last: 2, ProducerID: -1}
	kafkabytes.WriteLog(t, dir, id, kafkabytes.NewSegment(t, id, 1, plain, open, behind))
	v := serve(t, dir, Options{})
	if got := offsets(t, v, "orders", 0, 3); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("uncommitted: %v", got)
	}
	cl := at(t, v, "orders", 0, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if got := take(t, cl, 1); !slices.Equal(got, []int64{0}) {
		t.Errorf("before the transaction: %v", got)
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
	marker := kafkabytes.Batch{Base: 3, Last: 3, Attributes: kafkabytes.Transactional | kafkabytes.Control, ProducerID: 7}
	kafkabytes.WriteLog(t, dir, id, kafkabytes.NewSegment(t, id, 1, plain, open, behind, marker))
	if err := v.host.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := take(t, cl, 1); !slices.Equal(got, []int64{2}) {
		t.Errorf("after it was aborted: %v", got)
	}
}

// TestStoreThatFailsAFewTimes: what passes is tried again within the request, and nobody is told.
func TestStoreThatFailsAFewTimes(t *testing.T) {
	failures := 0
	v, store := tiered(t, func(_ context.Context, c memrsm.Call) error {
		if c.Index != 0 {
			return nil
		}
		if failures++; failures <= 3 {
			return abi.Errorf("fetch", "orders", abi.Unavailable, "not now")
		}
		return nil
	})
	if got := poll(t, consumer(t, v, "orders"), 2); got["orders"] != 2 {
		t.Errorf("%v", got)
	}
	if n := logReads(store); n != 4 {
		t.Errorf("the store was asked %d times", n)
	}
}

// TestHeldBackInASession: "empty" has nothing behind its offset, which is known only when its remote read is done: it took the right to
// exceed an allowance until then. "live" always has data. "held", whose batch is larger than its allowance, must have its turn.
func TestHeldBackInASession(t *testing.T) {
	id := func(topic string, n byte) abi.TopicIDPartition {
		return abi.TopicIDPartition{Topic: topic, TopicID: kafkabytes.ID(n)}
	}
	batch := kafkabytes.Batch{Base: 0, Last: 9, Size: 1000}
	empty, held := kafkabytes.NewSegment(t, id("empty", 1), 1, batch), kafkabytes.NewSegment(t, id("held", 2), 2, batch)
	empty.Meta.EndOffset = 19
	meta, dir := t.TempDir(), t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(empty, held)...)
	kafkabytes.WriteLog(t, dir, id("live", 3), kafkabytes.NewSegment(t, id("live", 3), 3, batch))
	for _, exact := range []bool{false, true} {
		cfg := host.Config{RSM: memrsm.New(memrsm.Inline, empty, held), Metadata: "dir:" + meta, LogDirs: []string{dir}, KafkaExact: exact}
		v := serveHost(t, cfg, Options{KafkaExact: exact})
		w := v.dial(t)
		q := fetchOf(v.topic(t, "empty"), 10, 0)
		q.Topics = append(q.Topics, fetchOf(v.topic(t, "held"), 0, 0).Topics[0], fetchOf(v.topic(t, "live"), 0, 0).Topics[0])
		for i := range 2 {
			q.Topics[i].Partitions[0].PartitionMaxBytes = 10
		}
		q.SessionEpoch = 0
		got := 0
		for range 5 {
			resp := ask[*kmsg.FetchResponse](w, q, 18)
			for _, topic := range resp.Topics {
				if topic.TopicID == kafkabytes.ID(2) {
					got += len(topic.Partitions[0].RecordBatches)
				}
			}
			q.SessionID, q.SessionEpoch, q.Topics = resp.SessionID, q.SessionEpoch+1, nil
		}
		if got > 0 == exact {
			t.Errorf("exact %v: %d bytes of what was held back", exact, got)
		}
	}
}

func (v *served) topic(t *testing.T, name string) *host.Topic {
	t.Helper()
	topic, err := v.host.Topic(name)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}
