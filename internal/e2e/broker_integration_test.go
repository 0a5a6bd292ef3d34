//go:build integration

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

var shared = flag.String("shared", os.Getenv("SHARED"), "folder with fixtures/ and kafka/ (make integration SHARED=...)")

// sharedDir gives a folder of what lies beside the project.
func sharedDir(t *testing.T, name string) string {
	t.Helper()
	if *shared == "" {
		t.Fatal("what lies beside the project is needed: run make integration SHARED=<the folder that holds fixtures/ and kafka/>")
	}
	dir, err := filepath.Abs(filepath.Join(*shared, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("%v: set SHARED to the folder that holds %s/", err, name)
	}
	return dir
}

// TestSharedFixtures replays every recorded broker that lies beside the project, which may be more than the bundled ones.
func TestSharedFixtures(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(sharedDir(t, "fixtures"), "kafka", "*", "golden", "fetch.jsonl"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded brokers: %v", err)
	}
	art := artifacts(t)
	for _, cases := range dirs {
		fixture := filepath.Dir(filepath.Dir(cases))
		for _, ref := range []string{art.wasm, art.process} {
			for _, mode := range []string{"location", "stream"} {
				for _, exact := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/%s/exact=%v", filepath.Base(fixture), filepath.Base(ref), mode, exact), func(t *testing.T) {
						out := rsmhost(t, art, "test", fmt.Sprintf("--kafka-exact=%v", exact), "--plugin", ref, "--plugin-config", "root="+filepath.Join(fixture, "remote"),
							"--plugin-config", "mode="+mode, "--metadata", "dir:"+filepath.Join(fixture, "rlmm"), "--log-dir", filepath.Join(fixture, "local"), cases)
						if !bytes.HasSuffix(out, []byte(" passed, 0 failed\n")) {
							t.Errorf("%s", out)
						}
					})
				}
			}
		}
	}
}

// rsmhost runs the real command and gives its stdout; a failure to run ends the test.
func rsmhost(t *testing.T, art built, args ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(art.host, args...)
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(art.cache, "xdg"), "XDG_STATE_HOME="+filepath.Join(art.cache, "state"))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("rsmhost %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

// broker is a real Kafka broker with tiered storage.
type broker struct {
	t         *testing.T
	kafka     string // folder of kafka-up
	dir       string
	bootstrap string
	classpath string
}

func startBroker(t *testing.T) *broker {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: a real broker needs a JDK 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)", err)
		}
	}
	b := &broker{t: t, kafka: sharedDir(t, "kafka"), dir: t.TempDir()}
	b.classpath = strings.TrimSpace(string(b.run(filepath.Join(b.kafka, "kafka-up"), "--print-classpath")))
	b.up()
	t.Cleanup(func() { b.down("--kill") })
	return b
}

func (b *broker) up() {
	lines := strings.Fields(string(b.run(filepath.Join(b.kafka, "kafka-up"), b.dir)))
	b.bootstrap = lines[len(lines)-1]
}

// upAgain starts a broker that was killed: its port is free when the system has cleaned up behind it.
func (b *broker) upAgain() {
	b.t.Helper()
	var out []byte
	hammer.Eventually(b.t, 2*time.Minute, func() bool {
		var err error
		out, err = exec.Command(filepath.Join(b.kafka, "kafka-up"), b.dir).CombinedOutput()
		if err != nil && !bytes.Contains(out, []byte("is in use")) {
			b.t.Fatalf("kafka-up: %v\n%s", err, out)
		}
		return err == nil
	})
}

func (b *broker) down(args ...string) {
	b.run(filepath.Join(b.kafka, "kafka-down"), append([]string{b.dir}, args...)...)
}

func (b *broker) run(name string, args ...string) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}

// tool runs one of Kafka's own command line tools.
func (b *broker) tool(class string, args ...string) []byte {
	b.t.Helper()
	return b.run("java", append([]string{"-cp", b.classpath, class, "--bootstrap-server", b.bootstrap}, args...)...)
}

func (b *broker) create(topic string) {
	b.tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", topic, "--partitions", "2", "--config", "remote.storage.enable=true",
		"--config", "internal.segment.bytes=65536", "--config", "local.retention.bytes=70000", "--config", "retention.ms=-1")
}

func (b *broker) produce(topic string, records int, args ...string) {
	b.tool("org.apache.kafka.tools.ProducerPerformance", append([]string{"--topic", topic, "--num-records", strconv.Itoa(records), "--record-size", "300", "--throughput", "-1"}, args...)...)
}

// tiered waits until the local tier of both partitions begins above 0.
func (b *broker) tiered(topic string) {
	b.t.Helper()
	hammer.Eventually(b.t, 2*time.Minute, func() bool {
		out := b.tool("org.apache.kafka.tools.GetOffsetShell", "--topic", topic, "--time", "-4")
		return bytes.Count(out, []byte("\n")) == 2 && !bytes.Contains(out, []byte(":0\n"))
	})
}

