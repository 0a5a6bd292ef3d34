package budget

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get is a buffer of a lease of its own.
func get(t testing.TB, p *Pool, n int) *Buffer { t.Helper(); return more(t, p.Lease(), n) }

func more(t testing.TB, l *Lease, n int) *Buffer {
	t.Helper()
	b, err := l.Get(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func grow(t testing.TB, b *Buffer, n int) *Buffer {
	t.Helper()
	l := b.lease
	b, err := b.Grow(n, func(n int) (*Buffer, error) { return l.Get(context.Background(), n) })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGet(t *testing.T) {
	var p Pool
	for _, tt := range []struct{ n, cap int }{
		{0, 16 << 10}, {1, 16 << 10}, {16 << 10, 16 << 10}, {16<<10 + 1, 20 << 10}, {20 << 10, 20 << 10}, {20<<10 + 1, 24 << 10},
		{28<<10 + 1, 32 << 10}, {1 << 20, 1 << 20}, {1<<20 + 8<<10, 1280 << 10}, {1<<20 + 257<<10, 1536 << 10},
		{64<<20 - 1, 64 << 20}, {64 << 20, 64 << 20}, {64<<20 + 1, 64<<20 + 1},
	} {
		b := get(t, &p, tt.n)
		if len(b.B) != tt.n || cap(b.B) != tt.cap || p.InUse() != int64(tt.cap) {
			t.Errorf("%d bytes: len %d, cap %d, in use %d, want cap %d", tt.n, len(b.B), cap(b.B), p.InUse(), tt.cap)
		}
		b.Release()
		if p.InUse() != 0 {
			t.Fatalf("%d bytes stay in use", p.InUse())
		}
	}
}

// TestClasses: every size has a class of its own size, and the classes are in order.
func TestClasses(t *testing.T) {
	last := -1
	for n := 1; n <= 1<<maxBits; n += n/50 + 1 {
		c, size := class(n)
		again, same := class(size)
		if c < last || c >= classCount || size < n || size > max(1<<minBits, n+n/4) || again != c || same != size {
			t.Fatalf("%d bytes: class %d of %d bytes; those are class %d of %d", n, c, size, again, same)
		}
		last = c
	}
}

func TestGrowKeepsBytes(t *testing.T) {
	var p Pool
	b := get(t, &p, 3)
	copy(b.B, "abc")
	same := grow(t, b, 16<<10)
	if same != b || string(b.B[:3]) != "abc" {
		t.Error("growing within the capacity moved the bytes")
	}
	b.B = b.B[:3]
	bigger := grow(t, b, 100<<10)
	if len(bigger.B) != 100<<10 || string(bigger.B[:3]) != "abc" || b.B != nil {
		t.Errorf("grown: %d bytes, begins %q", len(bigger.B), bigger.B[:3])
	}
	bigger.Release()
	if p.InUse() != 0 {
		t.Errorf("%d bytes stay in use", p.InUse())
	}
}

// TestReleaseTwice: a second Release must not give back memory that another got meanwhile.
func TestReleaseTwice(t *testing.T) {
	var p Pool
	(*Buffer)(nil).Release()
	a := get(t, &p, 10)
	a.Release()
	b := get(t, &p, 10)
	a.Release()
	c := get(t, &p, 10)
	if &b.B[0] == &c.B[0] {
		t.Fatal("two hold the same memory")
	}
	b.Release()
	c.Release()
	if p.InUse() != 0 {
		t.Errorf("%d bytes are in use after all were released", p.InUse())
	}
}

func TestConcurrent(t *testing.T) {
	p := New(1 << 20)
	hammer.Run(t, 4, 200, func(g, n int) {
		b := get(t, p, 1+n*97)
		for i := range b.B {
			b.B[i] = byte(g)
		}
		b = grow(t, b, len(b.B)*2)
		half := b.B[:len(b.B)/2]
		if !bytes.Equal(half, bytes.Repeat([]byte{byte(g)}, len(half))) {
			t.Error("another wrote into this buffer")
		}
		b.Release()
	})
	if p.InUse() != 0 {
		t.Errorf("%d bytes stay in use", p.InUse())
	}
}

const kib = 1 << 10

// TestWaitsInOrder: a full budget makes them wait, each for its turn: a small one does not overtake a large one.
func TestWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(64 * kib)
		first := get(t, p, 48*kib)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i, n := range []int{64 * kib, 16 * kib, 16 * kib} {
			wg.Go(func() {
				b := get(t, p, n)
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				b.Release()
			})
			synctest.Wait()
		}
		if len(order) != 0 || p.InUse() != 48*kib {
			t.Errorf("served %v while the first needs more than is left, %d in use", order, p.InUse())
		}
		if b := p.Lease().TryGet(16 * kib); b != nil {
			t.Error("TryGet overtook those who wait")
		}
		if p.Reserve(1) {
			t.Error("a cache took bytes that others wait for")
		}
		first.Release()
		wg.Wait()
		if order[0] != 0 || p.InUse() != 0 || p.Peak() != 64*kib {
			t.Errorf("order %v, %d in use, peak %d", order, p.InUse(), p.Peak())
		}
	})
}

