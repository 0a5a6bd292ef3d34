package randomops

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// faulty is a store whose answers fail while it is armed: with errors that pass, with streams that break or end early, and
// with answers that come only when the gate opens. What fails depends on what is asked for alone, not on the order in which
// readers ask.
type faulty struct {
	abi.RemoteStorageManager

	mu    sync.Mutex
	armed uint64        // 0: all is well
	gate  chan struct{} // nil: nothing waits
	asked map[call]uint64
}

type call struct {
	seed  uint64
	seg   abi.UUID
	index abi.IndexType
	start int64
	n     uint64
}

// arm lets calls fail until disarm; with gate some wait.
func (f *faulty) arm(seed uint64, gate bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.asked = seed, map[call]uint64{}
	if gate {
		f.gate = make(chan struct{})
	}
}

// disarm ends all that.
func (f *faulty) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = 0
	if f.gate != nil {
		close(f.gate)
		f.gate = nil
	}
}

// draw decides what happens to a call: 0 and up to 3 are faults, anything else is none.
func (f *faulty) draw(c call) (fault uint64, gate chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed == 0 {
		return 9, nil
	}
	c.seed = f.armed
	n := f.asked[c]
	f.asked[c]++
	c.n = n
	fault = hash(c) % 10
	if fault == 3 && f.gate == nil {
		fault = 9
	}
	return fault, f.gate
}

// hash is one of a call that is the same in each run.
func hash(c call) uint64 {
	x := c.seed
	for _, v := range []uint64{uint64(c.seg[15]) | uint64(c.seg[14])<<8, uint64(c.index), uint64(c.start), c.n} {
		x = (x ^ v) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return x >> 3
}

func (f *faulty) do(ctx context.Context, c call, ask func() (*abi.Source, error)) (*abi.Source, error) {
	fault, gate := f.draw(c)
	switch fault {
	case 0:
		return nil, passing(abi.Unavailable)
	case 1:
		return nil, passing(abi.Throttled)
	case 3:
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, abi.E("fetch", "", abi.KindOf(ctx.Err()), context.Cause(ctx))
		}
	}
	src, err := ask()
	if err == nil && src.Stream != nil && fault == 2 {
		src.Stream = &broken{ReadCloser: src.Stream, left: hash(c) % 3000, quiet: hash(c)%2 == 0}
	}
	return src, err
}

// passing is an error that is worth another try, at once: a test does not wait.
func passing(k abi.Kind) error {
	return &abi.Error{Op: "fetch", Kind: k, RetryAfter: time.Nanosecond, Err: abi.Text("drawn by the test")}
}

func (f *faulty) FetchLogSegment(ctx context.Context, m *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	return f.do(ctx, call{seg: m.SegmentID, start: r.Start}, func() (*abi.Source, error) {
		return f.RemoteStorageManager.FetchLogSegment(ctx, m, r)
	})
}

func (f *faulty) FetchIndex(ctx context.Context, m *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	return f.do(ctx, call{seg: m.SegmentID, index: t}, func() (*abi.Source, error) {
		return f.RemoteStorageManager.FetchIndex(ctx, m, t)
	})
}

// broken is a stream that ends after some bytes, with an error or as if it were at its end.
type broken struct {
	io.ReadCloser
	left  uint64
	quiet bool
}

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		if b.quiet {
			return 0, io.EOF
		}
		return 0, passing(abi.Unavailable)
	}
	n, err := b.ReadCloser.Read(p[:min(uint64(len(p)), b.left)])
	b.left -= uint64(n)
	return n, err
}
