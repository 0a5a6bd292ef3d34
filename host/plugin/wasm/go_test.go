package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/grant"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestInfoIsWhatDescribeSays(t *testing.T) {
	p := loadGuest(t, Options{})
	want := abi.Info{Name: "guest", Vendor: "tests", Version: "0.0.1", ABIVersions: []int32{1}, Schema: []byte(`{"type":"object"}`)}
	if diff := cmp.Diff(want, p.Info()); diff != "" {
		t.Error(diff)
	}
}

func TestLocationComesBackEqual(t *testing.T) {
	p := ready(t, Options{}, nil)
	src, err := p.FetchLogSegment(t.Context(), segment("location"), abi.Range{Start: 5, End: 9})
	if err != nil {
		t.Fatal(err)
	}
	want := &abi.Source{OriginalSize: 3 << 20, ETag: "e", Location: &abi.Location{Parts: []abi.Part{
		{File: &abi.FilePart{Root: "root", Path: "a/b.log", Offset: 5, Length: 5}}}}}
	if diff := cmp.Diff(want, src); diff != "" {
		t.Error(diff)
	}
	src, err = p.FetchIndex(t.Context(), segment("x"), abi.ProducerSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(src.Location.Parts[0].Inline), "PRODUCER_SNAPSHOT of "+segment("x").Key()+" [{1 2}]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestErrorsOfThePluginComeBackEqual(t *testing.T) {
	p := ready(t, Options{}, map[string]string{"probe": "fail"})
	want := &abi.Error{Op: "probe", Subject: "bucket", Kind: abi.Auth, Status: 403, RequestID: "r-1", RetryAfter: 2 * time.Second,
		Err: &abi.Error{Op: "get", Subject: "key", Kind: abi.Denied, Err: abi.Text("expired")}}
	var got *abi.Error
	if err := p.Probe(t.Context()); !errors.As(err, &got) || !cmp.Equal(want, got) {
		t.Errorf("%#v\n%s", err, cmp.Diff(want, got))
	}
	if _, err := p.FetchIndex(t.Context(), segment("x"), abi.TransactionIndex); !errors.Is(err, abi.NotFound) {
		t.Errorf("%v", err)
	}
	if s := p.Stats(); s.Replaced != 0 || s.Created != 1 {
		t.Errorf("an error cost an instance: %+v", s)
	}
}

func TestPhases(t *testing.T) {
	p := loadGuest(t, Options{})
	if _, err := ask(t.Context(), p, "location"); !errors.Is(err, abi.Phase) {
		t.Errorf("before configure: %v", err)
	}
	err := p.Configure(t.Context(), map[string]string{"configure": "refuse"}, nil, nil)
	if e := abi.AsError("", "", err); !errors.Is(err, abi.Invalid) || e.Subject != "root" {
		t.Errorf("a setting that is refused: %v", err)
	}
	if err := p.Configure(t.Context(), nil, map[string]string{"k": "v"}, nil); !errors.Is(err, abi.Unsupported) || !strings.Contains(err.Error(), "secrets") {
		t.Errorf("secrets: %v", err)
	}
	if err := p.Configure(t.Context(), nil, nil, nil); err != nil {
		t.Errorf("configure after one that was refused: %v", err)
	}
	if err := p.Configure(t.Context(), nil, nil, nil); !errors.Is(err, abi.Phase) {
		t.Errorf("configure twice: %v", err)
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	for range 2 {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := ask(t.Context(), p, "location"); !errors.Is(err, abi.Phase) {
		t.Errorf("after close: %v", err)
	}
}

func TestPanicInConfigureIsNamed(t *testing.T) {
	p := loadGuest(t, Options{Name: "mine"})
	err := p.Configure(t.Context(), map[string]string{"configure": "panic"}, nil, nil)
	if !errors.Is(err, abi.Internal) || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "configured to panic") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Configure(ctx, map[string]string{"configure": "loop"}, nil, nil); !errors.Is(err, abi.Deadline) {
		t.Errorf("%v", err)
	}
}

func TestClockRandomAndSleepAreReal(t *testing.T) {
	p := ready(t, Options{}, nil)
	before := time.Now().UnixNano()
	now, err := strconv.ParseInt(inline(t, p, "clock"), 10, 64)
	if after := time.Now().UnixNano(); err != nil || now < before || now > after {
		t.Errorf("the guest's clock says %d, the host's %d to %d (%v)", now, before, after, err)
	}
	seen := map[string]bool{}
	for range 3 {
		seen[inline(t, p, "random")] = true
		if _, err := ask(t.Context(), p, "panic"); err == nil { // the next is another instance
			t.Fatal("no panic")
		}
	}
	if len(seen) != 3 {
		t.Errorf("random bytes repeat: %v", seen)
	}
	slept, err := strconv.ParseInt(inline(t, p, "sleep=20ms"), 10, 64)
	if err != nil || time.Duration(slept) < 20*time.Millisecond {
		t.Errorf("20ms of sleep took the guest %v (%v)", time.Duration(slept), err)
	}
}

func TestSleepEndsWithTheCall(t *testing.T) {
	p := ready(t, Options{}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := ask(ctx, p, "sleep=1h"); !errors.Is(err, abi.Deadline) {
		t.Errorf("%v", err)
	}
	if d := time.Since(start); d > long {
		t.Errorf("took %v", d)
	}
}

func TestDeadlineReachesTheGuest(t *testing.T) {
	p := ready(t, Options{}, nil)
	if got := inline(t, p, "deadline"); !strings.HasPrefix(got, "false") {
		t.Errorf("without a deadline the guest sees %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	src, err := ask(ctx, p, "deadline")
	if err != nil {
		t.Fatal(err)
	}
	var ms int
	if _, err := fmt.Sscanf(string(src.Location.Parts[0].Inline), "true %d", &ms); err != nil || ms > 60_000 || ms < 30_000 {
		t.Errorf("the guest sees %q", src.Location.Parts[0].Inline)
	}
}

func TestWhatTheGuestPrintsIsLogged(t *testing.T) {
	log, out := logTo()
	p := ready(t, Options{Log: log, Name: "mine"}, nil)
	if got := inline(t, p, "print=\xc3\xa4"); got != "0 EOF" {
		t.Errorf("standard input: %q", got)
	}
	for _, want := range []string{`msg="to stdout ä"`, `msg="to stderr ä"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

func TestFloodOfLinesIsCut(t *testing.T) {
	log, out := logTo()
	p := ready(t, Options{Log: log}, nil)
	inline(t, p, "flood")
	if n := len(out.String()); n > 1<<20 || !strings.Contains(out.String(), "dropped_lines=") {
		t.Errorf("%d bytes of log, ending in %s", n, out.String()[max(0, n-300):])
	}
	inline(t, p, "print=again")
	if !strings.Contains(out.String(), "to stdout again") {
		t.Error("the next call is not heard")
	}
}

func TestThereIsNoFileSystem(t *testing.T) {
	p := ready(t, Options{}, nil)
	got := inline(t, p, "escape")
	if strings.Contains(got, "nil") || strings.Contains(got, "root:") || !strings.HasSuffix(got, "[] 0") {
		t.Errorf("the guest sees %q", got)
	}
}

// TestAnInstanceThatMisbehavesIsReplaced walks through what a guest may do to itself. Each costs its instance, says why, and
// leaves the plugin as good as new.
func TestAnInstanceThatMisbehavesIsReplaced(t *testing.T) {
	p := ready(t, Options{Name: "mine", Instances: 1}, nil)
	for _, tt := range []struct {
		topic   string
		kind    abi.Kind
		says    string
		timeout time.Duration
	}{
		{"panic=now", abi.Internal, "panic: boom now", 0},
		{"exit", abi.Internal, "ended itself with status 7", 0},
		{"bomb", abi.Exhausted, "memory", 0},
		{"loop", abi.Deadline, "deadline exceeded", 300 * time.Millisecond},
	} {
		if got := inline(t, p, "calls"); got != "1" {
			t.Errorf("before %s: call %s of an instance that should be new", tt.topic, got)
		}
		before := p.Stats()
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if tt.timeout > 0 {
			ctx, cancel = context.WithTimeout(ctx, tt.timeout)
		}
		_, err := ask(ctx, p, tt.topic)
		cancel()
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "mine") {
			t.Errorf("%s: got %v, want %v with %q", tt.topic, err, tt.kind, tt.says)
		}
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
		if after := p.Stats(); after.Replaced != before.Replaced+1 || after.Traps != before.Traps+1 || after.Instances != 0 {
			t.Errorf("%s: %+v, then %+v", tt.topic, before, after)
		}
	}
}

func TestCallTimeoutBoundsACallWithoutDeadline(t *testing.T) {
	p := ready(t, Options{}, nil)
	p.callTimeout = 100 * time.Millisecond
	if _, err := ask(context.Background(), p, "loop"); !errors.Is(err, abi.Deadline) {
		t.Errorf("%v", err)
	}
}

func TestCancelEndsACall(t *testing.T) {
	p := ready(t, Options{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := ask(ctx, p, "loop"); !errors.Is(err, abi.Cancelled) {
		t.Errorf("%v", err)
	}
}

func TestInstanceOverItsHighWaterMarkIsReplaced(t *testing.T) {
	p := ready(t, Options{}, nil)
	inline(t, p, "hold=1")
	if s := p.Stats(); s.Replaced != 0 {
		t.Errorf("after 1 MiB: %+v", s)
	}
	if got := inline(t, p, "hold=25"); got != "held" {
		t.Errorf("%q", got)
	}
	if s := p.Stats(); s.Replaced != 1 || s.Instances != 0 {
		t.Errorf("after 25 of 32 MiB: %+v", s)
	}
}

func TestGoroutineLeftBehindDoesNotHoldUpTheCall(t *testing.T) {
	p := ready(t, Options{}, nil)
	for range 3 {
		if got := inline(t, p, "goroutine"); got != "left one" {
			t.Errorf("%q", got)
		}
	}
}

func TestReplyOverItsLimitIsExhausted(t *testing.T) {
	p := ready(t, Options{}, nil)
	if _, err := ask(t.Context(), p, "big"); !errors.Is(err, abi.Exhausted) {
		t.Errorf("%v", err)
	}
	if _, err := ask(t.Context(), p, "nothing"); !errors.Is(err, abi.Internal) {
		t.Errorf("%v", err)
	}
	if s := p.Stats(); s.Replaced != 0 {
		t.Errorf("%+v", s)
	}
}

func TestFilesAreReadBelowGrantedRootsOnly(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "root")
	for name, text := range map[string]string{"root/a/b.log": "0123456789abcdefghij", "root/short": "01234", "secret": "secret"} {
		path := filepath.Join(outside, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	roots, err := grant.OpenRoots(map[string]string{"root": dir})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	p := loadGuest(t, Options{})
	if err := p.Configure(t.Context(), map[string]string{"root": dir, "other": "/"}, nil, roots); err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]string{"size=root:a/b.log": "20", "read=root:a/b.log": "3456789abc <nil>", "read=root:short": "34 EOF"} {
		if got := inline(t, p, topic); got != want {
			t.Errorf("%s: got %q, want %q", topic, got, want)
		}
	}
	for topic, want := range map[string]abi.Kind{
		"size=root:missing": abi.NotFound, "size=root:a": abi.NotFound, "size=root:../secret": abi.Denied, "read=root:link": abi.Denied,
		"read=root:/etc/passwd": abi.Denied, "read=other:etc/passwd": abi.Denied, "read=nothing:a": abi.Denied, "size=root:": abi.Denied,
		"size=root:" + strings.Repeat("a/", 3000): abi.Invalid,
	} {
		if _, err := ask(t.Context(), p, topic); !errors.Is(err, want) {
			t.Errorf("%.40s: got %v, want %v", topic, err, want)
		}
	}
}
