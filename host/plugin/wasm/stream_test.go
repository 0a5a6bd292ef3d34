package wasm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// want is what the guest's streams hold at r.
func want(r abi.Range) []byte {
	b := make([]byte, r.Len())
	for i := range b {
		b[i] = byte((r.Start + int64(i)) % 251)
	}
	return b
}

// open asks for a stream.
func open(t testing.TB, ctx context.Context, p *Plugin, topic string, r abi.Range) *abi.Source {
	t.Helper()
	src, err := p.FetchLogSegment(ctx, segment(topic), r)
	if err != nil {
		t.Fatal(err)
	}
	if src.Stream == nil || src.Location != nil || src.OriginalSize != 3<<20 || src.ETag != "s" {
		t.Fatalf("%+v is no stream of the guest", src)
	}
	return src
}

func TestStreamCarriesTheRange(t *testing.T) {
	p := ready(t, Options{}, nil)
	for _, r := range []abi.Range{{Start: 0, End: 0}, {Start: 0, End: 3<<20 - 1}, {Start: 1000, End: 400_000}, {Start: 3<<20 - 1, End: 3<<20 - 1}} {
		src := open(t, t.Context(), p, "stream", r)
		got, err := io.ReadAll(src.Stream)
		if err != nil || !bytes.Equal(got, want(r)) {
			t.Errorf("%v: %d bytes, %v", r, len(got), err)
		}
		if n, err := src.Stream.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d, %v", n, err)
		}
		if err := errors.Join(src.Close(), src.Close()); err != nil {
			t.Error(err)
		}
	}
	if s := p.Stats(); s.Replaced != 0 || s.Created != 1 {
		t.Errorf("%+v", s)
	}
}

// A reader may be as small as it likes: every byte comes once, in order.
func TestStreamTakesAnyReader(t *testing.T) {
	p := ready(t, Options{}, nil)
	r := abi.Range{Start: 250_000, End: 270_000}
	src := open(t, t.Context(), p, "stream", r)
	defer src.Close()
	if err := iotest.TestReader(src.Stream, want(r)); err != nil {
		t.Error(err)
	}
}

func TestStreamThatFailsSaysWhy(t *testing.T) {
	p := ready(t, Options{Name: "mine"}, nil)
	for _, tt := range []struct {
		topic    string
		kind     abi.Kind
		says     string
		replaced bool
	}{
		{"stream-fail", abi.Throttled, "slow down", false},
		{"stream-cut", abi.Corrupt, "unexpected EOF", false},
		{"stream-panic", abi.Internal, "in the middle", true},
		{"stream-exit", abi.Internal, "ended itself with status 0", true},
	} {
		before := p.Stats().Replaced
		src := open(t, t.Context(), p, tt.topic, abi.Range{Start: 0, End: abi.ToEnd})
		got, err := io.ReadAll(src.Stream)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.topic, err)
		}
		if !bytes.Equal(got, want(abi.Range{Start: 0, End: 3<<20 - 1})[:len(got)]) {
			t.Errorf("%s: other bytes", tt.topic)
		}
		src.Close()
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
		if after := p.Stats().Replaced; (after > before) != tt.replaced {
			t.Errorf("%s: %d instances replaced, then %d", tt.topic, before, after)
		}
	}
	if e := abi.AsError("", "", readErr(t, p, "stream-fail")); e.Status != 503 || e.Subject != "k" || e.Op != "get" {
		t.Errorf("%#v did not come back equal", e)
	}
}

// The bytes were verified: a guest that then does not return costs its instance, and the reader nothing but a moment.
func TestGuestThatLingersAfterItsStreamHarmsNoReader(t *testing.T) {
	p := ready(t, Options{}, nil)
	p.grace = 50 * time.Millisecond
	src := open(t, context.Background(), p, "stream-deaf", abi.Range{Start: 0, End: 9})
	defer src.Close()
	if got, err := io.ReadAll(src.Stream); err != nil || len(got) != 10 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	if s := p.Stats(); s.Replaced != 1 {
		t.Errorf("%+v", s)
	}
}

