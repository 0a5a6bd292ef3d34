package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const local = "../../testdata/kafka/txn/local"

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// served is a server on loopback.
type served struct {
	*Server
	host    *host.Host
	address string
	log     *syncBuffer
}

// serve serves a log directory until the test ends.
func serve(t testing.TB, dir string, o Options) *served {
	t.Helper()
	return serveHost(t, host.Config{LogDirs: []string{dir}}, o)
}

// serveHost serves what cfg names until the test ends.
func serveHost(t testing.TB, cfg host.Config, o Options) *served {
	t.Helper()
	h, err := host.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	v := &served{host: h, log: &syncBuffer{}}
	o.Host, o.Log = h, slog.New(slog.NewTextHandler(v.log, nil))
	if v.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v.address = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- v.Serve(l) }()
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil && err != errStopped { // the test may be over before it began to serve
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// wire is a client that sends what it is told to.
type wire struct {
	t  testing.TB
	nc net.Conn
}

func (v *served) dial(t testing.TB) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", v.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	return &wire{t, nc}
}

func frame(q kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester")).AppendRequest(nil, q, correlation)
}

func (w *wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.nc.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// receive reads an answer and gives its correlation id.
func (w *wire) receive(resp kmsg.Response) int32 {
	w.t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(w.nc, head[:]); err != nil {
		w.t.Fatalf("no answer: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(w.nc, b); err != nil {
		w.t.Fatal(err)
	}
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		w.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(head[4:]))
}

// ask sends a request of its newest served version, unless it has one, and gives the answer.
func ask[R kmsg.Response](w *wire, q kmsg.Request, version int16) R {
	w.t.Helper()
	q.SetVersion(version)
	resp := q.ResponseKind()
	w.send(frame(q, 7))
	if got := w.receive(resp); got != 7 {
		w.t.Fatalf("an answer to %d, want 7", got)
	}
	return resp.(R)
}

// closed waits until the server closed the connection, and passes over what it sent before.
func (w *wire) closed() {
	w.t.Helper()
	if _, err := io.Copy(io.Discard, w.nc); err != nil && !strings.Contains(err.Error(), "reset") {
		w.t.Errorf("the connection was not closed: %v", err)
	}
}

// TestEveryVersion asks everything that is served in each of its versions.
func TestEveryVersion(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	for key, a := range v.apis {
		for version := a.min; version <= a.max; version++ {
			q := kmsg.RequestForKey(key)
			if p, ok := q.(*kmsg.ProduceRequest); ok {
				p.Acks = -1
			}
			ask[kmsg.Response](w, q, version)
		}
	}
	if v.log.String() != "" {
		t.Errorf("the log says %s", v.log)
	}
}

func TestApiVersions(t *testing.T) {
	w := serve(t, local, Options{}).dial(t)
	q := kmsg.NewPtrApiVersionsRequest()
	for version := int16(0); version <= 4; version++ {
		if resp := ask[*kmsg.ApiVersionsResponse](w, q, version); resp.ErrorCode != 0 || !served3(resp) {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
	q.SetVersion(99)
	w.send(frame(q, 8))
	resp := kmsg.NewPtrApiVersionsResponse() // of version 0
	if w.receive(resp) != 8 || resp.ErrorCode != unsupportedVersion || !served3(resp) {
		t.Errorf("version 99: %+v", resp)
	}
}

// served3 reports a list that has Produce from version 3 on, as librdkafka needs it, and Fetch up to kmsg's newest.
func served3(resp *kmsg.ApiVersionsResponse) bool {
	has := func(key, from, to int16) bool {
		return slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == key && k.MinVersion == from && k.MaxVersion == to
		})
	}
	return has(0, 3, (&kmsg.ProduceRequest{}).MaxVersion()) && has(1, 4, (&kmsg.FetchRequest{}).MaxVersion())
}

// TestMetadata: each version names the topics as they are, and those that are not there with the protocol's codes.
func TestMetadata(t *testing.T) {
	v := serve(t, local, Options{Advertise: "broker.example:9093", ClusterID: "x"})
	w := v.dial(t)
	topic := v.host.Topics()[0]
	missing, impossible := "missing", "no topic"
	for version := int16(0); version <= 13; version++ {
		q := kmsg.NewPtrMetadataRequest()
		q.Topics = nil
		if all := ask[*kmsg.MetadataResponse](w, q, version); len(all.Topics) != len(v.host.Topics()) || all.Brokers[0].Host != "broker.example" || all.Brokers[0].Port != 9093 {
			t.Errorf("version %d: %+v", version, all)
		}
		q.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic.Name}, {Topic: &missing}, {Topic: &impossible}}
		resp := ask[*kmsg.MetadataResponse](w, q, version)
		if got := resp.Topics; len(got) != 3 || got[2].ErrorCode != invalidTopic || got[0].ErrorCode != 0 || len(got[0].Partitions) != len(topic.Partitions) ||
			version >= 10 && got[0].TopicID != topic.ID || got[1].ErrorCode != unknownTopicOrPartition {
			t.Errorf("version %d: %+v", version, got)
		}
		if version < 12 {
			continue
		}
		q.Topics = []kmsg.MetadataRequestTopic{{TopicID: topic.ID}, {TopicID: [16]byte{1}}}
		resp = ask[*kmsg.MetadataResponse](w, q, version)
		if got := resp.Topics; len(got) != 2 || *got[0].Topic != topic.Name || got[1].ErrorCode != unknownTopicID {
			t.Errorf("version %d, by id: %+v", version, got)
		}
	}
}

