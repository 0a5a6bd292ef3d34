package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/grant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is what the store holds: 300 KB, so that inline parts alone need several.
func object() []byte {
	b := make([]byte, 300_000)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(b); err != nil {
		panic(err)
	}
	return b
}

// granted makes a directory with files, and opens it under the name "root".
func granted(t testing.TB, files map[string][]byte) *grant.Roots {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots, err := grant.OpenRoots(map[string]string{"root": dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { roots.Close() })
	return roots
}

func file(path string, off, n int64) abi.Part {
	return abi.Part{File: &abi.FilePart{Root: "root", Path: path, Offset: off, Length: n}}
}

func inline(b []byte) []abi.Part {
	var parts []abi.Part
	for len(b) > 0 {
		n := min(len(b), maxInline)
		parts = append(parts, abi.Part{Inline: b[:n]})
		b = b[n:]
	}
	return parts
}

// tracked counts the streams that are open.
type tracked struct {
	io.Reader
	open   *atomic.Int64
	closed atomic.Bool
}

func stream(r io.Reader, open *atomic.Int64) *tracked {
	open.Add(1)
	return &tracked{Reader: r, open: open}
}

func (s *tracked) Close() error {
	if !s.closed.Swap(true) {
		s.open.Add(-1)
	}
	return nil
}

// form answers a range of b in one of the ways of the contract.
type form struct {
	name   string
	answer func(b []byte, r abi.Range, open *atomic.Int64) *abi.Source
}

func located(scope abi.Scope, size int64, parts ...abi.Part) *abi.Source {
	return &abi.Source{OriginalSize: size, Location: &abi.Location{Scope: scope, Parts: parts}}
}

// forms are all ways to answer; "object" and its pieces lie in the granted directory.
var forms = []form{
	{"object, a file", func(b []byte, _ abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeObject, int64(len(b)), file("object", 0, -1))
	}},
	{"object, a file in a file, size not known", func(b []byte, _ abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeObject, -1, file("packed", 7, int64(len(b))))
	}},
	{"object, files and inline parts", func(b []byte, _ abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeObject, int64(len(b)), file("object", 0, 1000), abi.Part{Inline: b[1000:1001]}, abi.Part{Inline: nil},
			file("packed", 7+1001, 200_000), abi.Part{Inline: b[201_001:260_000]}, file("object", 260_000, -1))
	}},
	{"object, inline", func(b []byte, _ abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeObject, -1, inline(b)...)
	}},
	{"range, a file", func(b []byte, r abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeRange, int64(len(b)), file("object", r.Start, r.Len()))
	}},
	{"range, inline, size not known", func(b []byte, r abi.Range, _ *atomic.Int64) *abi.Source {
		return located(abi.ScopeRange, -1, inline(b[r.Start:r.End+1])...)
	}},
	{"stream", func(b []byte, r abi.Range, open *atomic.Int64) *abi.Source {
		return &abi.Source{OriginalSize: int64(len(b)), Stream: stream(bytes.NewReader(b[r.Start:r.End+1]), open)}
	}},
	{"stream, size not known", func(b []byte, r abi.Range, open *atomic.Int64) *abi.Source {
		return &abi.Source{OriginalSize: -1, Stream: stream(bytes.NewReader(b[r.Start:r.End+1]), open)}
	}},
	{"stream of single bytes", func(b []byte, r abi.Range, open *atomic.Int64) *abi.Source {
		return &abi.Source{OriginalSize: int64(len(b)), Stream: stream(oneByte{bytes.NewReader(b[r.Start : r.End+1])}, open)}
	}},
}

// oneByte reads in steps of a byte for the first ones, then of at most 700.
type oneByte struct{ r *bytes.Reader }

func (o oneByte) Read(p []byte) (int, error) {
	n := 700
	if o.r.Size()-int64(o.r.Len()) < 50 {
		n = 1
	}
	return o.r.Read(p[:min(len(p), n)])
}

// store is a plugin that answers in one form.
type store struct {
	b     []byte
	form  form
	asked int
	open  atomic.Int64
}

