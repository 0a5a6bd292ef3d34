package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// lockedBuffer is what a process writes while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// says waits until the command said something on stderr.
func (s *serveCommand) says(t *testing.T, what string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	hammer.Eventually(t, 11*time.Second, func() bool {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q: %s", what, s.stderr.String())
		}
		return strings.Contains(s.stderr.String(), what)
	})
}

var adminAddress = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/ answers /metrics`)

// admin gives a function that asks the command's admin endpoint.
func (s *serveCommand) admin(t *testing.T) func(path string) (int, string) {
	t.Helper()
	s.says(t, "answers /metrics")
	base := adminAddress.FindStringSubmatch(s.stderr.String())[1]
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return func(path string) (int, string) {
		resp, err := client.Get(base + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(b)
	}
}

// TestAdmin: the command answers on its admin address; it is ready until it drains, and says then why it is not.
func TestAdmin(t *testing.T) {
	s := startServe(t, "txn", "--admin", "127.0.0.1:0")
	get := s.admin(t)
	if status, text := get("/readyz"); status != 200 || text != "ready\nserving: ok\nmetadata: ok\nplugin: ok\n" {
		t.Errorf("ready: %d %s", status, text)
	}
	cl := client(t, s.address, kgo.ConsumeTopics("payments"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute))
	consume(t, cl, len(recorded(t, "txn", "read_uncommitted")))
	_, text := get("/metrics")
	for _, want := range []string{`kafka_server_brokertopicmetrics_remotefetcherrors_total{topic="payments"} 0`, "rsmhost_plugin_starts_total 1\n", "\ngo_goroutines ", "\nprocess_open_fds ",
		`rsmhost_plugin_info{file="rsm-localfs",name="localfs",placement="process",version=`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if regexp.MustCompile(`(?m)^kafka_server_brokertopicmetrics_remotefetchbytes_total\{topic="payments"\} [1-9]`).FindString(text) == "" {
		t.Error("no remote bytes are counted")
	}
	if status, _ := get("/debug/pprof/"); status != 404 {
		t.Errorf("profiles without --admin-pprof: %d", status)
	}
	s.stop(t)
}

// TestAdminRefuses: an address that others reach, and flags without one.
func TestAdminRefuses(t *testing.T) {
	for want, flags := range map[string][]string{
		"--admin-allow-public": {"--admin", ":0"},
		"which is not given":   {"--admin-pprof"},
		"missing port":         {"--admin", "127.0.0.1"},
	} {
		args := append([]string{"serve", "--listen", "127.0.0.1:0", "--log-dir", filepath.Join(fixtures, "txn", "local"), "--cache-dir", t.TempDir(), "--state-dir", t.TempDir()}, flags...)
		out, err := exec.Command(artifacts(t).host, args...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v: %s", flags, err, out)
		}
	}
}

// TestReload: SIGHUP puts in force what can change, names what needs a restart, and a file that is wrong changes nothing. A
// flag wins over the file.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rsmhost.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("remote.log.reader.threads: 4\nmemory.max: 100000000\n")
	s := startServe(t, "txn", "--admin", "127.0.0.1:0", "--config", file, "--remote.log.reader.max.pending.tasks", "9")
	get := s.admin(t)
	holds := func(want string) {
		t.Helper()
		if _, text := get("/metrics"); !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
	reload := func(text, says string) {
		t.Helper()
		write(text)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		s.says(t, says)
	}
	holds("rsmhost_reader_threads 4")
	reload("remote.log.reader.threads: 5\nmemory.max: 200000000\nremote.log.reader.max.pending.tasks: 1\nfetch.max.bytes: 2048\nremote.log.index.file.cache.total.size.bytes: 4096\n",
		"rsmhost: reload: memory.max: stays 100000000; 200000000 ("+file+":2) needs a restart\n")
	for _, want := range []string{"reload: remote.log.reader.threads: 4 -> 5 (" + file + ":1)\n", "reload: fetch.max.bytes: 57671680 -> 2048 ("} {
		s.says(t, want)
	}
	if strings.Contains(s.stderr.String(), "max.pending.tasks") {
		t.Error("the file won over a flag: " + s.stderr.String())
	}
	holds("rsmhost_reader_threads 5")
	holds("rsmhost_index_cache_limit_bytes 4096")
	holds("rsmhost_memory_limit_bytes 1e+08")
	if got := brokerConfig(t, s.address, "fetch.max.bytes"); got != "2048" {
		t.Errorf("clients are told fetch.max.bytes=%s", got)
	}
	reload("remote.log.reader.threads: many\n", "rsmhost: reload: nothing changed: configure remote.log.reader.threads ("+file+":1): INVALID")
	holds("rsmhost_reader_threads 5")
	holds(`rsmhost_config_reloads_total{result="refused"} 1`)
	holds(`rsmhost_config_reloads_total{result="applied"} 1`)
	s.stop(t)
}

// brokerConfig is a setting as clients see it.
func brokerConfig(t *testing.T, address, key string) string {
	t.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{key}
	q.Resources = append(q.Resources, r)
	resp, err := client(t, address).SeedBrokers()[0].Request(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if c.Name == key && c.Value != nil {
			return *c.Value
		}
	}
	return ""
}
