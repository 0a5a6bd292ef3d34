package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// script is a plugin whose calls are written down: "FETCH 0-99", "READ 10", "CLOSE". fetch answers a call by its number.
type script struct {
	b     []byte
	fetch func(call int, r abi.Range) (*abi.Source, error) // nil: a stream of the range

	mu    sync.Mutex
	lines []string
	calls int
	open  int
}

func (s *script) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// transcript gives what happened since it was last asked.
func (s *script) transcript() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.lines = nil }()
	return strings.Join(s.lines, ", ")
}

func (s *script) Fetch(_ context.Context, r abi.Range) (*abi.Source, error) {
	s.say("FETCH %s", r)
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	if s.fetch != nil {
		return s.fetch(call, r)
	}
	return s.stream(r, nil), nil
}

// stream is a stream of a range, which fails with err at its end, or ends.
func (s *script) stream(r abi.Range, err error) *abi.Source {
	end := min(r.End+1, int64(len(s.b)))
	src := io.Reader(bytes.NewReader(s.b[r.Start:end]))
	if err != nil {
		src = io.MultiReader(src, errReader{err})
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	return &abi.Source{OriginalSize: int64(len(s.b)), ETag: "one", Stream: &said{Reader: src, s: s}}
}

type said struct {
	io.Reader
	s    *script
	once sync.Once
}

func (r *said) Close() error {
	r.once.Do(func() {
		r.s.say("CLOSE")
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.s.open--
	})
	return nil
}

func wantScript(t testing.TB, s *script, want string) {
	t.Helper()
	if got := s.transcript(); got != want {
		t.Errorf("the plugin saw\n\t%s\nwant\n\t%s", got, want)
	}
	if s.open != 0 {
		t.Errorf("%d streams stay open", s.open)
	}
}

// readers are N reads at once of 30 bytes in two steps, as a fetch makes them; check sees each.
func readers(t *testing.T, m *Mover, s *script, n int, off int64) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			o := m.Object(Key{}, "object", s.Fetch)
			defer o.Close()
			o.Expect(off + 30)
			p := make([]byte, 30)
			for _, part := range [][2]int64{{0, 10}, {10, 30}} {
				if _, err := o.ReadAt(context.Background(), p[part[0]:part[1]], off+part[0]); err != nil {
					t.Error(err)
				}
			}
			if !bytes.Equal(p, s.b[off:off+30]) {
				t.Error("wrong bytes")
			}
		})
	}
	wg.Wait()
}

// TestDefect39 (and 11.39's open-ended GET a fetch): N readers of one range cost one request, whose end is known, in every
// form in which a plugin answers; also where the first is alone for a while.
func TestDefect39(t *testing.T) {
	b := object()
	for _, f := range []struct {
		name   string
		answer func(s *script, r abi.Range) *abi.Source
		want   string
	}{
		{"a stream", func(s *script, r abi.Range) *abi.Source { return s.stream(r, nil) }, "FETCH 100-129, CLOSE"},
		{"a location of the range", func(s *script, r abi.Range) *abi.Source {
			return located(abi.ScopeRange, int64(len(b)), inline(b[r.Start:r.End+1])...)
		}, "FETCH 100-129"},
		{"a location of the object", func(s *script, r abi.Range) *abi.Source {
			return located(abi.ScopeObject, int64(len(b)), inline(b)...)
		}, "FETCH 100-129"},
	} {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := budget.New(1 << 30)
				m, s := New(nil, &Options{Memory: pool}), &script{b: b}
				s.fetch = func(_ int, r abi.Range) (*abi.Source, error) {
					<-time.After(30 * time.Millisecond) // to first byte, by the bubble's clock
					return f.answer(s, r), nil
				}
				readers(t, m, s, 20, 100)
				wantScript(t, s, f.want)
				if pool.InUse() != 0 || len(m.shared) != 0 {
					t.Errorf("%d bytes and %d stretches stay", pool.InUse(), len(m.shared))
				}
			})
		})
	}
}

