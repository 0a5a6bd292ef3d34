// Command benchkafka measures `rsmhost serve` beside a real Kafka broker on the same tiered data, with the same raw client,
// in turns, and prints ratios with their spread: the first table of docs/numbers.md.
//
//	make bench-kafka SHARED=...
//
// It needs the folder that holds kafka/ and bench/ (a broker from Maven, and rawfetch), a JDK and Maven. It writes 1.5 GB below
// the temporary directory, and takes them away again.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.shared, "shared", os.Getenv("SHARED"), "folder with kafka/ and bench/")
	flag.StringVar(&o.bin, "bin", "bin", "folder with rsmhost and rsm-localfs")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds that are measured, after two that are not")
	flag.IntVar(&o.megabytes, "mb", 300, "megabytes a partition")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of rsmhost's remote reads to this file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchkafka:", err)
		os.Exit(1)
	}
}

type options struct {
	shared, bin, profile string
	rounds, megabytes    int
}

// run sets up both servers, measures them, and takes everything away.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	if _, err := os.Stat(filepath.Join(o.shared, "kafka", "kafka-up")); err != nil {
		return fmt.Errorf("no broker to compare with: %w; give SHARED=<the folder with kafka/ and bench/>", err)
	}
	dir, err := os.MkdirTemp("", "benchkafka")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client := filepath.Join(dir, "rawfetch")
	if err := command(ctx, "go", "build", "-C", filepath.Join(o.shared, "bench", "rawfetch"), "-o", client, ".").Run(); err != nil {
		return fmt.Errorf("build rawfetch: %w", err)
	}
	k := &kafka{up: filepath.Join(o.shared, "kafka", "kafka-up"), down: filepath.Join(o.shared, "kafka", "kafka-down"), dir: filepath.Join(dir, "kafka")}
	defer k.stop()
	if err := k.start(ctx); err != nil {
		return err
	}
	if err := k.fill(ctx, o.megabytes); err != nil {
		return err
	}
	r := &rsmhost{bin: o.bin, dir: dir, kafka: k.dir, profile: o.profile != ""}
	defer r.stop()
	if err := r.start(ctx); err != nil {
		return err
	}
	m := measuring{client: client, rounds: o.rounds, kafka: server{k.bootstrap, k.pid}, ours: server{r.address, r.cmd.Process.Pid}, progress: os.Stderr}
	if o.profile != "" {
		return r.profileTo(ctx, o.profile, func() error { return m.remoteAlone(ctx, out) })
	}
	return m.all(ctx, out)
}

// command is one whose messages go to stderr.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	return c
}

// kafka is the real broker.
type kafka struct {
	up, down, dir        string
	bootstrap, classpath string
	pid                  int
}

func (k *kafka) start(ctx context.Context) error {
	fmt.Fprintln(os.Stderr, "starting Kafka")
	cp, err := command(ctx, k.up, "--print-classpath").Output()
	if err != nil {
		return fmt.Errorf("kafka-up --print-classpath: %w", err)
	}
	k.classpath = strings.TrimSpace(string(cp))
	out, err := command(ctx, k.up, k.dir, "--heap", "1g", "--jvm", "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35",
		"-o", "remote.log.reader.threads=10", "-o", "message.max.bytes=2000000").Output()
	if err != nil {
		return fmt.Errorf("kafka-up: %w", err)
	}
	lines := strings.Fields(string(out))
	k.bootstrap = lines[len(lines)-1]
	pid, err := os.ReadFile(filepath.Join(k.dir, "kafka.pid"))
	if err != nil {
		return err
	}
	k.pid, err = strconv.Atoi(strings.TrimSpace(string(pid)))
	return err
}

func (k *kafka) stop() {
	if k.pid != 0 {
		exec.Command(k.down, k.dir, "--kill").Run()
	}
}

// tool runs one of Kafka's own commands.
func (k *kafka) tool(ctx context.Context, class string, args ...string) (string, error) {
	out, err := command(ctx, "java", append([]string{"-cp", k.classpath, class, "--bootstrap-server", k.bootstrap}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", class, err)
	}
	return string(out), nil
}

// Topics: big lies in the remote tier but for its active segments, near in the local one.
const (
	big, near  = "big", "near"
	partitions = 4
)

// fill writes both topics and waits until big is tiered.
func (k *kafka) fill(ctx context.Context, megabytes int) error {
	for _, t := range [][]string{
		{big, "--config", "remote.storage.enable=true", "--config", "local.retention.bytes=1"},
		{near},
	} {
		fmt.Fprintf(os.Stderr, "writing %d MB to %s\n", partitions*megabytes, t[0])
		args := append([]string{"--create", "--topic", t[0], "--partitions", strconv.Itoa(partitions), "--config", "segment.bytes=134217728", "--config", "max.message.bytes=2000000"}, t[1:]...)
		if _, err := k.tool(ctx, "org.apache.kafka.tools.TopicCommand", args...); err != nil {
			return err
		}
		if _, err := k.tool(ctx, "org.apache.kafka.tools.ProducerPerformance", "--topic", t[0], "--num-records", strconv.Itoa(partitions*megabytes*1000), "--record-size", "1000",
			"--throughput", "-1", "--command-property", "batch.size=900000", "linger.ms=1000", "max.request.size=2000000", "partitioner.adaptive.partitioning.enable=false", "compression.type=none"); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "waiting for the remote tier")
	for range 120 {
		out, err := k.tool(ctx, "org.apache.kafka.tools.GetOffsetShell", "--topic", big, "--time", "-4")
		if err != nil {
			return err
		}
		if strings.Count(out, "\n") == partitions && !strings.Contains(out, ":0\n") && k.settled() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("topic %s was not tiered within two minutes", big)
}

// settled reports whether all but the active segments left the local tier.
func (k *kafka) settled() bool {
	logs, err := filepath.Glob(filepath.Join(k.dir, "data", big+"-*", "*.log"))
	return err == nil && len(logs) == partitions
}

// rsmhost is ours, on the same data.
type rsmhost struct {
	bin, dir, kafka string
	profile         bool
	cmd             *exec.Cmd
	address         string
	stderr          *os.File
}

func (r *rsmhost) start(ctx context.Context) error {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--metadata", "dir:" + filepath.Join(r.kafka, "data"), "--log-dir", filepath.Join(r.kafka, "data"),
		"--plugin", filepath.Join(r.bin, "rsm-localfs"), "--plugin-config", "root=" + filepath.Join(r.kafka, "remote"),
		"--cache-dir", filepath.Join(r.dir, "cache"), "--state-dir", filepath.Join(r.dir, "state")}
	if r.profile {
		args = append(args, "--admin", "127.0.0.1:0", "--admin-pprof")
	}
	r.cmd = exec.Command(filepath.Join(r.bin, "rsmhost"), args...)
	var err error
	if r.stderr, err = os.Create(filepath.Join(r.dir, "rsmhost.log")); err != nil {
		return err
	}
	r.cmd.Stderr = r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		text, _ := os.ReadFile(r.stderr.Name())
		return fmt.Errorf("rsmhost serve did not start: %w\n%s", err, text)
	}
	r.address = strings.TrimSpace(line)
	return ctx.Err()
}

func (r *rsmhost) stop() {
	if r.cmd == nil || r.cmd.Process == nil {
		return
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	r.cmd.Wait()
	r.stderr.Close()
}