// TestDescribeTopicPartitions: pages of any size add up to the whole.
func TestDescribeTopicPartitions(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	want := 0
	for _, topic := range v.host.Topics() {
		want += len(topic.Partitions)
	}
	for limit := 1; limit <= want+1; limit++ {
		q := kmsg.NewPtrDescribeTopicPartitionsRequest()
		q.ResponsePartitionLimit = int32(limit)
		got := 0
		for {
			resp := ask[*kmsg.DescribeTopicPartitionsResponse](w, q, 0)
			page := 0
			for _, topic := range resp.Topics {
				page += len(topic.Partitions)
				for _, p := range topic.Partitions {
					if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
						t.Fatal("a list is null, which Kafka's admin client does not bear")
					}
				}
			}
			if got += page; page > limit {
				t.Fatalf("a page of %d, at most %d", page, limit)
			}
			if resp.NextCursor == nil {
				break
			}
			q.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
		}
		if got != want {
			t.Errorf("in pages of %d: %d partitions, want %d", limit, got, want)
		}
	}
}

// TestPipelined: what is sent without waiting is answered in its order, also behind a request that waits.
func TestPipelined(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	var all []byte
	for i := range int32(50) {
		q := fetchAtEnd(v, 20)
		q.MinBytes = int32(i % 2) // each second one waits
		all = append(all, frame(q, i)...)
	}
	w.send(all)
	for i := range int32(50) {
		resp := kmsg.NewPtrFetchResponse()
		resp.SetVersion(18)
		if got := w.receive(resp); got != i {
			t.Fatalf("an answer to %d, want %d", got, i)
		}
	}
}

// fetchAtEnd is a Fetch of the first partition's end, where nothing comes.
func fetchAtEnd(v *served, wait int32) *kmsg.FetchRequest {
	topic := v.host.Topics()[0]
	return fetchOf(topic, topic.Partitions[0].Offsets.HighWatermark, wait)
}

func fetchOf(topic *host.Topic, offset int64, wait int32) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = 18, wait, 1, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	q.Topics = []kmsg.FetchRequestTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return q
}

// TestShutdownEndsWaits: a request that waits for data is answered when the server stops.
func TestShutdownEndsWaits(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	w.send(frame(fetchAtEnd(v, 1<<30), 1))
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(18)
	if w.receive(resp) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	w.closed()
	if _, err := net.Dial("tcp", v.address); err == nil {
		t.Error("a stopped server takes connections")
	}
}

// TestClientThatGoes: a request that waits ends when its client is gone.
func TestClientThatGoes(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	w.send(frame(fetchAtEnd(v, 1<<30), 1))
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 1 })
	w.nc.Close()
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 0 })
}

// TestTooManyConnections: one more is closed at once, and there is room again when another ends.
func TestTooManyConnections(t *testing.T) {
	v := serve(t, local, Options{MaxConnections: 2})
	q := kmsg.NewPtrApiVersionsRequest()
	a, b := v.dial(t), v.dial(t)
	ask[*kmsg.ApiVersionsResponse](a, q, 4)
	ask[*kmsg.ApiVersionsResponse](b, q, 4)
	v.dial(t).closed()
	a.nc.Close()
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 1 })
	ask[*kmsg.ApiVersionsResponse](v.dial(t), q, 4)
	if !strings.Contains(v.log.String(), "there are too many") {
		t.Errorf("the log says %s", v.log)
	}
}
