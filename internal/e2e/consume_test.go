package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/server"
	"github.com/rsmhost/rsmhost/internal/golden"
)

// client is franz-go's, against an address.
func client(t testing.TB, address string, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.DisableClientMetrics()}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// levels are franz-go's isolation levels by their words.
var levels = map[string]kgo.IsolationLevel{"read_uncommitted": kgo.ReadUncommitted(), "read_committed": kgo.ReadCommitted()}

// asLine gives a consumed record in the form of a recorded one.
func asLine(t *testing.T, r *kgo.Record) line {
	t.Helper()
	payload := func(b []byte) any {
		if b == nil {
			return nil
		}
		return digest(t, map[string]any{"b64": base64.StdEncoding.EncodeToString(b)})
	}
	number := func(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
	headers := []any{}
	for _, h := range r.Headers {
		headers = append(headers, map[string]any{"k": h.Key, "v": payload(h.Value)})
	}
	types := map[int8]string{0: "CreateTime", 1: "LogAppendTime"}
	return line{"topic": r.Topic, "partition": number(int64(r.Partition)), "offset": number(r.Offset), "timestamp": number(r.Timestamp.UnixMilli()),
		"timestampType": types[r.Attrs.TimestampType()], "key": payload(r.Key), "value": payload(r.Value), "headers": headers,
		"leaderEpoch": number(int64(r.LeaderEpoch))}
}

// consume reads n records, or what comes before a deadline.
func consume(t *testing.T, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		fs := cl.PollFetches(ctx)
		for _, e := range fs.Errors() {
			t.Fatalf("%d of %d records, then %s-%d: %v", len(out), n, e.Topic, e.Partition, e.Err)
		}
		out = append(out, fs.Records()...)
	}
	return out
}

// TestConsume holds what a real client gets of a served topic against what Java consumers got of the same.
func TestConsume(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			address := servedFixture(t, fixture, false)
			for isolation := range levels {
				if diff := againstRecorded(t, fixture, isolation, address); diff != "" {
					t.Errorf("%s (-want +got):\n%.4000s", isolation, diff)
				}
			}
		})
	}
}

// againstRecorded reads all topics of a fixture, as a consumer of an isolation level, and gives how that differs from what was
// recorded: nothing where each record came once, in order and as it was.
func againstRecorded(t *testing.T, fixture, isolation, address string) string {
	t.Helper()
	want := map[any][]line{}
	n := 0
	for _, l := range recorded(t, fixture, isolation) {
		want[partitionOf(l)] = append(want[partitionOf(l)], l)
		n++
	}
	cl := client(t, address, kgo.ConsumeTopics(topicsOf(t, fixture)...), kgo.FetchIsolationLevel(levels[isolation]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	defer cl.Close()
	got := map[any][]line{}
	for _, r := range consume(t, cl, n) {
		l := asLine(t, r)
		got[partitionOf(l)] = append(got[partitionOf(l)], l)
	}
	return cmp.Diff(want, got)
}

func partitionOf(l line) any { return fmt.Sprintf("%s-%s", l["topic"], l["partition"]) }

// TestPartitionsBesideAMissingOneAreRead: where one partition of a topic is in no tier, clients read the others.
func TestPartitionsBesideAMissingOneAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, "txn", "local", "payments-1"))); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	if err := os.Rename(dir, filepath.Join(logs, "payments-1")); err != nil {
		t.Fatal(err)
	}
	address := served(t, openHost(t, host.Config{LogDirs: []string{logs}}), server.Options{})
	cl := client(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"payments": {1: kgo.NewOffset().AtStart()}}))
	if got := consume(t, cl, 1)[0]; got.Partition != 1 || got.Offset != 0 {
		t.Errorf("%d-%d, want the first record of partition 1", got.Partition, got.Offset)
	}
	topics, err := kadm.NewClient(cl).ListTopics(context.Background(), "payments")
	if err != nil || len(topics["payments"].Partitions) != 2 || topics["payments"].Partitions[0].Err == nil || topics["payments"].Partitions[1].Err != nil {
		t.Errorf("partitions %v, %v: want 0 without a leader, and 1", topics["payments"].Partitions, err)
	}
}

