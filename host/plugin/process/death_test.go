package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

func withLog(o Options, h slog.Handler) Options {
	o.Log = slog.New(h)
	return o
}

func benchPlugin(b *testing.B) *Plugin {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p, err := Start(context.Background(), Options{Path: exe, Env: []string{pluginEnv + "=good"}})
	if err == nil {
		err = p.Configure(context.Background(), nil, nil, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close(context.Background()) })
	return p
}

// TestDeathDuringACall is one sentence with the name, the way it ended, and the reason that it gave itself.
func TestDeathDuringACall(t *testing.T) {
	for topic, want := range map[string][]string{
		"exit":  {"exit status 7", "I was told to go"},
		"panic": {"exit status 2", "panic: out of cheese"},
	} {
		p := start(t, options(t, "good"))
		_, err := p.FetchLogSegment(context.Background(), segment(topic, 0), whole)
		for _, w := range append(want, "rsm-good") {
			if !errors.Is(err, abi.Unavailable) || !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want UNAVAILABLE with %q on one line", topic, err, w)
			}
		}
		<-p.Done()
		if _, err := p.FetchIndex(context.Background(), segment("x", 0), abi.OffsetIndex); !errors.Is(err, abi.Unavailable) || !strings.Contains(err.Error(), want[0]) {
			t.Errorf("%s: the next call: %v", topic, err)
		}
	}
}

func TestDeathDuringAStream(t *testing.T) {
	p := start(t, options(t, "good"))
	src, err := p.FetchLogSegment(context.Background(), segment("endless", 0), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := io.ReadFull(src.Stream, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, src.Stream)
	if !errors.Is(err, abi.Unavailable) || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("got %v, want UNAVAILABLE that names the signal", err)
	}
}

func TestStoppedPlugin(t *testing.T) {
	o := options(t, "good")
	o.StopTimeout = 50 * time.Millisecond
	p := start(t, o)
	if err := syscall.Kill(p.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	within := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		return call(ctx)
	}
	hammer.Eventually(t, soon, func() bool { // the signal is not there at once
		return errors.Is(within(func(ctx context.Context) error {
			_, err := p.FetchLogSegment(ctx, segment("location", 0), whole)
			return err
		}), abi.Deadline)
	})
	if err := within(p.Ping); !errors.Is(err, abi.Deadline) {
		t.Errorf("ping: %v, want DEADLINE", err)
	}
	// The cleanup's Close is what is left to see: it ends a process that no longer obeys.
}

func TestCloseHastened(t *testing.T) {
	p := start(t, options(t, "good"))
	src, err := p.FetchLogSegment(context.Background(), segment("endless", 0), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := time.Now()
	if err := p.Close(ctx); err != nil || time.Since(before) > defaultStop {
		t.Errorf("Close took %v: %v", time.Since(before), err)
	}
	if _, err := io.Copy(io.Discard, src.Stream); !errors.Is(err, abi.Unavailable) {
		t.Errorf("the stream that ran: %v, want UNAVAILABLE", err)
	}
}

func TestCloseLetsAStreamEnd(t *testing.T) {
	p := start(t, options(t, "good"))
	const size = 8 << 20 // more than the window: the plugin has not sent it all
	src, err := p.FetchLogSegment(context.Background(), segment("stream", size), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	closed := make(chan error, 1)
	go func() { closed <- p.Close(context.Background()) }() // awaited below
	hammer.Eventually(t, soon, p.isClosed)
	if n, err := io.Copy(io.Discard, src.Stream); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestGrandchildHoldsTheOutput is a plugin whose child left its group and keeps its standard error open.
func TestGrandchildHoldsTheOutput(t *testing.T) {
	p := start(t, options(t, "forker"))
	var grandchild int
	hammer.Eventually(t, soon, func() bool {
		n, _ := fmt.Sscanf(strings.Join(p.StderrTail(), "\n"), "forked %d", &grandchild)
		return n == 1
	})
	defer syscall.Kill(grandchild, syscall.SIGKILL)
	before := time.Now()
	closePlugin(t, p)
	if took := time.Since(before); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// TestHostKilled kills a host in the middle of a stream: its plugin must be gone a second later.
func TestHostKilled(t *testing.T) {
	tmp := shortTemp(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(exe)
	host.Env = append(os.Environ(), hostEnv+"=victim", "TMPDIR="+tmp)
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	var dir string
	if n, scanErr := fmt.Sscan(line, &pid, &dir); n != 2 {
		host.Process.Kill()
		t.Fatalf("the host said %q: %v, %v", line, err, scanErr)
	}
	if !running(pid) {
		t.Fatalf("the plugin %d does not run", pid)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	host.Wait()
	hammer.Eventually(t, time.Second, func() bool { return !running(pid) })
	// What the host could not remove, the next one does.
	old := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	start(t, options(t, "good"))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// TestStartAndStopAgain leaves no process, no directory and no descriptor. Goroutines are looked at when all tests ended.
func TestStartAndStopAgain(t *testing.T) {
	descriptors := func() int {
		fds, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	start(t, options(t, "good")) // whatever is opened once
	before := descriptors()
	defer hammer.Eventually(t, soon, func() bool { return descriptors() <= before })
	hammer.Run(t, 4, 5, func(int, int) {
		p, err := Start(context.Background(), options(t, "good"))
		if err != nil {
			t.Error(err)
			return
		}
		closePlugin(t, p)
	})
}
