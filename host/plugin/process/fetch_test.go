package process

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

var whole = abi.Range{Start: 0, End: abi.ToEnd}

func fetchAll(t *testing.T, p *Plugin, topic string, partition int32) []byte {
	t.Helper()
	src, err := p.FetchLogSegment(context.Background(), segment(topic, partition), whole)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	b, err := io.ReadAll(src.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFetch(t *testing.T) {
	p := start(t, options(t, "good"))
	ctx := context.Background()
	src, err := p.FetchLogSegment(ctx, segment("location", 0), whole)
	want := &abi.Source{OriginalSize: 5, Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("hello")}}}}
	if err != nil || !reflect.DeepEqual(src, want) {
		t.Errorf("location: %+v, %v", src, err)
	}
	if src, err := p.FetchLogSegment(ctx, segment("error", 0), whole); src != nil || !reflect.DeepEqual(err, error(wholeError)) {
		t.Errorf("error: %v, %#v, want %#v", src, err, wholeError)
	}
	for _, size := range []int{0, 1, 1000, 256 << 10, 5<<20 + 3} {
		b := fetchAll(t, p, "stream", int32(size))
		if len(b) != size {
			t.Fatalf("%d bytes of %d", len(b), size)
		}
		for i := range b {
			if b[i] != pattern(i) {
				t.Fatalf("size %d: byte %d is wrong", size, i)
			}
		}
	}
	src, err = p.FetchIndex(ctx, segment("orders", 0), abi.TimeIndex)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if b, err := io.ReadAll(iotest.OneByteReader(src.Stream)); err != nil || string(b) != "orders TIMESTAMP" {
		t.Errorf("index: %q, %v", b, err)
	}
	if _, err := src.Stream.Read(nil); err != nil {
		t.Errorf("an empty read: %v", err)
	}
}

// TestPlainStub is a plugin as another language has it: no SDK, no Drain, no Probe, no health, and unknown to our details.
func TestPlainStub(t *testing.T) {
	for _, kind := range []string{"raw", "raw-tcp"} {
		p := start(t, options(t, kind))
		for _, topic := range []string{"good", "unknown reply"} {
			if b := fetchAll(t, p, topic, 0); string(b) != "abc" {
				t.Errorf("%s, %s: %q", kind, topic, b)
			}
		}
		if err := p.Ping(context.Background()); err != nil {
			t.Errorf("%s: Ping of a plugin without health service: %v", kind, err)
		}
		if err := p.Probe(context.Background()); !errors.Is(err, abi.Unsupported) {
			t.Errorf("%s: Probe = %v, want UNSUPPORTED", kind, err)
		}
		if _, err := p.FetchIndex(context.Background(), segment("x", 0), abi.OffsetIndex); !errors.Is(err, abi.Unsupported) {
			t.Errorf("%s: FetchIndex = %v, want UNSUPPORTED", kind, err)
		}
		for code, want := range map[int]abi.Kind{5: abi.NotFound, 8: abi.Throttled, 14: abi.Unavailable, 15: abi.Corrupt, 2: abi.Internal} {
			_, err := p.FetchLogSegment(context.Background(), segment("code "+strconv.Itoa(code), 0), whole)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "words") {
				t.Errorf("%s: code %d: %v, want %v", kind, code, err, want)
			}
		}
	}
}

// TestBrokenStreams is what the host says to a plugin that does not keep to the protocol.
func TestBrokenStreams(t *testing.T) {
	p := start(t, options(t, "raw"))
	for topic, c := range map[string]struct {
		kind  abi.Kind
		want  string
		bytes int
	}{
		"no answer":        {abi.Internal, "without an answer", 0},
		"data first":       {abi.Internal, "begin its answer", 0},
		"end first":        {abi.Internal, "begin its answer", 0},
		"no end":           {abi.Corrupt, "truncated", 3},
		"wrong length":     {abi.Corrupt, "4 bytes, and 3", 3},
		"wrong checksum":   {abi.Corrupt, "checksum", 3},
		"second source":    {abi.Internal, "second source", 3},
		"data after end":   {abi.Internal, "went on", 3},
		"frame too large":  {abi.Internal, "the most is 1048576", 0},
		"message too big":  {abi.Internal, "4194304", 0},
		"data on location": {abi.Internal, "went on", 0},
	} {
		src, err := p.FetchLogSegment(context.Background(), segment(topic, 0), whole)
		var b []byte
		if err == nil {
			b, err = io.ReadAll(src.Stream)
			if _, again := src.Stream.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("%s: the next read says %v", topic, again)
			}
			src.Close()
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "rsm-raw") || len(b) != c.bytes {
			t.Errorf("%s: %d bytes, %v, want %d and %v with %q", topic, len(b), err, c.bytes, c.kind, c.want)
		}
	}
	if b := fetchAll(t, p, "frame of 1 MiB", 0); len(b) != 1<<20 {
		t.Errorf("a frame of 1 MiB: %d bytes", len(b))
	}
}

