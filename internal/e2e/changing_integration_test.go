//go:build integration

package e2e

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// changingFor is how long a broker writes while clients read.
const changingFor = 90 * time.Second

// TestChangingStore: a real broker writes, tiers, deletes by retention, is killed and started again, and copies once more
// what it had not finished, while eight clients read the same directory through rsmhost. Each sees every record that was
// written, once, in order and unchanged, but for what retention deleted before it came there, and no error but that one.
func TestChangingStore(t *testing.T) {
	b := startBroker(t)
	b.createWith("orders", "retention.bytes=1000000")
	b.createWith("ledger", "retention.bytes=1000000")
	s := startServe(t, "", "--metadata", "dir:"+filepath.Join(b.dir, "data"), "--log-dir", filepath.Join(b.dir, "data"), "--metadata.refresh.interval.ms", "1000", "--log-level", "info",
		"--plugin", artifacts(t).process, "--plugin-config", "root="+filepath.Join(b.dir, "remote"))
	ctx, cancel := context.WithTimeout(context.Background(), changingFor)
	defer cancel()
	w := &written{}
	var wg sync.WaitGroup
	wg.Go(func() { w.produce(ctx, t, b.bootstrap) })
	wg.Go(func() {
		for ctx.Err() == nil {
			w.transact(ctx, t, b.bootstrap)
		}
	})
	readers := make([]*observer, 8)
	for i := range readers {
		readers[i] = &observer{t: t, name: fmt.Sprintf("client %d", i), w: w, next: map[string]int64{}}
		opts := []kgo.Opt{kgo.ClientID(readers[i].name), kgo.KeepRetryableFetchErrors(), kgo.ConsumeTopics("orders", "ledger"),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(int32(10_000 << i))}
		wg.Go(func() { readers[i].read(ctx, s.address, i%4 == 3, opts) })
	}
	<-time.After(changingFor / 2) // the broker dies in the middle of it
	b.down("--kill")
	b.upAgain()
	before := w.committed.Load()
	wg.Wait()
	if w.committed.Load() == before {
		t.Errorf("%d transactions were committed before the broker died, and none after", before)
	}
	total := int64(0)
	for _, r := range readers {
		if r.seen.Load() == 0 {
			t.Errorf("%s read nothing", r.name)
		}
		total += r.seen.Load()
	}
	t.Logf("%d records were written, %d read; the logs begin at %v", w.count.Load(), total, starts(t, s.address))
	if ours, theirs := starts(t, s.address), starts(t, b.bootstrap); theirs["orders-0"] == 0 || ours["orders-0"] == 0 {
		t.Errorf("retention deleted nothing, which the test is about: the logs begin at %v here and at %v there", ours, theirs)
	}
	s.stop(t)
	tellUnexpected(t, s.stderr.String())
}

// tellUnexpected fails for what serve logged of data that is not as it should be, and shows what else a broker would not have said.
func tellUnexpected(t *testing.T, log string) {
	t.Helper()
	told := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CORRUPT") {
			t.Errorf("serve: %s", line)
		} else if strings.Contains(line, "msg=fetch") && !strings.Contains(line, "OFFSET_OUT_OF_RANGE") && !strings.Contains(line, "FENCED_LEADER_EPOCH") && told < 20 {
			told++
			t.Logf("serve: %s", line)
		}
	}
}

func (b *broker) createWith(topic string, configs ...string) {
	args := []string{"--create", "--topic", topic, "--partitions", "2", "--config", "remote.storage.enable=true",
		"--config", "internal.segment.bytes=65536", "--config", "local.retention.bytes=200000", "--config", "retention.ms=-1"}
	for _, c := range configs {
		args = append(args, "--config", c)
	}
	b.tool("org.apache.kafka.tools.TopicCommand", args...)
}

// starts is where each partition begins now.
func starts(t *testing.T, address string) map[string]int64 {
	t.Helper()
	listed, err := kadm.NewClient(client(t, address)).ListStartOffsets(context.Background(), "orders", "ledger")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	listed.Each(func(o kadm.ListedOffset) { out[fmt.Sprintf("%s-%d", o.Topic, o.Partition)] = o.Offset })
	return out
}

