package budget

import (
	"context"
	"math/bits"
	"sync"
)

const (
	minBits    = 14 // 16 KiB
	maxBits    = 26 // 64 MiB; larger buffers are made for one use
	sizesACut  = 4  // sizes between a power of two and the next: a buffer is larger than asked for by a quarter at most
	classCount = (maxBits-minBits)*sizesACut + 1
)

// spare is the memory that nobody uses, by size. The collector may have it.
type spare [classCount]sync.Pool // of *[]byte

// class gives the size class of n bytes and its size; -1 and n for what is too large to have one.
func class(n int) (int, int) {
	if n <= 1<<minBits {
		return 0, 1 << minBits
	}
	k := bits.Len(uint(n - 1)) // n lies above 2^(k-1) and not above 2^k
	if k > maxBits {
		return -1, n
	}
	unit := k - 3
	q := (n + 1<<unit - 1) >> unit // 5, 6, 7 or 8 units
	return (k-minBits-1)*sizesACut + q - sizesACut, q << unit
}

// Buffer is a slice that goes back to its pool. What is pooled is the memory, never the Buffer: one that was released
// stays released when its memory is handed out again.
type Buffer struct {
	B     []byte // as long as was asked for; its capacity may be used
	mem   *[]byte
	class int
	lease *Lease // nil: released
}

// Get gives a buffer of n bytes with undefined content. It waits until the budget has room, or ctx ends: an error is
// DEADLINE or CANCELLED.
func (l *Lease) Get(ctx context.Context, n int) (*Buffer, error) {
	c, size := class(n)
	if err := l.pool.acquire(ctx, l, int64(size)); err != nil {
		return nil, err
	}
	return l.buffer(n, c, size), nil
}

// TryGet is Get where that need not wait, and nil elsewhere.
func (l *Lease) TryGet(n int) *Buffer {
	c, size := class(n)
	if !l.pool.take(l, int64(size)) {
		return nil
	}
	return l.buffer(n, c, size)
}

// buffer makes the buffer whose size was taken from the budget.
func (l *Lease) buffer(n, class, size int) *Buffer {
	var mem *[]byte
	if class >= 0 {
		mem, _ = l.pool.spare[class].Get().(*[]byte)
	}
	if mem == nil {
		b := make([]byte, size)
		mem = &b
	}
	return &Buffer{B: (*mem)[:n], mem: mem, class: class, lease: l}
}

// Grow gives a buffer of n bytes that begins with the bytes of b; b is released or is the result. get is where a larger
// one comes from: a Lease's Get. With its error b is as it was, and is the result.
func (b *Buffer) Grow(n int, get func(n int) (*Buffer, error)) (*Buffer, error) {
	if n <= cap(b.B) {
		b.B = b.B[:n]
		return b, nil
	}
	bigger, err := get(max(n, min(cap(b.B)+cap(b.B)/2, 1<<maxBits)))
	if err != nil {
		return b, err
	}
	copy(bigger.B, b.B)
	bigger.B = bigger.B[:n]
	b.Release()
	return bigger, nil
}

// Release gives b back. Neither b nor its bytes may be used afterwards; a nil buffer and a second call do nothing.
func (b *Buffer) Release() {
	if b == nil || b.lease == nil {
		return
	}
	l, mem, class := b.lease, b.mem, b.class
	*b = Buffer{}
	size := int64(cap(*mem))
	if class >= 0 {
		l.pool.spare[class].Put(mem)
	}
	l.pool.release(l, size)
}