func readErr(t *testing.T, p *Plugin, topic string) error {
	src := open(t, t.Context(), p, topic, abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	_, err := io.Copy(io.Discard, src.Stream)
	return err
}

func TestRefusedRangeIsNoStream(t *testing.T) {
	p := ready(t, Options{}, nil)
	for _, r := range []abi.Range{{Start: -1, End: 5}, {Start: 5, End: 4}, {Start: 3 << 20, End: abi.ToEnd}} {
		if _, err := p.FetchLogSegment(t.Context(), segment("stream"), r); !errors.Is(err, abi.Invalid) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// A reader that goes away early costs nothing: the next out_write is CANCELLED, and the guest returns.
func TestClosingAStreamEarlyKeepsTheInstance(t *testing.T) {
	p := ready(t, Options{}, nil)
	for range 3 {
		src := open(t, t.Context(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
		if _, err := io.ReadFull(src.Stream, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		src.Close()
		if n, err := src.Stream.Read(make([]byte, 10)); n != 0 || !errors.Is(err, abi.Cancelled) {
			t.Errorf("a read after Close: %d, %v", n, err)
		}
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	}
	if s := p.Stats(); s.Replaced != 0 || s.Created != 1 {
		t.Errorf("%+v", s)
	}
}

// A guest that does not return after its reader has gone is stopped, and its instance closed.
func TestGuestThatDoesNotLetGoIsStopped(t *testing.T) {
	p := ready(t, Options{}, nil)
	p.grace = 50 * time.Millisecond
	for _, topic := range []string{"stream-deaf", "stream-loop", "stream-sleep"} {
		before := p.Stats().Replaced
		src := open(t, t.Context(), p, topic, abi.Range{Start: 0, End: abi.ToEnd})
		if _, err := io.ReadFull(src.Stream, make([]byte, 262_144)); err != nil {
			t.Fatal(topic, err)
		}
		src.Close()
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
		if after := p.Stats().Replaced; after != before+1 {
			t.Errorf("%s: %d instances replaced, then %d", topic, before, after)
		}
	}
}

func TestStreamEndsWithItsContext(t *testing.T) {
	p := ready(t, Options{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	src := open(t, ctx, p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	if _, err := io.ReadFull(src.Stream, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, src.Stream); !errors.Is(err, abi.Cancelled) {
		t.Errorf("%v", err)
	}
	inline(t, p, "calls") // in an instance that is warm the deadline meets the stream
	ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	src = open(t, ctx, p, "stream-loop", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	if _, err := io.Copy(io.Discard, src.Stream); !errors.Is(err, abi.Deadline) {
		t.Errorf("%v", err)
	}
}

// CallTimeout counts the guest's time, not the reader's.
func TestSlowReaderIsNotTimedOut(t *testing.T) {
	const timeout = 60 * time.Millisecond
	p := ready(t, Options{}, nil)
	p.callTimeout = timeout
	src := open(t, context.Background(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	var slow atomic.Int32
	r := readerFunc(func(b []byte) (int, error) {
		if slow.Add(1) <= 2 {
			start := time.Now()
			hammer.Eventually(t, long, func() bool { return time.Since(start) > 2*timeout })
		}
		return src.Stream.Read(b)
	})
	if n, err := io.Copy(io.Discard, r); err != nil || n != 3<<20 {
		t.Errorf("%d, %v", n, err)
	}
	src = open(t, context.Background(), p, "stream-loop", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	if _, err := io.Copy(io.Discard, src.Stream); !errors.Is(err, abi.Deadline) {
		t.Errorf("a guest that stands still: %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Streams that nobody reads take instances of their own, so that locations go on.
func TestStreamsDoNotHoldUpLocations(t *testing.T) {
	p := ready(t, Options{Instances: 1}, nil)
	var open3 []*abi.Source
	for range streamsPerInstance {
		open3 = append(open3, open(t, t.Context(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd}))
	}
	if got := inline(t, p, "calls"); got == "" {
		t.Error("no answer")
	}
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == streamsPerInstance })
	// One more stream takes the last place: that is the bound.
	last := open(t, t.Context(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, p, "calls"); !errors.Is(err, abi.Deadline) || !strings.Contains(err.Error(), "waited") {
		t.Errorf("with all places taken: %v", err)
	}
	for _, src := range append(open3, last) {
		if n, err := io.Copy(io.Discard, src.Stream); err != nil || n != 3<<20 {
			t.Errorf("%d, %v", n, err)
		}
		src.Close()
	}
	inline(t, p, "calls")
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	if s := p.Stats(); s.Created != 1+streamsPerInstance || s.Instances != int(s.Created) {
		t.Errorf("%+v", s)
	}
}