// TestShareNotAligned: readers at different places of one range share what overlaps.
func TestShareNotAligned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := object()
		m, s := New(nil, nil), &script{b: b}
		s.fetch = func(_ int, r abi.Range) (*abi.Source, error) {
			<-time.After(time.Millisecond)
			return s.stream(r, nil), nil
		}
		var wg sync.WaitGroup
		read := func(off, n int64) {
			wg.Go(func() {
				o := m.Object(Key{}, "object", s.Fetch)
				defer o.Close()
				p := make([]byte, n)
				if _, err := o.ReadAt(context.Background(), p, off); err != nil || !bytes.Equal(p, b[off:off+n]) {
					t.Errorf("%d bytes at %d: %v", n, off, err)
				}
			})
			synctest.Wait()
		}
		read(1000, 500)
		read(1200, 100)
		read(1400, 300) // 200 of its bytes are not in it
		wg.Wait()
		wantScript(t, s, "FETCH 1000-1499, CLOSE, FETCH 1500-1699, CLOSE")
	})
}

// TestShareOwnDeadline: who waits for another's bytes keeps its own deadline; who brings them and gives up passes the turn,
// and what it brought is not brought again.
func TestShareOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := object()
		m, s := New(nil, nil), &script{b: b}
		s.fetch = func(call int, r abi.Range) (*abi.Source, error) {
			if call > 1 {
				return s.stream(r, nil), nil
			}
			first := &stalled{first: bytes.NewReader(b[r.Start : r.Start+40]), closed: make(chan struct{})}
			return &abi.Source{OriginalSize: int64(len(b)), Stream: first}, nil
		}
		read := func(timeout time.Duration) (int, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			o := m.Object(Key{}, "object", s.Fetch)
			defer o.Close()
			p := make([]byte, 100)
			n, err := o.ReadAt(ctx, p, 0)
			if !bytes.Equal(p[:n], b[:n]) {
				t.Error("wrong bytes")
			}
			return n, err
		}
		var wg sync.WaitGroup
		for _, tt := range []struct {
			timeout time.Duration
			n       int
			kind    abi.Kind
		}{{3 * time.Second, 40, abi.Deadline}, {time.Second, 0, abi.Deadline}, {time.Hour, 100, 0}, {time.Hour, 100, 0}} {
			wg.Go(func() {
				if n, err := read(tt.timeout); n != tt.n || abi.KindOf(err) != tt.kind {
					t.Errorf("within %v: %d bytes, %v", tt.timeout, n, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		wantScript(t, s, "FETCH 0-99, FETCH 40-99, CLOSE")
	})
}

// TestShareFailure: a store that refuses is asked once for all that wait, and anew for who comes later.
func TestShareFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := New(nil, nil), &script{b: object()}
		s.fetch = func(call int, r abi.Range) (*abi.Source, error) {
			<-time.After(time.Millisecond)
			if call == 1 {
				return nil, abi.E("fetch", "", abi.NotFound, nil)
			}
			return s.stream(r, nil), nil
		}
		o := m.Object(Key{}, "object", s.Fetch)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				o := o
				if i > 0 {
					o = m.Object(Key{}, "object", s.Fetch)
					defer o.Close()
				}
				if _, err := o.ReadAt(context.Background(), make([]byte, 10), 0); abi.KindOf(err) != abi.NotFound {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		wantScript(t, s, "FETCH 0-9")
		if _, err := o.ReadAt(context.Background(), make([]byte, 10), 0); err != nil {
			t.Error(err)
		}
		o.Close()
		wantScript(t, s, "FETCH 0-9, CLOSE")
	})
}

