package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

const soon = 20 * time.Second // for what takes milliseconds, on a machine that is busy

// options start this binary as a plugin of a kind, with a directory for temporary files of its own.
func options(t *testing.T, kind string) Options {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Path: exe, Name: "rsm-" + kind, Env: []string{pluginEnv + "=" + kind}}
}

// start starts a plugin, configures it, and closes it with the test.
func start(t *testing.T, o Options) *Plugin {
	t.Helper()
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePlugin(t, p) })
	if err := p.Configure(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// closePlugin closes p and checks that nothing of it is left.
func closePlugin(t *testing.T, p *Plugin) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if running(p.Pid()) {
		t.Errorf("the process %d is still there", p.Pid())
	}
	if _, err := os.Stat(p.dir.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", p.dir.path, err)
	}
}

// running reports whether a process exists and is no zombie, which is one whose parent this test did not wait for.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// shortTemp gives the plugins of a test their own directory for temporary files. t.TempDir is too long for a socket.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("TMPDIR", dir)
	return dir
}

func TestStart(t *testing.T) {
	o := options(t, "good")
	o.HostVersion = "1.2.3"
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if info := p.Info(); info.Name != "test" || info.Version != "1.0.0" || !slices.Equal(info.ABIVersions, []int32{1}) || len(info.Features) != 0 {
		t.Errorf("Info = %+v", info)
	}
	if st, err := os.Stat(p.dir.path); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("socket directory: %v, %v", st, err)
	}
	if _, err := p.FetchLogSegment(context.Background(), segment("location", 0), abi.Range{}); !errors.Is(err, abi.Phase) {
		t.Errorf("fetch before configure: %v, want PHASE", err)
	}
	if err := p.Configure(context.Background(), nil, nil, nil); err != nil {
		t.Error(err)
	}
	if f := p.Info().Features; !slices.Equal(f, []string{"probe"}) {
		t.Errorf("features %v after configure, want probe", f)
	}
	if err := p.Probe(context.Background()); !errors.Is(err, abi.NotFound) || !strings.Contains(err.Error(), "nothing there") {
		t.Errorf("Probe = %v", err)
	}
	if err := p.Ping(context.Background()); err != nil {
		t.Errorf("Ping = %v", err)
	}
	hammer.Run(t, 4, 1, func(int, int) { closePlugin(t, p) })
	for what, err := range map[string]error{"Probe": p.Probe(context.Background()), "Ping": p.Ping(context.Background()),
		"Configure": p.Configure(context.Background(), nil, nil, nil)} {
		if !errors.Is(err, abi.Phase) {
			t.Errorf("%s after Close: %v, want PHASE", what, err)
		}
	}
	select {
	case <-p.Done():
	default:
		t.Error("Done is open after Close")
	}
}

