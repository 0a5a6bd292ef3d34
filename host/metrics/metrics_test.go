package metrics

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/server"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

const hammerTime = 10 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched is a server whose metrics are looked at.
type watched struct {
	*Metrics
	dir     string // of the metadata
	store   *memrsm.Store
	address string
	id      abi.TopicIDPartition
	log     []byte // of its one segment
}

// start serves a topic of one segment: ten batches of ten offsets, 100 bytes each.
func start(t *testing.T) *watched {
	t.Helper()
	w := &watched{dir: t.TempDir(), id: abi.TopicIDPartition{Topic: "orders", TopicID: kafkabytes.ID(1)}}
	seg := segment(t, w.id, 7, 0)
	kafkabytes.WriteMetadata(t, w.dir, kafkabytes.Finished(seg)...)
	w.log, w.store = seg.Log, memrsm.New(memrsm.Inline, seg)
	h, err := host.Open(context.Background(), host.Config{RSM: w.store, Metadata: "dir:" + w.dir, MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Host: h})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = l.Addr().String()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		for _, err := range []error{s.Close(), <-done, h.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	w.Metrics = New(h, s, "v1")
	return w
}

func segment(t *testing.T, id abi.TopicIDPartition, number byte, from int64) *kafkabytes.Segment {
	var batches []kafkabytes.Batch
	for i := range int64(10) {
		batches = append(batches, kafkabytes.Batch{Base: from + 10*i, Last: from + 10*i + 9, Size: 100})
	}
	return kafkabytes.NewSegment(t, id, number, batches...)
}

// scrape gives the series of a scrape, as "name{labels}" by value.
func (w *watched) scrape(t *testing.T) map[string]string {
	t.Helper()
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(rec.Result().Body)
	if err != nil || rec.Code != 200 {
		t.Fatalf("%d, %v: %s", rec.Code, err, b)
	}
	out := map[string]string{}
	for _, line := range strings.Split(string(b), "\n") {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			out[line[:i]] = line[i+1:]
		}
	}
	return out
}

// wants holds series against what they should be.
func wants(t *testing.T, got map[string]string, want map[string]string) {
	t.Helper()
	for series, value := range want {
		if got[series] != value {
			t.Errorf("%s is %q, want %q", series, got[series], value)
		}
	}
}

// TestZeros: before anything happened everything that can be known is there, with zero.
func TestZeros(t *testing.T) {
	got := start(t).scrape(t)
	zeros := []string{`kafka_server_brokertopicmetrics_remotefetchbytes_total{topic="orders"}`, `kafka_server_brokertopicmetrics_remotefetchrequests_total{topic="orders"}`,
		`kafka_server_brokertopicmetrics_remotefetcherrors_total{topic="orders"}`, `rsmhost_local_bytes_total{topic="orders"}`, `rsmhost_transfer_requests_total`,
		`rsmhost_plugin_calls_total{kind="OK",method="fetch_log_segment"}`, `rsmhost_plugin_calls_total{kind="CORRUPT",method="fetch_index"}`,
		`rsmhost_requests_total{request="Fetch"}`, `rsmhost_request_errors_total{code="OFFSET_OUT_OF_RANGE",request="Fetch"}`, `rsmhost_step_seconds_count{step="transfer"}`,
		`rsmhost_step_seconds_bucket{step="answer",le="+Inf"}`, `rsmhost_client_requests_total{client="other"}`, `rsmhost_config_reloads_total{result="refused"}`,
		`kafka_server_delayedoperationpurgatory_numdelayedoperations{delayed_operation="RemoteFetch"}`, `kafka_server_delayedremotefetchmetrics_expires_total`,
		`rsmhost_connections_closed_total{reason="answer_not_taken"}`, `rsmhost_plugin_starts_total`, `rsmhost_denied_total{resource="group"}`, `rsmhost_connections_closed_total{reason="authentication"}`, `rsmhost_metadata_look_failures_total`, `rsmhost_slow_reads_total`}
	want := map[string]string{`rsmhost_topics`: "1", `rsmhost_partitions{topic="orders"}`: "1", `rsmhost_metadata_looks_total`: "1", `rsmhost_reader_threads`: "10",
		`kafka_log_remote_remotestoragethreadpool_remotelogreaderavgidlepercent`: "1", `kafka_server_brokertopicmetrics_remotelogmetadatacount{topic="orders"}`: "1",
		`kafka_server_brokertopicmetrics_remotelogsizebytes{topic="orders"}`: "1000", `rsmhost_memory_limit_bytes`: fmt.Sprintf("%g", float64(64<<20))}
	for _, s := range zeros {
		want[s] = "0"
	}
	wants(t, got, want)
	for _, f := range families {
		if f.name != "rsmhost_plugin_info" && !slices.ContainsFunc(keys(got), func(s string) bool { return strings.HasPrefix(s, f.name) }) {
			t.Errorf("%s has no series", f.name)
		}
	}
}

