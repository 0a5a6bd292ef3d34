//go:build integration

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// appsPath resolves what Kafka's applications need, once a run: Maven keeps the jars.
var appsPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "classpath")
	out, err := exec.Command("mvn", "-q", "-B", "-f", filepath.Join("testdata", "kafkaapps", "pom.xml"), "dependency:build-classpath", "-Dmdep.outputFile="+path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mvn: %w\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
})

// application is a running Java program.
type application struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  lockedBuffer
	done chan struct{} // closed when it ended
}

// startApp starts a class, or a file of Java source, and ends it with the test.
func startApp(t *testing.T, args ...string) *application {
	t.Helper()
	path, err := appsPath()
	if err != nil {
		t.Fatal(err)
	}
	a := &application{t: t, done: make(chan struct{})}
	a.cmd = exec.Command("java", append([]string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx400m", "-Dlog4j2.level=WARN", "-cp", path}, args...)...)
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.out
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process, which stop ends
		a.cmd.Wait()
		close(a.done)
	}()
	t.Cleanup(a.stop)
	return a
}

func (a *application) stop() {
	a.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-a.done:
	case <-time.After(20 * time.Second):
		a.cmd.Process.Kill()
		<-a.done
	}
}

// waits is how long an application may take until it has read everything, on a machine that is busy.
const waits = 4 * time.Minute

// until waits for a condition. An application that ends before fails the test.
func (a *application) until(what string, cond func() bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waits)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			a.t.Fatalf("not %s after %v: %s", what, waits, a.lastWords())
		case <-a.done:
			if !cond() {
				a.t.Fatalf("it ended (%v) and not %s: %s", a.cmd.ProcessState, what, a.lastWords())
			}
		}
	}
}

// lastWords is the end of what the application logged, where it says why it ends.
func (a *application) lastWords() string {
	text := a.out.String()
	return text[max(0, len(text)-6000):]
}

// logMost is what an application may log in a whole test: one that asks without a pause what it is refused writes megabytes.
const logMost = 200 << 10

func (a *application) quiet() {
	a.t.Helper()
	if n := len(a.out.String()); n > logMost {
		a.t.Errorf("%d bytes of log: %.3000s", n, a.out.String())
	}
}

var streamsRecord = regexp.MustCompile(`(?m)^record \d/\d+$`)

// TestStreams: an application of Kafka Streams that only reads gets every record; one whose store wants a changelog is told that it
// can't be made, and ends.
func TestStreams(t *testing.T) {
	s := startServe(t, "txn")
	want := len(recorded(t, "txn", "read_uncommitted"))
	source := filepath.Join("testdata", "kafkaapps", "Reads.java")
	t.Run("reads", func(t *testing.T) {
		a := startApp(t, source, s.address, "payments", "all", t.TempDir())
		a.until("read everything", func() bool { return len(streamsRecord.FindAllString(a.out.String(), -1)) >= want })
		seen := map[string]bool{}
		for _, r := range streamsRecord.FindAllString(a.out.String(), -1) {
			if seen[r] {
				t.Errorf("%s came twice", r)
			}
			seen[r] = true
		}
		if len(seen) != want {
			t.Errorf("%d records, want %d", len(seen), want)
		}
		if text := streamsRecord.ReplaceAllString(a.out.String(), ""); len(text) > logMost {
			t.Errorf("%d bytes of log: %.3000s", len(text), text)
		}
	})
	t.Run("counts", func(t *testing.T) {
		a := startApp(t, source, s.address, "payments", "count", t.TempDir())
		select {
		case <-a.done:
		case <-time.After(waits):
			t.Fatalf("it does not end: %.6000s", a.out.String())
		}
		if text := a.out.String(); !strings.Contains(text, "failed ") || !strings.Contains(text, "state ERROR") {
			t.Errorf("it is not told why it ends: %.6000s", text)
		}
		a.quiet()
	})
	s.stop(t)
}

// properties writes a file of them.
func properties(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.properties")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConnect: a sink of Kafka Connect gets every record.
func TestConnect(t *testing.T) {
	s := startServe(t, "txn")
	dir := t.TempDir()
	file := filepath.Join(dir, "sink.txt")
	worker := properties(t, "bootstrap.servers="+s.address, "key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter", "offset.storage.file.filename="+filepath.Join(dir, "offsets"),
		"listeners=http://127.0.0.1:0", "offset.flush.interval.ms=500", "consumer.auto.offset.reset=earliest")
	sink := properties(t, "name=sink", "connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector", "tasks.max=2", "topics=payments", "file="+file)
	a := startApp(t, "org.apache.kafka.connect.cli.ConnectStandalone", worker, sink)
	want := len(recorded(t, "txn", "read_uncommitted"))
	lines := func() int {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0
		}
		return strings.Count(string(b), "\n")
	}
	a.until("written everything", func() bool { return lines() >= want })
	a.stop()
	if n := lines(); n != want {
		t.Errorf("%d lines, want %d", n, want)
	}
	a.quiet()
	s.stop(t)
}

// TestMirrorMaker: MirrorMaker 2 copies every record to a broker, and the topic there does not lose what is old. Two settings keep
// what it writes itself on the target: with its defaults it wants topics on the source too, for offset syncs and heartbeats, and
// ends after a minute when it can't make them, as beside a broker that denies it.
func TestMirrorMaker(t *testing.T) {
	s := startServe(t, "txn")
	b := startBroker(t)
	config := properties(t, "clusters=source,target", "source.bootstrap.servers="+s.address, "target.bootstrap.servers="+b.bootstrap,
		"source->target.enabled=true", "target->source.enabled=false", "topics=payments",
		"offset-syncs.topic.location=target", "emit.heartbeats.enabled=false",
		"replication.factor=1", "checkpoints.topic.replication.factor=1", "heartbeats.topic.replication.factor=1", "offset-syncs.topic.replication.factor=1",
		"offset.storage.replication.factor=1", "status.storage.replication.factor=1", "config.storage.replication.factor=1") // the target is one broker
	a := startApp(t, "org.apache.kafka.connect.mirror.MirrorMaker", config)
	want := fmt.Sprintf("%d", len(recorded(t, "txn", "read_uncommitted")))
	ends := func() string {
		total := 0
		out, err := exec.Command("java", "-cp", b.classpath, "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", b.bootstrap, "--topic", "source.payments").Output()
		if err != nil {
			return ""
		}
		for line := range strings.Lines(string(out)) {
			var n int
			if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 3 {
				fmt.Sscan(f[2], &n)
				total += n
			}
		}
		return fmt.Sprint(total)
	}
	a.until("copied everything", func() bool { return ends() == want })
	hammer.Eventually(t, waits, func() bool {
		out := b.tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "source.payments")
		return strings.Contains(string(out), "retention.ms=-1") && strings.Contains(string(out), "retention.bytes=-1")
	})
	if got := ends(); got != want {
		t.Errorf("%s records, want %s", got, want)
	}
	a.stop()
	a.quiet()
	s.stop(t)
}
