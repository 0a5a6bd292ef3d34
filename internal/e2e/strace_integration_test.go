//go:build integration

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestSendfile: records of the local tier are sent by sendfile, those of the remote tier are not.
func TestSendfile(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("%v: this test watches system calls: install strace (Debian: apt-get install strace)", err)
	}
	for name, tt := range map[string]struct {
		timestamp int64 // of ListOffsets: where the read begins
		sent      bool
	}{"remote": {-2, false}, "local": {-4, true}} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "calls")
			s := &serveCommand{dirs: []string{"--cache-dir", t.TempDir(), "--state-dir", t.TempDir()}}
			args := append([]string{"-D", "-f", "-e", "trace=sendfile", "-o", log, artifacts(t).host, "serve", "--listen", "127.0.0.1:0"}, fixtureFlags(t, "txn")...)
			s.cmd = exec.Command(strace, append(args, s.dirs...)...) // -D: the process is rsmhost, and strace is beside it
			s.start(t)
			c, err := dialRaw(s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.nc.Close()
			q := fetchByName("payments", 4096, 0)
			q.Topics[0].Partitions[0].FetchOffset = offsetFor(t, c, "payments", 0, tt.timestamp)
			if n, err := received(mustAsk(t, c, q)); n == 0 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			s.stop(t)
			var calls []string
			hammer.Eventually(t, 10*time.Second, func() bool {
				calls = lines(t, log)
				return len(calls) > 0 && strings.Contains(calls[len(calls)-1], "exited with 0")
			})
			n := 0
			for _, call := range calls {
				if strings.Contains(call, "sendfile(") {
					n++
				}
			}
			if n > 0 != tt.sent {
				t.Errorf("sendfile was called %d times", n)
			}
		})
	}
}

// offsetFor asks a server for the offset of a timestamp, or of a place such as -4, where the local tier begins.
func offsetFor(t *testing.T, c *rawClient, topic string, partition int32, timestamp int64) int64 {
	t.Helper()
	q := kmsg.NewPtrListOffsetsRequest()
	q.Version = 9
	q.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	got := mustAsk(t, c, q).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		t.Fatalf("timestamp %d: error %d", timestamp, got.ErrorCode)
	}
	return got.Offset
}

func lines(t *testing.T, path string) (out []string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}

func mustAsk(t testing.TB, c *rawClient, q kmsg.Request) kmsg.Response {
	t.Helper()
	resp, err := c.ask(q)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
