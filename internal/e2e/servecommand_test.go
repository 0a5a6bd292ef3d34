package e2e

import (
	"bufio"
	"io"

	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// serveCommand is a running `rsmhost serve`.
type serveCommand struct {
	cmd     *exec.Cmd
	address string
	stdout  *bufio.Reader
	stderr  lockedBuffer
	dirs    []string // flags of its cache and state
}

// startServe starts the command on a fixture, or with an empty name on what the flags say, and ends it with the test.
func startServe(t testing.TB, fixture string, flags ...string) *serveCommand {
	t.Helper()
	s := &serveCommand{dirs: []string{"--cache-dir", t.TempDir(), "--state-dir", t.TempDir()}}
	args := []string{"serve", "--listen", "127.0.0.1:0"}
	if fixture != "" {
		args = append(args, fixtureFlags(t, fixture)...)
	}
	s.cmd = exec.Command(artifacts(t).host, append(append(args, s.dirs...), flags...)...)
	s.start(t)
	return s
}

// start starts the command that is set.
func (s *serveCommand) start(t testing.TB) {
	t.Helper()
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // if it was not stopped
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	s.stdout = bufio.NewReader(out)
	line, err := s.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v: %s", err, s.stderr.String())
	}
	s.address = strings.TrimSpace(line)
}

func fixtureFlags(t testing.TB, fixture string) []string {
	t.Helper()
	return dirFlags(t, filepath.Join(fixtures, fixture))
}

// dirFlags serves what lies in a fixture's folder.
func dirFlags(t testing.TB, dir string) []string {
	t.Helper()
	return withPlugin(artifacts(t).process, dir)
}

func withPlugin(plugin, dir string) []string {
	return []string{"--metadata", "dir:" + filepath.Join(dir, "rlmm"), "--log-dir", filepath.Join(dir, "local"),
		"--plugin", plugin, "--plugin-config", "root=" + filepath.Join(dir, "remote")}
}

// stop sends SIGTERM, and gives what else was on stdout.
func (s *serveCommand) stop(t *testing.T) string {
	t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(s.stdout)
	if err != nil {
		t.Error(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("serve ended with %v: %s", err, s.stderr.String())
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v to end", took)
	}
	return string(rest)
}

// TestServeCommand: the address on stdout and nothing else, what is served on stderr; recorded cases pass against it; it
// ends in time while a client waits for data.
func TestServeCommand(t *testing.T) {
	s := startServe(t, "txn", "--kafka-exact")
	test := exec.Command(artifacts(t).host, "test", "--kafka-exact", "--bootstrap", s.address, filepath.Join(fixtures, "txn", "golden", "fetch.jsonl"),
		filepath.Join(fixtures, "txn", "golden", "listoffsets.jsonl"), filepath.Join(fixtures, "txn", "golden", "epochs.jsonl"))
	out, err := test.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "755 passed, 0 failed\n") {
		t.Errorf("test --bootstrap: %v: %s", err, out)
	}
	cl := client(t, s.address, kgo.ConsumeTopics("payments"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute))
	consume(t, cl, len(recorded(t, "txn", "read_uncommitted"))) // and then it waits
	if rest := s.stop(t); rest != "" {
		t.Errorf("more on stdout: %s", rest)
	}
	for _, want := range []string{"serving 1 topic, 2 partitions on " + s.address, "payments-0: offsets 0 to ", "kcat -b " + s.address + " -C -t payments -e"} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("stderr does not say %q: %s", want, s.stderr.String())
		}
	}
}

// TestServeRefuses: a directory that another one has, and an address that others reach.
func TestServeRefuses(t *testing.T) {
	s := startServe(t, "txn")
	local := []string{"serve", "--log-dir", filepath.Join(fixtures, "txn", "local")}
	for want, flags := range map[string][]string{
		"PRECONDITION: another rsmhost has it": append([]string{"--listen", "127.0.0.1:0"}, s.dirs...),
		"--allow-public":                       {"--listen", ":0"},
		"want HOST:PORT":                       {"--listen", "127.0.0.1:0", "--advertise", "nowhere", "--cache-dir", t.TempDir(), "--state-dir", t.TempDir()},
		"address already in use":               {"--listen", s.address, "--cache-dir", t.TempDir(), "--state-dir", t.TempDir()},
	} {
		out, err := exec.Command(artifacts(t).host, append(local, flags...)...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v: %s", flags, err, out)
		}
	}
	s.stop(t)
}