// TestSeek: a consumer that begins anywhere gets the first record at or above that offset.
func TestSeek(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			address := servedFixture(t, fixture, false)
			lines := recorded(t, fixture, "read_uncommitted")
			for i := 0; i < len(lines); i += max(1, len(lines)/25) {
				l := lines[i]
				partition, _ := l["partition"].(json.Number).Int64()
				offset, _ := l["offset"].(json.Number).Int64()
				cl := client(t, address, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
					l["topic"].(string): {int32(partition): kgo.NewOffset().At(offset)}}))
				if got := asLine(t, consume(t, cl, 1)[0]); cmp.Diff(l, got) != "" {
					t.Errorf("from %s: %s", offsetName(l), cmp.Diff(l, got))
				}
			}
		})
	}
}

func offsetName(l line) string { return fmt.Sprintf("%s at %s", partitionOf(l), l["offset"]) }

// TestAdminClient: an ordinary admin client sees topics, ids, offsets and the broker as they are.
func TestAdminClient(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			address := servedFixture(t, fixture, true)
			adm := kadm.NewClient(client(t, address))
			topics, err := adm.ListTopics(ctx)
			if err != nil {
				t.Fatal(err)
			}
			starts, err1 := adm.ListStartOffsets(ctx)
			ends, err2 := adm.ListEndOffsets(ctx)
			committed, err3 := adm.ListCommittedOffsets(ctx)
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatal(err1, err2, err3)
			}
			for _, p := range golden.Partitions(t, filepath.Join(fixtures, fixture)) {
				if got := topics[p.Topic]; !slices.Contains(got.Partitions.Numbers(), p.Partition) {
					t.Errorf("%s-%d is not there", p.Topic, p.Partition)
				}
				start, _ := starts.Lookup(p.Topic, p.Partition)
				end, _ := ends.Lookup(p.Topic, p.Partition)
				stable, _ := committed.Lookup(p.Topic, p.Partition)
				if start.Offset != p.LogStartOffset || end.Offset != p.HighWatermark || stable.Offset != p.LastStableOffset {
					t.Errorf("%s-%d: %d to %d, stable %d; want %d, %d, %d", p.Topic, p.Partition, start.Offset, end.Offset, stable.Offset,
						p.LogStartOffset, p.HighWatermark, p.LastStableOffset)
				}
			}
			if b, err := adm.BrokerMetadata(ctx); err != nil || len(b.Brokers) != 1 || fmt.Sprintf("%s:%d", b.Brokers[0].Host, b.Brokers[0].Port) != address {
				t.Errorf("brokers %+v, %v", b, err)
			}
			if dirs, err := adm.DescribeAllLogDirs(ctx, nil); err != nil || len(dirs) != 1 {
				t.Errorf("log directories %v, %v", dirs, err)
			}
		})
	}
}

// TestProducerIsRefused: a producer is told at once, with an error after which it does not try again.
func TestProducerIsRefused(t *testing.T) {
	cl := client(t, servedFixture(t, "basic", false), kgo.RecordDeliveryTimeout(30*time.Second))
	err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: topicsOf(t, "basic")[0], Value: []byte("x")}).FirstErr()
	if err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("with an id: %v", err)
	}
	plain := client(t, servedFixture(t, "basic", false), kgo.DisableIdempotentWrite(), kgo.RecordDeliveryTimeout(30*time.Second))
	err = plain.ProduceSync(context.Background(), &kgo.Record{Topic: topicsOf(t, "basic")[0], Value: []byte("x")}).FirstErr()
	if err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("without: %v", err)
	}
	created, err := kadm.NewClient(cl).CreateTopic(context.Background(), 1, 1, nil, "new")
	if err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("create: %v, %v", created, err)
	}
}
