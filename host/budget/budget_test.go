package budget

import (
	"bytes"
	"testing"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestGet(t *testing.T) {
	var p Pool
	for _, tt := range []struct{ n, cap int }{
		{0, 16 << 10}, {1, 16 << 10}, {16 << 10, 16 << 10}, {16<<10 + 1, 32 << 10}, {1 << 20, 1 << 20}, {1<<20 + 1, 2 << 20},
		{64 << 20, 64 << 20}, {64<<20 + 1, 64<<20 + 1},
	} {
		b := p.Get(tt.n)
		if len(b.B) != tt.n || cap(b.B) != tt.cap || p.InUse() != int64(tt.cap) {
			t.Errorf("%d bytes: len %d, cap %d, in use %d, want cap %d", tt.n, len(b.B), cap(b.B), p.InUse(), tt.cap)
		}
		b.Release()
		if p.InUse() != 0 {
			t.Fatalf("%d bytes stay in use", p.InUse())
		}
	}
}

func TestGrowKeepsBytes(t *testing.T) {
	var p Pool
	b := p.Get(3)
	copy(b.B, "abc")
	same := b.Grow(16 << 10)
	if same != b || string(b.B[:3]) != "abc" {
		t.Error("growing within the capacity moved the bytes")
	}
	b.B = b.B[:3]
	bigger := b.Grow(100 << 10)
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
	a := p.Get(10)
	a.Release()
	b := p.Get(10)
	a.Release()
	c := p.Get(10)
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
	var p Pool
	hammer.Run(t, 4, 200, func(g, n int) {
		b := p.Get(1 + n*97)
		for i := range b.B {
			b.B[i] = byte(g)
		}
		b = b.Grow(len(b.B) * 2)
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
