package plugin

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// mortal is the name under which this test binary is a plugin that dies when it is asked for a time index, and that does not
// start where its file "refuse" is there, and never comes to where "hang" is.
const mortal = "rsm-mortal"

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == mortal {
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "refuse")); err == nil {
			os.Exit(3)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "hang")); err == nil {
			os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), "hangs"), nil, 0o600)
			time.Sleep(time.Hour) // in the plugin: until it is killed
		}
		sdk.Main(mortalPlugin())
	}
	goleak.VerifyTestMain(m)
}

type mortalStore struct{}

// whoIs is an object that holds the plugin's process id.
func whoIs() *abi.Source {
	return &abi.Source{OriginalSize: -1, Stream: io.NopCloser(strings.NewReader(strconv.Itoa(os.Getpid())))}
}

func mortalPlugin() sdk.Plugin {
	return sdk.Plugin{Info: abi.Info{Name: "mortal", Version: "1"}, New: func(context.Context, *sdk.Config) (abi.RemoteStorageManager, error) { return mortalStore{}, nil }}
}

func (mortalStore) FetchLogSegment(context.Context, *abi.SegmentMetadata, abi.Range) (*abi.Source, error) {
	return whoIs(), nil
}

func (mortalStore) FetchIndex(_ context.Context, _ *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	if t == abi.TimeIndex {
		os.Exit(9)
	}
	return whoIs(), nil
}

// mortalAt opens the plugin, and gives the folder where it lies.
func mortalAt(t *testing.T) (*Plugin, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, mortal)
	if err := os.Link(self, path); err != nil { // a symbolic link would be resolved
		b, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Open(context.Background(), Options{Ref: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p, dir
}

func pidOf(t *testing.T, p *Plugin) string {
	t.Helper()
	src, err := p.FetchIndex(context.Background(), &abi.SegmentMetadata{}, abi.OffsetIndex)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	b, err := io.ReadAll(src.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// die has the plugin end itself, and waits until it did.
func die(t *testing.T, p *Plugin) {
	t.Helper()
	if _, err := p.FetchIndex(context.Background(), &abi.SegmentMetadata{}, abi.TimeIndex); abi.KindOf(err) != abi.Unavailable {
		t.Errorf("a plugin that dies in a call: %v", err)
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return dead(p.life.now()) })
}

// TestStartedAgain: a process that died is started again by the next calls, once.
func TestStartedAgain(t *testing.T) {
	p, _ := mortalAt(t)
	first := pidOf(t, p)
	die(t, p)
	pids := make([]string, 8)
	hammer.Run(t, len(pids), 1, func(i, _ int) { pids[i] = pidOf(t, p) })
	for _, pid := range pids {
		if pid == first || pid != pids[0] {
			t.Errorf("was %s, is %v", first, pids)
		}
	}
	if p.Starts() != 2 {
		t.Errorf("%d starts", p.Starts())
	}
}

// TestDoesNotStartAgain: a call says so, in the time it has, and so does one behind Close; it starts when it can again.
func TestDoesNotStartAgain(t *testing.T) {
	p, dir := mortalAt(t)
	refuse := filepath.Join(dir, "refuse")
	if err := os.WriteFile(refuse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	die(t, p)
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		src, err := p.FetchIndex(ctx, &abi.SegmentMetadata{}, abi.OffsetIndex)
		if err == nil {
			src.Close()
		}
		return err
	}
	for range 3 {
		if err := ask(); abi.KindOf(err) != abi.Unavailable || !strings.Contains(err.Error(), "does not run again yet") {
			t.Errorf("%v", err)
		}
	}
	if err := os.Remove(refuse); err != nil {
		t.Fatal(err)
	}
	hammer.Eventually(t, 30*time.Second, func() bool { return ask() == nil })
	die(t, p)
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := ask(); abi.KindOf(err) != abi.Phase {
		t.Errorf("after Close: %v", err)
	}
}

// TestCloseWhileItStarts: Close does not wait for a start that hangs: it ends that, and the call that waits for it.
func TestCloseWhileItStarts(t *testing.T) {
	p, dir := mortalAt(t)
	if err := os.WriteFile(filepath.Join(dir, "hang"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	die(t, p)
	called := make(chan error, 1)
	go func() {
		_, err := p.FetchIndex(context.Background(), &abi.SegmentMetadata{}, abi.OffsetIndex)
		called <- err
	}()
	hammer.Eventually(t, 10*time.Second, func() bool { _, err := os.Stat(filepath.Join(dir, "hangs")); return err == nil })
	began := time.Now()
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := <-called; abi.KindOf(err) != abi.Phase {
		t.Errorf("the call: %v", err)
	}
}

// TestBackoff: an instance that lived is replaced at once, one that dies on and on ever later, up to a bound.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife()
		wait := func() time.Duration { return time.Until(l.next) }
		l.died(time.Hour)
		l.died(time.Second)
		if wait() > 0 {
			t.Errorf("once, after an hour: %v", wait())
		}
		for most := firstBackoff; most < 4*maxBackoff; most *= 2 {
			l.died(0)
			if bound := min(most, maxBackoff); wait() < bound/2 || wait() > bound {
				t.Errorf("death %d: %v, want %v to %v", l.hurried, wait(), bound/2, bound)
			}
		}
		time.Sleep(time.Hour)
		l.died(steady)
		l.died(0)
		if wait() > 0 {
			t.Errorf("after it lived: %v", wait())
		}
	})
}