// checkpointed waits until the broker's file of high watermarks, which it writes every five seconds and not when it is killed, tells of all
// records of a topic: what lies behind them is not known to be committed.
func (b *broker) checkpointed(topic string, records int) {
	b.t.Helper()
	hammer.Eventually(b.t, time.Minute, func() bool {
		text, err := os.ReadFile(filepath.Join(b.dir, "data", "replication-offset-checkpoint"))
		if err != nil {
			b.t.Fatal(err)
		}
		known := 0
		for line := range strings.Lines(string(text)) {
			var name string
			var partition, offset int
			if n, _ := fmt.Sscan(line, &name, &partition, &offset); n == 3 && name == topic {
				known += offset
			}
		}
		return known == records
	})
}

// consume gives what Kafka's own consumer reads: partition, offset and value of each record.
func (b *broker) consume(topic string, records int) map[string]string {
	out := b.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", strconv.Itoa(records), "--timeout-ms", "60000",
		"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true")
	got := map[string]string{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		if f := strings.SplitN(s.Text(), "\t", 3); len(f) == 3 {
			got[strings.TrimPrefix(f[0], "Partition:")+"/"+strings.TrimPrefix(f[1], "Offset:")] = f[2]
		}
	}
	return got
}

// TestRealBroker writes through a real broker, lets it tier, and reads what it left behind, against what Kafka's own
// consumer read: while it runs, after a clean shutdown, after kill -9, and after a topic was deleted and made again.
func TestRealBroker(t *testing.T) {
	b := startBroker(t)
	const records = 6000
	b.create("orders")
	b.produce("orders", records)
	b.create("ledger")
	b.produce("ledger", records, "--transactional-id", "t1", "--transaction-duration-ms", "50")
	b.tiered("orders")
	b.tiered("ledger")
	want := map[string]map[string]string{"orders": b.consume("orders", records), "ledger": b.consume("ledger", records)}
	provesMove(t, b, "orders", "ledger")
	b.down()
	compareAll(t, b, want, "clean shutdown")

	b.up()
	b.tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", "orders")
	hammer.Eventually(t, time.Minute, func() bool {
		return !bytes.Contains(b.tool("org.apache.kafka.tools.TopicCommand", "--list"), []byte("orders"))
	})
	b.create("orders")
	b.produce("orders", records)
	b.tiered("orders")
	want["orders"] = b.consume("orders", records)
	b.checkpointed("orders", records)
	b.down("--kill")
	compareAll(t, b, want, "topic made again, killed")
}

// provesMove holds serve on a running broker's data against that broker, and what is recorded from the broker against both.
func provesMove(t *testing.T, b *broker, topics ...string) {
	t.Helper()
	art := artifacts(t)
	data := []string{"--metadata", "dir:" + filepath.Join(b.dir, "data"), "--log-dir", filepath.Join(b.dir, "data"), "--plugin", art.process,
		"--plugin-config", "root=" + filepath.Join(b.dir, "remote")}
	s := startServe(t, "", data...)
	for _, topic := range topics {
		if out := rsmhost(t, art, "test", "--bootstrap", b.bootstrap, "--against", s.address, "-t", topic); !bytes.HasSuffix(out, []byte("2 equal, 0 different\n")) {
			t.Errorf("%s: %s", topic, out)
		}
		file := filepath.Join(t.TempDir(), topic+".jsonl")
		if err := os.WriteFile(file, rsmhost(t, art, "record", "--bootstrap", b.bootstrap, "-t", topic, "--cases", "400"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--kafka-exact", "--bootstrap", b.bootstrap}, {"--bootstrap", s.address}, append([]string{"--kafka-exact"}, data...)} {
			if out := rsmhost(t, art, append(append([]string{"test"}, args...), file)...); string(out) != "400 passed, 0 failed\n" {
				t.Errorf("%s, test %s: %s", topic, args[0], out)
			}
		}
	}
	s.stop(t)
}

func compareAll(t *testing.T, b *broker, want map[string]map[string]string, state string) {
	t.Helper()
	art := artifacts(t)
	for topic, records := range want {
		for _, ref := range []string{art.wasm, art.process} {
			out := rsmhost(t, art, "cat", "-t", topic, "-o", "json", "--isolation", "read_committed", "--plugin", ref, "--plugin-config", "root="+filepath.Join(b.dir, "remote"),
				"--metadata", "dir:"+filepath.Join(b.dir, "data"), "--log-dir", filepath.Join(b.dir, "data"))
			if diff := difference(t, records, out); diff != "" {
				t.Errorf("%s, %s through %s: %s", state, topic, filepath.Base(ref), diff)
			}
		}
	}
}

// difference compares the records of cat -o json with what Kafka's consumer read.
func difference(t *testing.T, want map[string]string, out []byte) string {
	t.Helper()
	seen := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); seen++ {
		var r struct {
			Partition int32
			Offset    int64
			Value     struct{ B64 []byte }
		}
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if v, ok := want[fmt.Sprintf("%d/%d", r.Partition, r.Offset)]; !ok || v != string(r.Value.B64) {
			return fmt.Sprintf("partition %d offset %d: got %q, the broker's consumer %q", r.Partition, r.Offset, r.Value.B64, v)
		}
	}
	if seen != len(want) {
		return fmt.Sprintf("%d records, and the broker's consumer had %d", seen, len(want))
	}
	return ""
}
