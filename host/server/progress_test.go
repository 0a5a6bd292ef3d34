package server

import (
	"context"
	"sync/atomic"
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

// tiered serves the topic "orders", whose offsets 0 to 9 lie in store, and "local", which lies in a log directory.
func tiered(t *testing.T, before func(ctx context.Context, c memrsm.Call) error) (*served, *memrsm.Store) {
	t.Helper()
	id := abi.TopicIDPartition{TopicID: kafkabytes.ID(1), Topic: "orders"}
	seg := kafkabytes.NewSegment(t, id, 1, kafkabytes.Batch{Base: 0, Last: 9})
	store := memrsm.New(memrsm.Inline, seg)
	store.Before = before
	meta, dir := t.TempDir(), t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(seg)...)
	beside := abi.TopicIDPartition{TopicID: kafkabytes.ID(2), Topic: "local"}
	kafkabytes.WriteLog(t, dir, beside, kafkabytes.NewSegment(t, beside, 2, kafkabytes.Batch{Base: 0, Last: 9}))
	return serveHost(t, host.Config{RSM: store, Metadata: "dir:" + meta, LogDirs: []string{dir}, RemoteWait: 20 * time.Millisecond}, Options{}), store
}

// logReads counts the calls for a segment's log.
func logReads(s *memrsm.Store) int {
	n := 0
	for _, c := range s.Calls() {
		if c.Index == 0 {
			n++
		}
	}
	return n
}

func consumer(t *testing.T, v *served, topics ...string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// poll gives the topics of n records.
func poll(t *testing.T, cl *kgo.Client, n int) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := map[string]int{}
	for n > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("stuck: %d records are missing, of %v", n, got)
		}
		for _, r := range fs.Records() {
			got[r.Topic]++
			n--
		}
	}
	return got
}

// TestSlowStore: a store that is slower than the wait: local data comes meanwhile, the remote data by a retry, and it is
// read once.
func TestSlowStore(t *testing.T) {
	ready := make(chan struct{})
	v, store := tiered(t, func(ctx context.Context, c memrsm.Call) error {
		if c.Index != 0 {
			return nil
		}
		select {
		case <-ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	cl := consumer(t, v, "orders", "local")
	if got := poll(t, cl, 2); got["local"] != 2 {
		t.Errorf("at first %v", got)
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return logReads(store) > 0 })
	close(ready)
	if got := poll(t, cl, 2); got["orders"] != 2 {
		t.Errorf("then %v", got)
	}
	if n := logReads(store); n != 1 {
		t.Errorf("the segment was read %d times", n)
	}
}

// TestFailingStore: a store that fails a few times: an error, and data when it works again.
func TestFailingStore(t *testing.T) {
	var failures atomic.Int32
	v, _ := tiered(t, func(_ context.Context, c memrsm.Call) error {
		if c.Index == 0 && failures.Add(1) <= 10 {
			return abi.Errorf("fetch", "orders", abi.Denied, "not now")
		}
		return nil
	})
	w := v.dial(t)
	topic, err := v.host.Topic("orders")
	if err != nil {
		t.Fatal(err)
	}
	resp := ask[*kmsg.FetchResponse](w, fetchOf(topic, 0, 1<<30), 18)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code == 0 {
		t.Error("no error of a store that fails")
	}
	if got := poll(t, consumer(t, v, "orders"), 2); got["orders"] != 2 {
		t.Errorf("%v", got)
	}
}