// TestShareWithoutMemory: where the budget is full, reads go on and share less.
func TestShareWithoutMemory(t *testing.T) {
	pool := budget.New(16 << 10)
	full, err := pool.Lease().Get(context.Background(), 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Release()
	m, s := New(nil, &Options{Memory: pool}), &script{b: object()}
	readers(t, m, s, 20, 100)
	if s.open != 0 || pool.InUse() != 16<<10 {
		t.Errorf("%d streams open, %d bytes in use", s.open, pool.InUse())
	}
}

// TestShareConcurrent: many reads of few places at once, over stores that fail now and then: every byte is right, and
// nothing stays.
func TestShareConcurrent(t *testing.T) {
	b := object()
	pool := budget.New(1 << 20)
	m, s := New(nil, &Options{Memory: pool, Sleep: func(context.Context, time.Duration) error { return nil }}), &script{b: b}
	s.fetch = func(call int, r abi.Range) (*abi.Source, error) {
		switch {
		case call%7 == 0:
			return nil, abi.E("fetch", "", abi.Unavailable, nil)
		case call%5 == 0 && r.Len() > 10 && r.Len() < 1<<20:
			return s.stream(abi.Range{Start: r.Start, End: r.Start + r.Len()/2}, abi.E("", "", abi.Unavailable, nil)), nil
		case call%3 == 0:
			return located(abi.ScopeRange, int64(len(b)), inline(b[r.Start:min(r.End+1, int64(len(b)))])...), nil
		}
		return s.stream(r, nil), nil
	}
	hammer.Run(t, 8, 100, func(g, n int) {
		o := m.Object(Key{}, "object", s.Fetch)
		defer o.Close()
		off := int64(n%5) * 1000
		o.Expect(off + 5000)
		p := make([]byte, 700)
		for range 8 {
			k, err := o.ReadAt(context.Background(), p, off)
			if !bytes.Equal(p[:k], b[off:off+int64(k)]) || err != nil && abi.KindOf(err) != abi.Unavailable {
				t.Errorf("%d bytes at %d: %v", k, off, err)
			}
			off += int64(k) + int64(g*10)
		}
	})
	if s.open != 0 || pool.InUse() != 0 || len(m.shared) != 0 {
		t.Errorf("%d streams, %d bytes, %d stretches stay", s.open, pool.InUse(), len(m.shared))
	}
}

// TestDefectJ: bytes before the one that is wanted are thrown away no further than maxSkip, from where on a new request
// is cheaper, and are told.
func TestDefectJ(t *testing.T) {
	s := &script{b: make([]byte, 4<<20)}
	o := New(nil, nil).Object(Key{}, "object", s.Fetch)
	o.Expect(4 << 20)
	at := int64(0)
	for _, gap := range []int64{0, 100, maxSkip, maxSkip + 1} {
		at += gap
		n, err := o.ReadAt(context.Background(), make([]byte, 10), at)
		if err != nil {
			t.Fatal(err)
		}
		at += int64(n)
	}
	o.Close()
	if e := o.Evidence(); e.Skipped != 100+maxSkip || e.Asked != 2 || e.Bytes != 40 {
		t.Errorf("evidence: %+v", e)
	}
	wantScript(t, s, fmt.Sprintf("FETCH 0-%d, CLOSE, FETCH %d-%d, CLOSE", 4<<20-1, at-10, 4<<20-1))
}

// TestRetry is which failures are followed by another try, after which pause, and from which byte on.
func TestRetry(t *testing.T) {
	unavailable := abi.E("fetch", "", abi.Unavailable, nil)
	throttled := &abi.Error{Kind: abi.Throttled, RetryAfter: 700 * time.Millisecond}
	corrupt := abi.E("", "", abi.Corrupt, nil)
	for _, tt := range []struct {
		name   string
		fetch  func(s *script, call int, r abi.Range) (*abi.Source, error)
		kind   abi.Kind
		n      int
		pauses []time.Duration // at most; half of it at least
		want   string
	}{
		{"it comes back", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call < 3 {
				return nil, unavailable
			}
			return s.stream(r, nil), nil
		}, 0, 100, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond}, "FETCH 0-99, FETCH 0-99, FETCH 0-99, CLOSE"},
		{"it does not", func(*script, int, abi.Range) (*abi.Source, error) { return nil, unavailable }, abi.Unavailable, 0,
			[]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond}, "FETCH 0-99, FETCH 0-99, FETCH 0-99, FETCH 0-99"},
		{"as long as it says", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call == 1 {
				return nil, throttled
			}
			return s.stream(r, nil), nil
		}, 0, 100, []time.Duration{700 * time.Millisecond}, "FETCH 0-99, FETCH 0-99, CLOSE"},
		{"longer than the reader waits", func(*script, int, abi.Range) (*abi.Source, error) {
			return nil, &abi.Error{Kind: abi.Throttled, RetryAfter: time.Minute}
		}, abi.Throttled, 0, nil, "FETCH 0-99"},
		{"refused", func(*script, int, abi.Range) (*abi.Source, error) { return nil, abi.E("", "", abi.Denied, nil) }, abi.Denied, 0, nil, "FETCH 0-99"},
		{"a stream that breaks", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call == 1 {
				return s.stream(abi.Range{End: 29}, unavailable), nil
			}
			return s.stream(r, nil), nil
		}, 0, 100, []time.Duration{50 * time.Millisecond}, "FETCH 0-99, CLOSE, FETCH 30-99, CLOSE"},
		{"one of another object", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call == 1 {
				return s.stream(abi.Range{End: 29}, unavailable), nil
			}
			src := s.stream(r, nil)
			src.ETag = "two"
			return src, nil
		}, abi.Precondition, 30, []time.Duration{50 * time.Millisecond}, "FETCH 0-99, CLOSE, FETCH 30-99, CLOSE"},
		{"damaged once", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call == 1 {
				return s.stream(abi.Range{End: 49}, corrupt), nil
			}
			return s.stream(r, nil), nil
		}, 0, 100, nil, "FETCH 0-99, CLOSE, FETCH 0-99, CLOSE"},
		{"damaged again", func(s *script, _ int, r abi.Range) (*abi.Source, error) {
			return s.stream(abi.Range{End: 49}, corrupt), nil
		}, abi.Corrupt, 50, nil, "FETCH 0-99, CLOSE, FETCH 0-99, CLOSE"},
		{"a short one", func(s *script, call int, r abi.Range) (*abi.Source, error) {
			if call == 1 {
				return s.stream(abi.Range{End: 49}, nil), nil
			}
			return s.stream(r, nil), nil
		}, 0, 100, nil, "FETCH 0-99, CLOSE, FETCH 0-99, CLOSE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pauses []time.Duration
			s := &script{b: object()}
			s.fetch = func(call int, r abi.Range) (*abi.Source, error) { return tt.fetch(s, call, r) }
			o := New(nil, &Options{Sleep: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }}).Object(Key{}, "object", s.Fetch)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			p := make([]byte, 100)
			n, err := o.ReadAt(ctx, p, 0)
			if n != tt.n || abi.KindOf(err) != tt.kind || !bytes.Equal(p[:n], s.b[:n]) {
				t.Errorf("%d bytes, %v", n, err)
			}
			o.Close()
			wantScript(t, s, tt.want)
			if len(pauses) != len(tt.pauses) {
				t.Fatalf("pauses %v, want %v", pauses, tt.pauses)
			}
			for i, want := range tt.pauses {
				if pauses[i] > want || pauses[i] < want/2 {
					t.Errorf("pause %d: %v, want %v", i, pauses[i], want)
				}
			}
		})
	}
}