// TestGivesUp: who waits keeps its own deadline, and those behind it go on.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(64 * kib)
		first := get(t, p, 48*kib)
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("the client's patience"))
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			began := time.Now()
			_, err := p.Lease().Get(ctx, 64*kib)
			if abi.KindOf(err) != abi.Deadline || time.Since(began) != time.Second || !bytes.Contains([]byte(err.Error()), []byte("patience")) {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		wg.Go(func() { get(t, p, 16*kib).Release() })
		wg.Wait() // though the first still holds its bytes
		first.Release()
		if p.InUse() != 0 || len(p.queue) != 0 {
			t.Errorf("%d in use, %d wait", p.InUse(), len(p.queue))
		}
	})
}

// TestAlone: a read that needs more than there is goes on when nobody else holds anything, and no sooner.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(64 * kib)
		get(t, p, 200*kib).Release()
		other := get(t, p, 16*kib)
		var huge *Buffer
		var wg sync.WaitGroup
		wg.Go(func() { huge = grow(t, get(t, p, 16*kib), 300*kib) })
		synctest.Wait()
		if huge != nil {
			t.Error("it went over the budget beside another")
		}
		other.Release()
		wg.Wait()
		huge.Release()
		if p.InUse() != 0 || p.holders != 0 || p.blocked != 0 {
			t.Errorf("%d in use, %d hold, %d wait", p.InUse(), p.holders, p.blocked)
		}
	})
}

// TestNoDeadlock: two requests that hold the whole budget and both want more: the older one goes on, the other after it.
func TestNoDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(64 * kib)
		old, young := p.Lease(), p.Lease()
		bufs := []*Buffer{more(t, old, 32*kib), more(t, young, 32*kib)}
		var order []string
		var wg sync.WaitGroup
		wait := func(name string, l *Lease, mine *Buffer) {
			wg.Go(func() {
				for range 2 { // a request of three partitions
					b := more(t, l, 32*kib)
					order = append(order, name)
					defer b.Release()
				}
				mine.Release()
			})
			synctest.Wait()
		}
		wait("young", young, bufs[1])
		if len(order) != 0 {
			t.Fatal("the young one did not wait for the old one, which works")
		}
		wait("old", old, bufs[0])
		wg.Wait()
		if order[0] != "old" || order[1] != "old" || p.InUse() != 0 || p.Peak() != 128*kib {
			t.Errorf("order %v, %d in use, peak %d", order, p.InUse(), p.Peak())
		}
	})
}

// TestCachesGiveWay: what a cache holds is counted, and given back before anybody waits.
func TestCachesGiveWay(t *testing.T) {
	p := New(64 * kib)
	kept := int64(0)
	for p.Reserve(16 * kib) {
		kept += 16 * kib
	}
	p.OnShortage(func(n int64) {
		n = min(n, kept)
		kept -= n
		p.Unreserve(n)
	})
	if kept != 64*kib {
		t.Errorf("the cache got %d", kept)
	}
	b := get(t, p, 32*kib)
	if kept != 32*kib || p.InUse() != 64*kib {
		t.Errorf("%d kept, %d in use", kept, p.InUse())
	}
	b.Release()
	get(t, p, 500*kib).Release() // more than all of it
	if kept != 0 || p.InUse() != 0 {
		t.Errorf("%d kept, %d in use", kept, p.InUse())
	}
}

// TestNeverExceeded: under a load of requests of several parts, some of which grow, the budget is exceeded by no more than
// a tenth, and all of them end.
func TestNeverExceeded(t *testing.T) {
	const limit = 8 << 20
	p := New(limit)
	hammer.Run(t, 100, 30, func(g, n int) {
		l := p.Lease()
		var bufs []*Buffer
		for i := range 1 + (g+n)%4 {
			bufs = append(bufs, more(t, l, (64+16*i)*kib))
			runtime.Gosched() // others come between
		}
		if n%5 == 0 {
			bufs[0] = grow(t, bufs[0], 256*kib)
		}
		for _, b := range bufs {
			b.Release()
		}
	})
	if p.Peak() > limit*11/10 || p.Peak() < limit/2 || p.InUse() != 0 || p.holders != 0 || p.blocked != 0 {
		t.Errorf("peak %d of %d, %d in use, %d hold, %d wait", p.Peak(), limit, p.InUse(), p.holders, p.blocked)
	}
}

// BenchmarkGet is what a buffer of 1 MiB costs; never: with a budget that is never full.
func BenchmarkGet(b *testing.B) {
	for name, p := range map[string]*Pool{"no limit": New(0), "never full": New(1 << 30)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				buf, _ := p.Lease().Get(context.Background(), 1<<20)
				buf.Release()
			}
		})
	}
}