func keys(m map[string]string) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// client is a client with an id, and no requests but those that are made.
func (w *watched) client(t *testing.T, id string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.address), kgo.ClientID(id), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// fetch asks once for an offset, and gives the code and the size of what came.
func (w *watched) fetch(t *testing.T, cl *kgo.Client, offset int64) (code int16, size int) {
	t.Helper()
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxBytes, q.SessionEpoch = 12, math.MaxInt32, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, math.MaxInt32
	q.Topics = []kmsg.FetchRequestTopic{{Topic: "orders", TopicID: w.id.TopicID, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	resp, err := cl.SeedBrokers()[0].Request(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	return got.ErrorCode, len(got.RecordBatches)
}

// TestFigures: what clients did is what the metrics say, exactly.
func TestFigures(t *testing.T) {
	w := start(t)
	one, two := w.client(t, "one"), w.client(t, strings.Repeat("x", 80)+"\xff")
	for cl, offsets := range map[*kgo.Client][]int64{one: {0, 50, 50}, two: {90, 5000}} {
		for _, at := range offsets {
			code, size := w.fetch(t, cl, at)
			if want := len(w.log) - int(at)*10; at < 100 && (code != 0 || size != want) || at >= 100 && (code != 1 || size != 0) {
				t.Fatalf("offset %d: code %d, %d bytes", at, code, size)
			}
		}
	}
	long := strings.Repeat("x", 64)
	wanted := map[string]string{
		`kafka_server_brokertopicmetrics_remotefetchbytes_total{topic="orders"}`:    "2100", // 1000 + 2 * 500 + 100
		`kafka_server_brokertopicmetrics_remotefetchrequests_total{topic="orders"}`: "4",
		`kafka_server_brokertopicmetrics_remotefetcherrors_total{topic="orders"}`:   "0",
		`kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count`: "4",
		`kafka_network_requestmetrics_remotetimems_count{request="FetchConsumer"}`:  "4",
		`rsmhost_metadata_lookups_total{topic="orders"}`:                            "4",
		`rsmhost_local_bytes_total{topic="orders"}`:                                 "0",
		`rsmhost_index_cache_requests_total{result="load"}`:                         "1",
		`rsmhost_index_cache_requests_total{result="memory"}`:                       "2",
		`rsmhost_plugin_calls_total{kind="OK",method="fetch_index"}`:                "3", // OFFSET; LEADER_EPOCH and PRODUCER_SNAPSHOT of the tail
		`rsmhost_plugin_calls_total{kind="NOT_FOUND",method="fetch_index"}`:         "0",
		`rsmhost_plugin_call_seconds_count{method="fetch_index"}`:                   "3",
		`rsmhost_request_errors_total{code="OFFSET_OUT_OF_RANGE",request="Fetch"}`:  "1",
		`rsmhost_client_requests_total{client="one"}`:                               "4", // with its ApiVersions
		`rsmhost_client_remote_bytes_total{client="one"}`:                           "2000",
		`rsmhost_client_errors_total{client="one"}`:                                 "0",
		`rsmhost_client_remote_bytes_total{client="` + long + `"}`:                  "100",
		`rsmhost_client_errors_total{client="` + long + `"}`:                        "1",
		`rsmhost_step_seconds_count{step="answer"}`:                                 "5",
		`rsmhost_step_seconds_count{step="index"}`:                                  "3",
		`rsmhost_step_seconds_count{step="batches"}`:                                "4",
		`rsmhost_requests_total{request="Fetch"}`:                                   "5",
		`rsmhost_request_seconds_count{request="Fetch"}`:                            "5",
		`rsmhost_connections`:                "2",
		`rsmhost_connections_accepted_total`: "2",
		`rsmhost_unsent_bytes`:               "0",
		`rsmhost_fetch_sessions`:             "0",
		`kafka_server_delayedoperationpurgatory_purgatorysize{delayed_operation="RemoteFetch"}`: "0",
	}
	hammer.Eventually(t, hammerTime, func() bool { // a request is counted when its answer was sent, which its client may see before
		return w.scrape(t)[`rsmhost_requests_total{request="Fetch"}`] == "5"
	})
	wants(t, w.scrape(t), wanted)
}

// TestTopicLeaves: the series of a topic that is not served any more are gone, and those of one that came are there.
func TestTopicLeaves(t *testing.T) {
	w := start(t)
	w.fetch(t, w.client(t, "one"), 0)
	other := abi.TopicIDPartition{Topic: "another", TopicID: kafkabytes.ID(2)}
	if err := os.Rename(w.dir, t.TempDir()+"/away"); err != nil {
		t.Fatal(err)
	}
	kafkabytes.WriteMetadata(t, w.dir, kafkabytes.Finished(segment(t, other, 9, 0))...)
	if err := w.host.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := w.scrape(t)
	for s := range got {
		if strings.Contains(s, `topic="orders"`) {
			t.Errorf("%s is still there", s)
		}
	}
	wants(t, got, map[string]string{`kafka_server_brokertopicmetrics_remotefetchbytes_total{topic="another"}`: "0", `rsmhost_partitions{topic="another"}`: "1"})
}

// TestClientsAreBounded: ids beyond the bound are counted together.
func TestClientsAreBounded(t *testing.T) {
	w := start(t)
	for i := range 103 {
		cl := w.client(t, fmt.Sprintf("c%d", i))
		w.fetch(t, cl, 90)
		cl.Close()
	}
	got, n := w.scrape(t), 0
	for s := range got {
		if strings.HasPrefix(s, "rsmhost_client_remote_bytes_total{") {
			n++
		}
	}
	if n != 101 || got[`rsmhost_client_remote_bytes_total{client="other"}`] != "300" {
		t.Errorf("%d clients, other %s", n, got[`rsmhost_client_remote_bytes_total{client="other"}`])
	}
}

// TestLint: names and help are as Prometheus wants them.
func TestLint(t *testing.T) {
	w := start(t)
	w.Reloaded(true)
	w.Reloaded(false)
	problems, err := testutil.GatherAndLint(w.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	wants(t, w.scrape(t), map[string]string{`rsmhost_config_reloads_total{result="applied"}`: "1", `rsmhost_config_reloads_total{result="refused"}`: "1"})
}

var documented = regexp.MustCompile("(?m)^\\| `((?:kafka|rsmhost)_[a-z_]+)` \\| (\\w+) \\| (.*) \\| (.+) \\|$")

// leans matches a help text that needs the line before it, which in a scrape is another one, or that is the name of a key.
var leans = regexp.MustCompile(`^(Of them|The same:|The most that was)|\bof it\.|^[a-z.]+\.$`)

// TestDocument: docs/metrics.md has the families, and no others.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}
	for _, m := range documented.FindAllStringSubmatch(string(b), -1) {
		in[m[1]] = strings.Join(m[2:], "|")
	}
	kinds := map[kind]string{counter: "counter", gauge: "gauge", histogram: "histogram", summary: "summary"}
	for _, f := range families {
		labels := ""
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		if leans.MatchString(f.help) {
			t.Errorf("%s: %q cannot be read alone, as a scrape and a dashboard show it", f.name, f.help)
		}
		if want := strings.Join([]string{kinds[f.kind], labels, f.help}, "|"); in[f.name] != want {
			t.Errorf("%s: the document has %q, want %q", f.name, in[f.name], want)
		}
		delete(in, f.name)
	}
	for name := range in {
		t.Errorf("%s is documented, and does not exist", name)
	}
}