// written is what was acknowledged: the checksum of each record's value by its place.
type written struct {
	sums      sync.Map // place -> uint32
	count     atomic.Int64
	committed atomic.Int64 // transactions
}

func place(r *kgo.Record) string { return fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset) }

// produce writes to "orders", some 100 KB a second, until ctx ends.
func (w *written) produce(ctx context.Context, t *testing.T, address string) {
	cl := client(t, address, kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(16<<10)) // after the broker was away it sends large ones, and segments are small
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		r := kgo.StringRecord(fmt.Sprintf("%d %s", n, strings.Repeat("x", 500+n%300)))
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
				return
			}
			w.sums.Store(place(r), crc32.ChecksumIEEE(r.Value))
			w.count.Add(1)
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	flushed, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.Flush(flushed); err != nil {
		t.Errorf("flush: %v", err)
	}
}

// transact writes to "ledger" in transactions, of which every other is aborted, until ctx ends or the broker's death leaves one
// that its client can't end: the next client of that name does.
func (w *written) transact(ctx context.Context, t *testing.T, address string) {
	cl := client(t, address, kgo.DefaultProduceTopic("ledger"), kgo.TransactionalID("writer"), kgo.TransactionTimeout(10*time.Second))
	defer cl.Close()
	for n := 0; ctx.Err() == nil; n++ {
		commit, word := kgo.TryCommit, "good"
		if n%2 == 1 {
			commit, word = kgo.TryAbort, "bad"
		}
		if err := cl.BeginTransaction(); err != nil {
			t.Logf("begin: %v", err)
			return
		}
		for range 20 {
			cl.Produce(ctx, kgo.StringRecord(word+strings.Repeat(" x", 300)), nil)
		}
		cl.Flush(ctx)
		switch err := cl.EndTransaction(context.Background(), commit); {
		case err == nil && commit == kgo.TryCommit:
			w.committed.Add(1)
		case err != nil && !errors.Is(err, kerr.OperationNotAttempted):
			t.Logf("end of a transaction: %v", err)
		}
	}
}

// observer reads, and holds what it reads against what was written.
type observer struct {
	t    *testing.T
	name string
	w    *written
	next map[string]int64 // one past the last offset, by partition
	seen atomic.Int64
}

// read reads until ctx ends; again from the start every few seconds where over is set.
func (o *observer) read(ctx context.Context, address string, over bool, opts []kgo.Opt) {
	for ctx.Err() == nil {
		part, cancel := context.WithCancel(ctx)
		if over {
			part, cancel = context.WithTimeout(ctx, 7*time.Second)
		}
		o.next = map[string]int64{}
		cl := client(o.t, address, opts...)
		for part.Err() == nil {
			fs := cl.PollFetches(part)
			fs.EachError(func(topic string, partition int32, err error) { o.failed(part, topic, partition, err) })
			fs.EachRecord(func(r *kgo.Record) { o.record(address, r) })
		}
		cl.Close()
		cancel()
	}
}

// failed: retention may have deleted what is asked for; nothing else is a broker's.
func (o *observer) failed(ctx context.Context, topic string, partition int32, err error) {
	if ctx.Err() == nil && !errors.Is(err, kerr.OffsetOutOfRange) {
		o.t.Errorf("%s: %s-%d: %v", o.name, topic, partition, err)
	}
}

func (o *observer) record(address string, r *kgo.Record) {
	key := fmt.Sprintf("%s-%d", r.Topic, r.Partition)
	next, begun := o.next[key]
	o.next[key] = r.Offset + 1
	o.seen.Add(1)
	switch {
	case begun && r.Offset < next:
		o.t.Errorf("%s: %s comes after %d", o.name, place(r), next-1)
	case r.Topic == "ledger" && !strings.HasPrefix(string(r.Value), "good"):
		o.t.Errorf("%s: %s is of an aborted transaction", o.name, place(r))
	case r.Topic == "orders" && begun && r.Offset > next && starts(o.t, address)[key] <= next:
		o.t.Errorf("%s: %s comes after %d, and what lies between is not gone", o.name, place(r), next-1)
	case r.Topic == "orders":
		sum := crc32.ChecksumIEEE(r.Value)
		if was, known := o.w.sums.LoadOrStore(place(r), sum); known && was != sum {
			o.t.Errorf("%s: %s is not what was written", o.name, place(r))
		}
	}
}