// TestStartFails is a sentence for every way in which a plugin may be none, in time, with nothing left behind.
func TestStartFails(t *testing.T) {
	dir := shortTemp(t)
	file := filepath.Join(dir, "not-executable")
	script := filepath.Join(dir, "broken")
	lost := filepath.Join(dir, "lost")
	for path, content := range map[string]string{file: "", script: "\x7fELF but no more", lost: "#!/no/such/interpreter\n"} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string // of a kind, or a path
		kind abi.Kind
		want []string
	}{
		{"/no/such/plugin", abi.NotFound, []string{"/no/such/plugin"}},
		{dir, abi.Invalid, []string{"is a directory"}},
		{file, abi.Denied, []string{"not executable", "chmod +x"}},
		{script, abi.Invalid, []string{"not a program for this machine"}},
		{lost, abi.NotFound, []string{"interpreter"}},
		{"banner", abi.Internal, []string{`"hello from the plugin"`, "standard error"}},
		{"babbler", abi.Internal, []string{`"xxx`, "standard error"}},
		{"exits", abi.Unavailable, []string{"exit status 3", "cannot find libfoo.so"}},
		{"unknown-kind", abi.Unavailable, []string{"exit status 0", "wrote nothing"}},
		{"silent", abi.Deadline, []string{"no handshake", "1s", "still loading"}},
		{"deaf", abi.Deadline, []string{"rsm-deaf"}},
		{"version2", abi.Unsupported, []string{"version 2", "1 and 1"}},
		{"netrpc", abi.Unsupported, []string{`"netrpc"`, `"grpc"`}},
		{"faraway", abi.Internal, []string{"192.0.2.1", "loopback"}},
		{"abi7", abi.Unsupported, []string{"[7 8]", "[1]"}},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			o := options(t, c.name)
			if filepath.IsAbs(c.name) {
				o.Path = c.name
			}
			o.StartTimeout = soon
			if c.kind == abi.Deadline {
				o.StartTimeout = time.Second
			}
			p, err := Start(context.Background(), o)
			if p != nil || !errors.Is(err, c.kind) {
				t.Fatalf("%v, %v, want %v", p, err, c.kind)
			}
			for _, w := range append(c.want, o.Name) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line", err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, dirPrefix+"*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestStartIsGivenUp(t *testing.T) {
	dir := shortTemp(t)
	ctx, cancel := context.WithCancel(context.Background())
	logged := &recorder{}
	o := options(t, "silent")
	o.Log = slog.New(logged)
	failed := make(chan error, 1)
	go func() { // awaited below
		_, err := Start(ctx, o)
		failed <- err
	}()
	hammer.Eventually(t, soon, func() bool { return len(logged.lines()) > 0 })
	cancel()
	if err := <-failed; !errors.Is(err, abi.Cancelled) {
		t.Errorf("got %v, want CANCELLED", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := Start(ctx, o); !errors.Is(err, abi.Cancelled) {
		t.Errorf("started under a context that is over: %v", err)
	}
}

func TestLongTMPDIR(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	p := start(t, options(t, "good"))
	if sock := filepath.Join(p.dir.path, "plugin-dir1234567890", "plugin1234567890"); len(sock) >= 100 {
		t.Errorf("a socket could be %s, %d bytes", sock, len(sock))
	}
}

func TestSweepOfWhatKilledHostsLeft(t *testing.T) {
	base := shortTemp(t)
	live, err := makePrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	defer live.remove()
	stale, err := makePrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	stale.lock.Close() // as the kernel does for a host that is gone
	fresh, err := makePrivateDir(base)
	if err != nil {
		t.Fatal(err)
	}
	fresh.lock.Close()
	other := filepath.Join(base, dirPrefix+"other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * sweepAge)
	for _, path := range []string{live.path, stale.path, other} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(base)
	for path, want := range map[string]bool{live.path: true, stale.path: false, fresh.path: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want there: %v", path, err, want)
		}
	}
}

// TestWhatThePluginSees is its environment, its input and its directory.
func TestWhatThePluginSees(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hands-off")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TZ", "UTC")
	o := options(t, "good")
	o.Env = append(o.Env, "GRANTED=yes", "PLUGIN_UNIX_SOCKET_DIR=/elsewhere")
	p := start(t, o)
	var names []string
	for _, line := range strings.Split(string(fetchAll(t, p, "report", 0)), "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "cwd":
			if value != p.dir.path {
				t.Errorf("working directory %s, want %s", value, p.dir.path)
			}
		case "stdin":
			if value != "0" {
				t.Errorf("%s bytes came from standard input", value)
			}
		case "root":
		case "PLUGIN_UNIX_SOCKET_DIR":
			if !strings.HasPrefix(value, p.dir.path) {
				t.Errorf("a grant replaced the socket's directory: %s", value)
			}
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	want := []string{"GRANTED", "LANG", "PATH", "PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS", "RSM_LIFELINE_FD",
		"RSM_PLUGIN_COOKIE", pluginEnv, "TZ"}
	if !slices.Equal(names, want) {
		t.Errorf("the plugin sees %v, want %v", names, want)
	}
}

func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	logged := &recorder{}
	o := options(t, "good")
	o.Log = slog.New(logged)
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closePlugin(t, p)
	err = p.Configure(context.Background(), map[string]string{"fail": "so it is"}, nil, nil)
	if want := abi.E("configure", "fail", abi.Invalid, abi.Text("so it is")); !errors.Is(err, abi.Invalid) || err.Error() != want.Error() {
		t.Errorf("Configure = %v, want %v", err, want)
	}
	if err := p.Configure(context.Background(), map[string]string{"root": dir}, map[string]string{"key": "s3cr3t-value"}, nil); err != nil {
		t.Fatal(err)
	}
	if report := string(fetchAll(t, p, "report", 0)); !strings.HasSuffix(report, "root="+dir) {
		t.Errorf("the plugin's settings: %q", report)
	}
	hammer.Eventually(t, soon, func() bool { return slices.Contains(logged.lines(), "the secret is ***") })
	if tail := strings.Join(p.StderrTail(), "\n"); strings.Contains(tail, "s3cr3t-value") {
		t.Errorf("a secret is in the tail: %q", tail)
	}
}

// recorder is a log that remembers its messages.
type recorder struct {
	mu   sync.Mutex
	msgs []string
	pids []int64
}

func (*recorder) Enabled(context.Context, slog.Level) bool { return true }

func (r *recorder) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.msgs = append(r.msgs, rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "pid" {
			r.pids = append(r.pids, a.Value.Int64())
		}
		return true
	})
	return nil
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }

func (r *recorder) lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.msgs)
}

func TestLongLinesAndNoise(t *testing.T) {
	logged := &recorder{}
	o := options(t, "loud")
	o.Log = slog.New(logged)
	p := start(t, o)
	if got := string(fetchAll(t, p, "print", 0)); got != "printed" {
		t.Errorf("got %q", got)
	}
	if got := string(fetchAll(t, p, "print", 0)); got != "printed" {
		t.Errorf("the second time: %q", got)
	}
	hammer.Eventually(t, soon, func() bool { return len(logged.lines()) == 6 })
	for i, line := range logged.lines() {
		noise := line == "noise on standard output"
		if !noise && (len(line) > maxLine+100 || !strings.HasSuffix(line, " ... ("+strconv.Itoa(1<<20+1-maxLine)+" bytes more)")) {
			t.Errorf("line %d has %d bytes: %.20s...%s", i, len(line), line, line[max(0, len(line)-40):])
		}
	}
	if logged.pids[0] != int64(p.Pid()) {
		t.Errorf("logged pid %d, want %d", logged.pids[0], p.Pid())
	}
	bytes := 0
	for _, line := range p.StderrTail() {
		bytes += len(line)
	}
	if bytes > maxTailBytes || len(p.StderrTail()) != 6 {
		t.Errorf("the tail has %d lines, %d bytes", len(p.StderrTail()), bytes)
	}
}