func (s *store) fetch(_ context.Context, r abi.Range) (*abi.Source, error) {
	s.asked++
	r, err := r.Clamp(int64(len(s.b)))
	if err != nil {
		return nil, err
	}
	return s.form.answer(s.b, r, &s.open), nil
}

func eachForm(t *testing.T, test func(t *testing.T, s *store, m *Mover)) {
	b := object()
	roots := granted(t, map[string][]byte{"object": b, "packed": append([]byte("header:"), append(bytes.Clone(b), "trailer"...)...)})
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			s := &store{b: b, form: f}
			test(t, s, New(roots, nil))
			if n := s.open.Load(); n != 0 {
				t.Errorf("%d streams stay open", n)
			}
		})
	}
}

// TestReadAt: whatever the form, any range at any time is what a naive reader of the object gets.
func TestReadAt(t *testing.T) {
	eachForm(t, func(t *testing.T, s *store, m *Mover) {
		seed := uint64(len(t.Name()))
		rnd := rand.New(rand.NewPCG(seed, 7))
		for round := range 30 {
			o := m.Object(Key{}, "object", s.fetch)
			off := int64(0)
			for range 12 {
				if rnd.IntN(3) == 0 {
					off = rnd.Int64N(int64(len(s.b)) + 10)
				}
				if rnd.IntN(3) == 0 {
					o.Expect(off + rnd.Int64N(100_000))
				}
				p := make([]byte, rnd.IntN(1<<rnd.IntN(18)+1))
				n, err := o.ReadAt(context.Background(), p, off)
				if !naive(s.b, p[:n], off, len(p), err) {
					t.Fatalf("seed %d, round %d: %d bytes at %d: got %d, %v", seed, round, len(p), off, n, err)
				}
				off += int64(n)
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// naive checks an answer: the bytes of the object, and io.EOF at its end and only there. A source that does not know the
// size can't be asked beyond it.
func naive(b, got []byte, off int64, asked int, err error) bool {
	if asked == 0 {
		return err == nil && len(got) == 0
	}
	if off >= int64(len(b)) {
		return len(got) == 0 && (errors.Is(err, io.EOF) || abi.KindOf(err) == abi.Invalid)
	}
	want := b[off:min(off+int64(asked), int64(len(b)))]
	if !bytes.Equal(got, want) {
		return false
	}
	if len(want) < asked {
		return errors.Is(err, io.EOF) || abi.KindOf(err) == abi.Invalid
	}
	return err == nil
}

func TestReadAll(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 300_000} {
		b := object()[:size]
		roots := granted(t, map[string][]byte{"object": b})
		for _, f := range []form{forms[0], forms[3], forms[5], forms[6], forms[7]} {
			t.Run(fmt.Sprintf("%d bytes, %s", size, f.name), func(t *testing.T) {
				s := &store{b: b, form: f}
				index := func(context.Context, abi.Range) (*abi.Source, error) { // an index comes whole, whatever is asked
					s.asked++
					src := f.answer(b, abi.Range{End: int64(size) - 1}, &s.open)
					if size == 0 && src.Location != nil {
						src.Location.Parts = []abi.Part{{}}
					}
					return src, nil
				}
				o := New(roots, nil).Object(Key{Index: abi.OffsetIndex}, "index", index)
				got, err := o.ReadAll(context.Background(), 1<<20)
				if err != nil || !bytes.Equal(got, b) || s.asked != 1 {
					t.Errorf("%d bytes, %v, asked %d times", len(got), err, s.asked)
				}
				o.Close()
				o = New(roots, nil).Object(Key{Index: abi.OffsetIndex}, "index", index)
				if _, err := o.ReadAll(context.Background(), int64(size)-1); size > 0 && abi.KindOf(err) != abi.Exhausted {
					t.Errorf("one byte above the limit: %v", err)
				}
				o.Close()
				if s.open.Load() != 0 {
					t.Error("a stream stays open")
				}
			})
		}
	}
}

// TestAskedOnce: a location for the whole object is kept until it expires, and Expect saves a stream's second call.
func TestAskedOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	b := object()
	roots := granted(t, map[string][]byte{"object": b})
	m := New(roots, &Options{Now: func() time.Time { return now }})
	s := &store{b: b, form: form{answer: func(b []byte, _ abi.Range, _ *atomic.Int64) *abi.Source {
		src := located(abi.ScopeObject, int64(len(b)), file("object", 0, -1))
		src.Location.ExpiresAt = now.Add(time.Minute)
		return src
	}}}
	read := func(key Key) Evidence {
		t.Helper()
		o := m.Object(key, "object", s.fetch)
		defer o.Close()
		if _, err := o.ReadAt(context.Background(), make([]byte, 10), 5); err != nil {
			t.Fatal(err)
		}
		return o.Evidence()
	}
	if e := read(Key{}); e.Cached || e.Asked != 1 || e.Form != "location" || e.Where != "file root:object" || e.Bytes != 10 {
		t.Errorf("the first read: %+v", e)
	}
	if e := read(Key{}); !e.Cached || e.Asked != 0 {
		t.Errorf("the second read: %+v", e)
	}
	if e := read(Key{Index: abi.TimeIndex}); e.Cached {
		t.Errorf("another object: %+v", e)
	}
	now = now.Add(time.Minute)
	if e := read(Key{}); e.Cached {
		t.Errorf("after it expired: %+v", e)
	}
	m.Forget(Key{})
	if e := read(Key{}); e.Cached {
		t.Errorf("after Forget: %+v", e)
	}

	s = &store{b: b, form: forms[6]}
	o := m.Object(Key{Segment: abi.UUID{1}}, "object", s.fetch)
	o.Expect(1000)
	for off := int64(0); off < 1000; off += 100 {
		if _, err := o.ReadAt(context.Background(), make([]byte, 50), off); err != nil { // 50 bytes are skipped each time
			t.Fatal(err)
		}
	}
	if s.asked != 1 || s.open.Load() != 1 {
		t.Errorf("asked %d times, %d streams open, want one stream read through", s.asked, s.open.Load())
	}
	if _, err := o.ReadAt(context.Background(), make([]byte, 50), 0); err != nil || s.asked != 2 {
		t.Errorf("backwards: %v, asked %d times", err, s.asked)
	}
	o.Close()
	if s.open.Load() != 0 {
		t.Error("a stream stays open")
	}
}

// TestStaleLocation: a kept location that the store disagrees with is asked for once more; a fresh one is not.
func TestStaleLocation(t *testing.T) {
	b := object()
	roots := granted(t, map[string][]byte{"new": b})
	m := New(roots, nil)
	paths, asked := []string{"old", "new"}, 0
	fetch := func(context.Context, abi.Range) (*abi.Source, error) {
		asked++
		return located(abi.ScopeObject, int64(len(b)), file(paths[min(asked, len(paths))-1], 0, -1)), nil
	}
	p := make([]byte, 100)
	o := m.Object(Key{}, "object", fetch)
	if _, err := o.ReadAt(context.Background(), p, 0); abi.KindOf(err) != abi.NotFound || asked != 1 {
		t.Fatalf("a fresh location that is wrong: %v, asked %d times", err, asked)
	}
	o = m.Object(Key{}, "object", fetch) // the wrong one was kept
	defer o.Close()
	if n, err := o.ReadAt(context.Background(), p, 7); err != nil || !bytes.Equal(p[:n], b[7:107]) || asked != 2 {
		t.Errorf("a kept location that is wrong: %d, %v, asked %d times", n, err, asked)
	}
	if e := o.Evidence(); e.Cached || e.Asked != 1 {
		t.Errorf("evidence: %+v", e)
	}
}

// TestBadAnswers: what a plugin may get wrong has a kind, and leaves nothing open.
func TestBadAnswers(t *testing.T) {
	b := object()
	roots := granted(t, map[string][]byte{"object": b})
	var open atomic.Int64
	streamOf := func(n int) io.ReadCloser { return stream(bytes.NewReader(make([]byte, n)), &open) }
	failing := func(err error) io.ReadCloser {
		return stream(io.MultiReader(bytes.NewReader(b[:10]), errReader{err}), &open)
	}
	for _, tt := range []struct {
		name string
		src  *abi.Source
		kind abi.Kind
	}{
		{"nothing", nil, abi.Internal},
		{"neither", &abi.Source{}, abi.Internal},
		{"both", &abi.Source{Location: &abi.Location{}, Stream: streamOf(100)}, abi.Internal},
		{"no parts", located(abi.ScopeObject, 100), abi.Internal},
		{"a root that was not granted", located(abi.ScopeObject, 100, abi.Part{File: &abi.FilePart{Root: "other", Path: "object"}}), abi.Denied},
		{"a path that leads out", located(abi.ScopeObject, 100, file("../object", 0, -1)), abi.Denied},
		{"an absolute path", located(abi.ScopeObject, 100, file("/etc/passwd", 0, -1)), abi.Denied},
		{"no such file", located(abi.ScopeObject, 100, file("none", 0, -1)), abi.NotFound},
		{"a good part before a bad one", located(abi.ScopeObject, 100, file("object", 0, 50), file("none", 0, -1)), abi.NotFound},
		{"a negative offset", located(abi.ScopeObject, 100, file("object", -1, 5)), abi.Invalid},
		{"a negative length", located(abi.ScopeObject, 100, file("object", 0, -2)), abi.Invalid},
		{"an offset behind the file", located(abi.ScopeObject, 100, file("object", 1<<40, -1)), abi.Corrupt},
		{"a length beyond the file", located(abi.ScopeObject, 100, file("object", 0, 1<<40)), abi.Corrupt},
		{"an inline part that is too large", located(abi.ScopeObject, 100, abi.Part{Inline: make([]byte, maxInline+1)}), abi.Exhausted},
		{"HTTP", located(abi.ScopeObject, 100, abi.Part{HTTP: &abi.HTTPPart{URL: "http://x"}}), abi.Unsupported},
		{"chunked", &abi.Source{OriginalSize: 100, Location: &abi.Location{Parts: inline(b[:100]), Encoding: abi.Encoding{Chunked: &abi.Chunked{}}}}, abi.Unsupported},
		{"parts that end early", located(abi.ScopeObject, 1000, file("object", 0, 50)), abi.Corrupt},
		{"a range that ends early", located(abi.ScopeRange, 1000, file("object", 0, 50)), abi.Corrupt},
		{"a stream that ends early", &abi.Source{OriginalSize: 1000, Stream: streamOf(50)}, abi.Corrupt},
		{"an empty stream", &abi.Source{OriginalSize: 1000, Stream: streamOf(0)}, abi.Corrupt},
		{"a stream with extra bytes", &abi.Source{OriginalSize: 1000, Stream: streamOf(101)}, abi.Corrupt},
		{"extra bytes behind the object", &abi.Source{OriginalSize: 70, Stream: streamOf(71)}, abi.Corrupt},
		{"a stream that fails", &abi.Source{OriginalSize: 1000, Stream: failing(abi.E("", "", abi.Throttled, nil))}, abi.Throttled},
		{"a stream whose end does not check out", &abi.Source{OriginalSize: 10, Stream: failing(abi.E("", "", abi.Corrupt, nil))}, abi.Corrupt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := New(roots, nil).Object(Key{}, "topic-0/segment", func(context.Context, abi.Range) (*abi.Source, error) { return tt.src, nil })
			_, err := o.ReadAt(context.Background(), make([]byte, 100), 0)
			if abi.KindOf(err) != tt.kind || !bytes.Contains([]byte(err.Error()), []byte("topic-0/segment bytes 0-99")) {
				t.Errorf("%v, want kind %v and the object's name", err, tt.kind)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if open.Load() != 0 {
		t.Errorf("%d streams stay open", open.Load())
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

// TestFetchErrors: the plugin's error comes through with its kind, and a source beside it is closed.
func TestFetchErrors(t *testing.T) {
	var open atomic.Int64
	cause := &abi.Error{Op: "fetch_log_segment", Kind: abi.Throttled, Status: 503, RetryAfter: time.Second}
	noPause := &Options{Sleep: func(context.Context, time.Duration) error { return nil }}
	o := New(nil, noPause).Object(Key{}, "object", func(context.Context, abi.Range) (*abi.Source, error) {
		return &abi.Source{Stream: stream(bytes.NewReader(nil), &open)}, cause
	})
	_, err := o.ReadAt(context.Background(), make([]byte, 1), 0)
	var got *abi.Error
	if abi.KindOf(err) != abi.Throttled || !errors.As(errors.Unwrap(err), &got) || got != cause || open.Load() != 0 {
		t.Errorf("%v, %d streams open", err, open.Load())
	}
}

// TestBeyondTheEnd: a source that says the object is smaller than the offset is the end of it, not a panic.
func TestBeyondTheEnd(t *testing.T) {
	for _, src := range []func() *abi.Source{
		func() *abi.Source { return &abi.Source{OriginalSize: 50, Stream: io.NopCloser(bytes.NewReader(nil))} },
		func() *abi.Source { return located(abi.ScopeObject, 50, abi.Part{Inline: make([]byte, 50)}) },
	} {
		o := New(nil, nil).Object(Key{}, "object", func(context.Context, abi.Range) (*abi.Source, error) { return src(), nil })
		if n, err := o.ReadAt(context.Background(), make([]byte, 10), 100); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v", n, err)
		}
		o.Close()
	}
}

// stalled gives some bytes, then blocks until it is closed.
type stalled struct {
	first  *bytes.Reader
	closed chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if s.first.Len() > 0 {
		return s.first.Read(p)
	}
	<-s.closed
	return 0, errors.New("read of a closed stream")
}

func (s *stalled) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}

// TestCancelEndsAStall: a context that ends also ends a Read that waits for a stalled plugin, and a skip.
func TestCancelEndsAStall(t *testing.T) {
	for name, off := range map[string]int64{"a read": 0, "a skip": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stalled{first: bytes.NewReader(make([]byte, 20)), closed: make(chan struct{})}
				o := New(nil, nil).Object(Key{}, "object", func(context.Context, abi.Range) (*abi.Source, error) {
					return &abi.Source{OriginalSize: 1000, Stream: s}, nil
				})
				defer o.Close()
				o.Expect(1000)
				if n, err := o.ReadAt(context.Background(), make([]byte, 10), 0); n != 10 || err != nil {
					t.Fatal(n, err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				began := time.Now()
				n, err := o.ReadAt(ctx, make([]byte, 50), 10+off)
				if abi.KindOf(err) != abi.Deadline || time.Since(began) != time.Second {
					t.Errorf("%d bytes, %v after %v", n, err, time.Since(began))
				}
				if off == 0 && n != 10 {
					t.Errorf("%d bytes came before the deadline, want 10", n)
				}
				if _, err := o.ReadAt(ctx, make([]byte, 5), 0); abi.KindOf(err) != abi.Deadline {
					t.Errorf("a read after the deadline: %v", err)
				}
			})
		})
	}
}

// TestFileCutWhileRead: a file that shrinks under a read is CORRUPT, never its end.
func TestFileCutWhileRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "object")
	if err := os.WriteFile(path, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	roots, err := grant.OpenRoots(map[string]string{"root": dir})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	o := New(roots, nil).Object(Key{}, "object", func(context.Context, abi.Range) (*abi.Source, error) {
		return located(abi.ScopeObject, 1000, file("object", 0, 1000)), nil
	})
	defer o.Close()
	if _, err := o.ReadAt(context.Background(), make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 500); err != nil {
		t.Fatal(err)
	}
	if n, err := o.ReadAt(context.Background(), make([]byte, 100), 450); n != 50 || abi.KindOf(err) != abi.Corrupt {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestSourcesAreBounded: locations are forgotten rather than kept for ever.
func TestSourcesAreBounded(t *testing.T) {
	m := New(nil, nil)
	for i := range maxSources + 10 {
		m.keep(Key{Segment: abi.UUID{byte(i), byte(i >> 8)}}, located(abi.ScopeObject, 0))
	}
	if m.sources.Len() != maxSources || m.known(Key{}) != nil {
		t.Errorf("%d locations are kept", m.sources.Len())
	}
	m.keep(Key{Segment: abi.UUID{9, 9, 9}}, located(abi.ScopeRange, 0))
	if m.known(Key{Segment: abi.UUID{9, 9, 9}}) != nil {
		t.Error("a location of one range was kept")
	}
}