func TestGoPluginsOwnServer(t *testing.T) {
	logged := &recorder{}
	p := start(t, withLog(options(t, "goplugin"), logged))
	if b := fetchAll(t, p, "good", 0); string(b) != "abc" { // it prints more than a pipe holds
		t.Errorf("got %q", b)
	}
	hammer.Eventually(t, soon, func() bool { return strings.Contains(strings.Join(logged.lines(), "\n"), "vendor says 1999") })
	if err := p.Ping(context.Background()); err != nil {
		t.Errorf("Ping = %v", err)
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	p := start(t, options(t, "good"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.FetchLogSegment(ctx, segment("hang", 0), whole); !errors.Is(err, abi.Deadline) {
		t.Errorf("a call past its deadline: %v, want DEADLINE", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	src, err := p.FetchLogSegment(ctx, segment("stalled", 0), whole)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := src.Stream.Read(make([]byte, 1)); !errors.Is(err, abi.Cancelled) {
		t.Errorf("a read after cancel: %v, want CANCELLED", err)
	}
	src.Close()
	p.callTimeout = 20 * time.Millisecond // of this plugin, which nobody else calls now
	for _, topic := range []string{"hang", "stalled"} {
		src, err := p.FetchLogSegment(context.Background(), segment(topic, 0), whole)
		if err == nil {
			_, err = src.Stream.Read(make([]byte, 1))
			src.Close()
		}
		if !errors.Is(err, abi.Deadline) || !strings.Contains(err.Error(), "20ms") {
			t.Errorf("%s without a deadline: %v, want DEADLINE", topic, err)
		}
	}
}

func TestCloseUnderARead(t *testing.T) {
	p := start(t, options(t, "good"))
	src, err := p.FetchLogSegment(context.Background(), segment("stalled", 0), whole)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { // awaited below
		_, err := src.Stream.Read(make([]byte, 1))
		failed <- err
	}()
	src.Close()
	if err := <-failed; !errors.Is(err, abi.Cancelled) {
		t.Errorf("the read says %v, want CANCELLED", err)
	}
	src.Close()
	// A stream that is closed halfway gives its buffers back and harms nobody.
	src, err = p.FetchLogSegment(context.Background(), segment("endless", 0), whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(src.Stream, make([]byte, 1<<20+7)); err != nil {
		t.Fatal(err)
	}
	src.Close()
	if _, err := src.Stream.Read(make([]byte, 1)); !errors.Is(err, abi.Cancelled) {
		t.Errorf("a read after Close: %v, want CANCELLED", err)
	}
	if b := fetchAll(t, p, "stream", 10); len(b) != 10 {
		t.Errorf("%d bytes", len(b))
	}
}

func TestManyAtOnce(t *testing.T) {
	p := start(t, options(t, "good"))
	hammer.Run(t, 8, 10, func(g, n int) {
		size := 100_000*g + n
		src, err := p.FetchLogSegment(context.Background(), segment("stream", int32(size)), whole)
		if err != nil {
			t.Error(err)
			return
		}
		defer src.Close()
		if n%3 == 0 { // some give up halfway
			io.ReadFull(src.Stream, make([]byte, size/2))
			return
		}
		b, err := io.ReadAll(src.Stream)
		if err != nil || len(b) != size {
			t.Errorf("%d bytes of %d, %v", len(b), size, err)
			return
		}
		for i := range b {
			if b[i] != pattern(i) {
				t.Errorf("byte %d of %d is wrong", i, size)
				return
			}
		}
	})
}

// BenchmarkStream moves 64 MiB from a plugin to nowhere.
func BenchmarkStream(b *testing.B) {
	p := benchPlugin(b)
	const size = 64 << 20
	b.SetBytes(size)
	b.ReportAllocs()
	buf := make([]byte, 1<<20)
	for b.Loop() {
		src, err := p.FetchLogSegment(context.Background(), segment("zeros", size), whole)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, src.Stream, buf)
		if n != size || err != nil {
			b.Fatal(n, err)
		}
		src.Close()
	}
}

// BenchmarkLocation asks where a segment is.
func BenchmarkLocation(b *testing.B) {
	p := benchPlugin(b)
	seg := segment("location", 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.FetchLogSegment(context.Background(), seg, whole); err != nil {
			b.Fatal(err)
		}
	}
}
