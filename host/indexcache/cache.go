package indexcache

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/format"
)

// Defaults of Options. The total and the TTL are Kafka's remote.log.index.file.cache.total.size.bytes and .ttl.ms.
const (
	DefaultTotalBytes  = 1 << 30
	DefaultMemoryBytes = 64 << 20
	DefaultTTL         = 15 * time.Minute
)

// Options say how large a cache may be. The zero value has the defaults and no disk.
type Options struct {
	Dir         string        // "": memory alone. It must exist, and be this process's alone
	TotalBytes  int64         // of files; memory has no more either
	MemoryBytes int64         // of indexes in memory
	TTL         time.Duration // an index that was not asked for that long leaves; negative: none does
	Budget      *budget.Pool  // what is in memory counts there; nil: nowhere
	Now         func() time.Time
	Log         *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.TotalBytes <= 0 {
		o.TotalBytes = DefaultTotalBytes
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = DefaultMemoryBytes
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Budget == nil {
		o.Budget = budget.New(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Loader fetches an index from the store.
type Loader func(ctx context.Context) ([]byte, error)

// Origin says who answered.
type Origin string

// The origins.
const (
	Memory  Origin = "hit in memory"
	Disk    Origin = "hit on disk"
	Fetched Origin = "miss"
)

// flight is one load that others wait for. Its fields are written before done is closed.
type flight struct {
	done   chan struct{}
	data   []byte
	from   Origin
	err    error
	gaveUp bool        // err is the leader's context's: whoever waits may still succeed
	stale  atomic.Bool // the segment was removed: what is loaded is not kept
}

// hotIndex is an index in memory.
type hotIndex struct {
	data   []byte
	onDisk time.Time // when its file was last told that it is in use
}

// Cache is the index cache. Lock order: mu, then the budget's; disk.mu by itself. Nothing is loaded, read or written while
// mu is held.
type Cache struct {
	disk   *disk // nil: none
	budget *budget.Pool
	memory int64 // Options.MemoryBytes
	now    func() time.Time
	counts counts

	mu      sync.Mutex
	closed  bool
	hot     *shelf[*hotIndex]
	flights map[key]*flight
}

// New opens a cache; Close closes it. Errors: those of listing Options.Dir.
func New(o Options) (*Cache, error) {
	o = o.withDefaults()
	c := &Cache{budget: o.Budget, memory: o.MemoryBytes, now: o.Now, flights: map[key]*flight{}}
	var err error
	c.hot, err = newShelf(min(o.MemoryBytes, o.TotalBytes), o.TTL, func(_ *hotIndex, size int64) { c.budget.Unreserve(size); c.counts.gone.Add(1) })
	if err == nil && o.Dir != "" {
		c.disk, err = openDisk(o)
	}
	if err != nil {
		return nil, err
	}
	c.budget.OnShortage(c.shrink)
	return c, nil
}

// Offset gives the segment's offset index.
func (c *Cache) Offset(ctx context.Context, seg *abi.SegmentMetadata, load Loader) (format.OffsetIndex, Origin, error) {
	b, from, err := c.get(ctx, seg, abi.OffsetIndex, load, func(b []byte) error { return format.OffsetIndex(b).Check(seg.StartOffset) })
	return format.OffsetIndex(b), from, err
}

// Time gives the segment's time index.
func (c *Cache) Time(ctx context.Context, seg *abi.SegmentMetadata, load Loader) (format.TimeIndex, Origin, error) {
	b, from, err := c.get(ctx, seg, abi.TimeIndex, load, func(b []byte) error { return format.TimeIndex(b).Check(seg.StartOffset) })
	return format.TimeIndex(b), from, err
}

// Aborted gives the segment's transaction index. Where the metadata says that there is none, one that is missing (NOT_FOUND) is
// an empty one, and that is cached too. Elsewhere it is an error, and an empty one is not kept: the store may have lost it, and
// find it again.
func (c *Cache) Aborted(ctx context.Context, seg *abi.SegmentMetadata, load Loader) (format.TxnIndex, Origin, error) {
	b, from, err := c.get(ctx, seg, abi.TransactionIndex, func(ctx context.Context) ([]byte, error) {
		b, err := load(ctx)
		if seg.TxnIndexEmpty && abi.KindOf(err) == abi.NotFound {
			return nil, nil
		}
		return b, err
	}, func(b []byte) error { return format.TxnIndex(b).Check(seg.StartOffset) })
	return format.TxnIndex(b), from, err
}

// keeps says whether an index may be answered with later. An empty transaction index is as good as none, which a store says of
// one that it lost, too.
func keeps(seg *abi.SegmentMetadata, t abi.IndexType, b []byte) bool {
	return t != abi.TransactionIndex || len(b) > 0 || seg.TxnIndexEmpty
}

// Resize changes Options.TotalBytes while the cache is used; 0: the default. What is too much leaves at once.
func (c *Cache) Resize(totalBytes int64) {
	if totalBytes <= 0 {
		totalBytes = DefaultTotalBytes
	}
	c.mu.Lock()
	c.hot.resize(min(c.memory, totalBytes))
	c.mu.Unlock()
	if c.disk != nil {
		c.disk.resize(totalBytes)
	}
}

// Remove forgets all indexes of segments that were deleted, also those that are being loaded: who waits for one gets it,
// and it is not kept. A segment that is not known is none to forget.
func (c *Cache) Remove(segs ...*abi.SegmentMetadata) {
	for _, seg := range segs {
		c.mu.Lock()
		for _, t := range abi.IndexTypes() {
			k := key{seg.SegmentID, t}
			c.hot.lru.Remove(k)
			if f, ok := c.flights[k]; ok {
				f.stale.Store(true)
				delete(c.flights, k)
			}
		}
		c.mu.Unlock()
		if c.disk != nil {
			c.disk.remove(seg.SegmentID)
		}
	}
}

// Close ends the cache: it keeps nothing in memory and touches no file afterwards, and every use is a PHASE error. What it
// Forget forgets one index of a segment, which is asked for again then: what it says turned out not to be so.
func (c *Cache) Forget(seg *abi.SegmentMetadata, t abi.IndexType) {
	k := key{seg.SegmentID, t}
	c.mu.Lock()
	c.hot.lru.Remove(k)
	c.mu.Unlock()
	if c.disk != nil {
		c.disk.forget(k)
	}
}

// gave stays valid. A load that runs ends for those that wait, and is not kept. Closing twice is fine.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.hot.shrink(c.hot.bytes)
	c.mu.Unlock()
	if c.disk != nil {
		c.disk.close()
	}
	return nil
}

// shrink gives n bytes back to the budget, or all that it has.
func (c *Cache) shrink(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hot.shrink(n)
}

// get finds an index in memory, or joins the load that runs, or loads it itself. A load that ended because its own
// caller gave up passes the turn to one of those that wait.
func (c *Cache) get(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType, load Loader, check func([]byte) error) ([]byte, Origin, error) {
	k := key{seg.SegmentID, t}
	for {
		b, f, leads, err := c.join(k)
		switch {
		case err != nil:
			return nil, "", abi.E("index", seg.Key()+" "+t.String(), abi.Phase, err)
		case f == nil:
			c.counts.answered(Memory, nil)
			return b, Memory, nil
		case leads:
			c.lead(ctx, f, k, seg, load, check)
			c.counts.answered(f.from, f.err)
			return f.data, f.from, f.err
		}
		select {
		case <-ctx.Done():
			return nil, "", abi.E("index", seg.Key()+" "+t.String(), abi.KindOf(ctx.Err()), context.Cause(ctx))
		case <-f.done:
		}
		if !f.gaveUp {
			c.counts.answered(Memory, f.err)
			return f.data, f.from, f.err
		}
	}
}

var errClosed = errors.New("the index cache is closed")

// join gives the index from memory, or the flight that brings it; leads says that the caller is to do it.
func (c *Cache) join(k key) (b []byte, f *flight, leads bool, err error) {
	now := c.now()
	touch := false
	defer func() { // after mu
		if touch {
			c.disk.touch(k, now)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, false, errClosed
	}
	if hot, ok := c.hot.get(k, now); ok {
		touch = c.touchLocked(hot, now)
		return hot.data, nil, false, nil
	}
	if f, ok := c.flights[k]; ok {
		return nil, f, false, nil
	}
	f = &flight{done: make(chan struct{})}
	c.flights[k] = f
	return nil, f, true, nil
}

// touchLocked says whether the file of an index that is read from memory must be told, lest it expire meanwhile: now and
// then, and not at each hit.
func (c *Cache) touchLocked(hot *hotIndex, now time.Time) bool {
	if c.disk == nil || c.hot.ttl < 0 || now.Sub(hot.onDisk) <= c.hot.ttl/8 {
		return false
	}
	hot.onDisk = now
	return true
}

// lead does the load of a flight and ends it, also when the loader panics.
func (c *Cache) lead(ctx context.Context, f *flight, k key, seg *abi.SegmentMetadata, load Loader, check func([]byte) error) {
	f.err = errors.New("the load was given up")
	defer func() {
		f.gaveUp = f.err != nil && ctx.Err() != nil
		c.mu.Lock()
		if c.flights[k] == f {
			delete(c.flights, k)
		}
		if f.err == nil && !f.stale.Load() && !c.closed && keeps(seg, k.typ, f.data) {
			c.addLocked(k, f.data)
		}
		c.mu.Unlock()
		close(f.done)
	}()
	if c.disk != nil {
		if b, ok := c.disk.read(seg, k, check); ok && keeps(seg, k.typ, b) {
			f.data, f.from, f.err = b, Disk, nil
			return
		}
	}
	f.data, f.err = fetch(ctx, seg, k.typ, load, check)
	f.from = Fetched
	if f.err == nil && c.disk != nil && keeps(seg, k.typ, f.data) {
		c.disk.write(seg, k, f.data, &f.stale)
	}
}

// fetch loads an index, once more where what came is damaged.
func fetch(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType, load Loader, check func([]byte) error) ([]byte, error) {
	for again := false; ; again = true {
		b, err := load(ctx)
		if err != nil {
			return nil, err
		}
		err = check(b)
		if err == nil {
			return b, nil
		}
		if again {
			return nil, abi.Errorf("index", seg.Key()+" "+t.String(), abi.Corrupt, "damaged as the store gave it, twice: %w", err)
		}
	}
}

// addLocked keeps an index in memory if the budget has room for it, be it in the place of older ones.
func (c *Cache) addLocked(k key, b []byte) {
	size := int64(len(b))
	for !c.budget.Reserve(size) {
		if c.hot.lru.Len() == 0 {
			return
		}
		c.hot.lru.RemoveOldest()
	}
	now := c.now()
	c.hot.add(k, &hotIndex{b, now}, size, now)
}