// TestRetryEndsWithItsContext: a pause is no longer than its reader.
func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fetch: func(int, abi.Range) (*abi.Source, error) { return nil, abi.E("", "", abi.Unavailable, nil) }}
		o := New(nil, nil).Object(Key{}, "object", s.Fetch)
		defer o.Close()
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Millisecond, func() { cancel(errors.New("the client hung up")) })
		began := time.Now()
		_, err := o.ReadAt(ctx, make([]byte, 10), 0)
		if abi.KindOf(err) != abi.Unavailable || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestRetryALocation: a file that can't be read now is opened again.
func TestRetryALocation(t *testing.T) {
	b := object()
	roots := granted(t, map[string][]byte{"object": b})
	asked := 0
	o := New(roots, nil).Object(Key{}, "object", func(context.Context, abi.Range) (*abi.Source, error) {
		if asked++; asked == 1 {
			return located(abi.ScopeObject, int64(len(b)), file("object", 0, 1000)), nil // shorter than it says
		}
		return located(abi.ScopeObject, int64(len(b)), file("object", 0, -1)), nil
	})
	defer o.Close()
	p := make([]byte, 2000)
	if _, err := o.ReadAt(context.Background(), p, 0); err != nil || !bytes.Equal(p, b[:2000]) || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}
