package wasm

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/modulecache"
)

// shared is a directory for all tests of this process: the Go guest is built once, and compiled once.
var shared string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared, err = os.MkdirTemp("", "rsm-wasm-test"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(shared)
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

var buildGuest = sync.OnceValues(func() (string, error) { return buildModule("./testdata/guest", "guest.wasm") })

// buildModule builds a Go package as a module into the shared directory.
func buildModule(pkg, name string) (string, error) {
	out := filepath.Join(shared, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	return out, cmd.Run()
}

// goGuest is the path of the Go guest. It needs the go command.
func goGuest(t testing.TB) string {
	t.Helper()
	path, err := buildGuest()
	if err != nil {
		t.Fatalf("building the guest: %v", err)
	}
	return path
}

// loadGuest loads a module, with the compiled form from the shared cache, and closes it with the test.
func loadGuest(t testing.TB, o Options) *Plugin {
	t.Helper()
	if o.Path == "" {
		o.Path = goGuest(t)
	}
	if o.CacheDir == "" {
		o.CacheDir = modulecache.Dir(t)
	}
	if o.MemoryCap == 0 {
		o.MemoryCap = 32 << 20 // one for all: it is part of what the compiled form is kept under
	}
	p, err := Load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if s := p.Stats(); s.Instances != 0 || s.Running != 0 {
			t.Errorf("after Close: %+v", s)
		}
	})
	return p
}

// ready loads the Go guest and configures it.
func ready(t testing.TB, o Options, values map[string]string) *Plugin {
	t.Helper()
	p := loadGuest(t, o)
	if values == nil {
		values = map[string]string{}
	}
	if err := p.Configure(t.Context(), values, nil, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func segment(topic string) *abi.SegmentMetadata {
	return &abi.SegmentMetadata{
		TopicIDPartition: abi.TopicIDPartition{Topic: topic, TopicID: abi.UUID{1}, Partition: 3}, SegmentID: abi.UUID{2},
		StartOffset: 10, EndOffset: 20, SizeBytes: 3 << 20, LeaderEpochs: []abi.LeaderEpoch{{Epoch: 1, StartOffset: 2}},
	}
}

// ask calls FetchLogSegment with a topic that tells the guest what to do.
func ask(ctx context.Context, p *Plugin, topic string) (*abi.Source, error) {
	return p.FetchLogSegment(ctx, segment(topic), abi.Range{Start: 0, End: abi.ToEnd})
}

// inline asks for a source that is a few bytes of text.
func inline(t testing.TB, p *Plugin, topic string) string {
	t.Helper()
	src, err := ask(t.Context(), p, topic)
	if err != nil {
		t.Fatalf("%s: %v", topic, err)
	}
	if src.Location == nil || len(src.Location.Parts) != 1 {
		t.Fatalf("%s: %+v is not inline", topic, src)
	}
	return string(src.Location.Parts[0].Inline)
}

// logTo gives a logger and what it wrote.
func logTo() (*slog.Logger, *logged) {
	l := new(logged)
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})), l
}

type logged struct {
	mu sync.Mutex
	b  []byte
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

var _ io.Writer = (*logged)(nil)

const long = 20 * time.Second // for what must come, on a machine that is busy
