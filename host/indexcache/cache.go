package indexcache

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Defaults of Options. The total is Kafka's remote.log.index.file.cache.total.size.bytes.
const (
	DefaultTotalBytes  = 1 << 30
	DefaultMemoryBytes = 64 << 20
)

// Options say how large a cache may be. The zero value has the defaults and no disk.
type Options struct {
	Dir         string // "": memory alone. It must exist
	TotalBytes  int64  // of files
	MemoryBytes int64  // of indexes in memory
	Log         *slog.Logger
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

type key struct {
	seg abi.UUID
	typ abi.IndexType
}

// flight is one load that others wait for. Its fields are written before done is closed.
type flight struct {
	done   chan struct{}
	data   []byte
	from   Origin
	err    error
	gaveUp bool // err is the leader's context's: whoever waits may still succeed
}

// Cache is the index cache. Lock order: mu alone; nothing is loaded, read or written while it is held.
type Cache struct {
	disk *disk // nil: none

	mu      sync.Mutex
	hot     *simplelru.LRU[key, []byte]
	bytes   int64 // in hot
	limit   int64
	flights map[key]*flight
}

// New opens a cache. Errors: those of listing Options.Dir.
func New(o Options) (*Cache, error) {
	c := &Cache{limit: o.MemoryBytes, flights: map[key]*flight{}}
	if c.limit <= 0 {
		c.limit = DefaultMemoryBytes
	}
	var err error
	if c.hot, err = simplelru.NewLRU(math.MaxInt32, func(_ key, b []byte) { c.bytes -= int64(len(b)) }); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		return c, nil
	}
	if o.TotalBytes <= 0 {
		o.TotalBytes = DefaultTotalBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c.disk, err = openDisk(o.Dir, o.TotalBytes, o.Log)
	return c, err
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

// Aborted gives the segment's transaction index. A segment that never had one (NOT_FOUND) has an empty one, and that is
// cached too.
func (c *Cache) Aborted(ctx context.Context, seg *abi.SegmentMetadata, load Loader) (format.TxnIndex, Origin, error) {
	b, from, err := c.get(ctx, seg, abi.TransactionIndex, func(ctx context.Context) ([]byte, error) {
		b, err := load(ctx)
		if abi.KindOf(err) == abi.NotFound {
			return nil, nil
		}
		return b, err
	}, func(b []byte) error { return format.TxnIndex(b).Check(seg.StartOffset) })
	return format.TxnIndex(b), from, err
}

// Remove forgets all indexes of a segment: it was deleted.
func (c *Cache) Remove(seg *abi.SegmentMetadata) {
	c.mu.Lock()
	for _, t := range abi.IndexTypes() {
		c.hot.Remove(key{seg.SegmentID, t})
	}
	c.mu.Unlock()
	if c.disk != nil {
		c.disk.remove(seg)
	}
}

// get finds an index in memory, or joins the load that runs, or loads it itself. A load that ended because its own
// caller gave up passes the turn to one of those that wait.
func (c *Cache) get(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType, load Loader, check func([]byte) error) ([]byte, Origin, error) {
	k := key{seg.SegmentID, t}
	for {
		c.mu.Lock()
		if b, ok := c.hot.Get(k); ok {
			c.mu.Unlock()
			return b, Memory, nil
		}
		f, running := c.flights[k]
		if !running {
			f = &flight{done: make(chan struct{})}
			c.flights[k] = f
		}
		c.mu.Unlock()
		if !running {
			c.lead(ctx, f, k, seg, load, check)
			return f.data, f.from, f.err
		}
		select {
		case <-ctx.Done():
			return nil, "", abi.E("index", seg.Key()+" "+t.String(), abi.KindOf(ctx.Err()), context.Cause(ctx))
		case <-f.done:
		}
		if !f.gaveUp {
			return f.data, f.from, f.err
		}
	}
}

// lead does the load of a flight and ends it, also when the loader panics.
func (c *Cache) lead(ctx context.Context, f *flight, k key, seg *abi.SegmentMetadata, load Loader, check func([]byte) error) {
	f.err = errors.New("the load was given up")
	defer func() {
		f.gaveUp = f.err != nil && ctx.Err() != nil
		c.mu.Lock()
		delete(c.flights, k)
		if f.err == nil {
			c.addLocked(k, f.data)
		}
		c.mu.Unlock()
		close(f.done)
	}()
	if c.disk != nil {
		if b, ok := c.disk.read(seg, k.typ, check); ok {
			f.data, f.from, f.err = b, Disk, nil
			return
		}
	}
	f.data, f.err = fetch(ctx, seg, k.typ, load, check)
	f.from = Fetched
	if f.err == nil && c.disk != nil {
		c.disk.write(seg, k.typ, f.data)
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

func (c *Cache) addLocked(k key, b []byte) {
	c.bytes += int64(len(b))
	c.hot.Add(k, b)
	for c.bytes > c.limit && c.hot.Len() > 1 {
		c.hot.RemoveOldest()
	}
}
