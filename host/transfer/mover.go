package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/grant"
)

// maxSources bounds how many locations are kept: some hundred bytes each.
const maxSources = 4096

// Fetcher asks the plugin for a range of one object: FetchLogSegment, or FetchIndex with the range left out.
type Fetcher func(ctx context.Context, r abi.Range) (*abi.Source, error)

// Key names an object among those of one plugin.
type Key struct {
	Segment abi.UUID
	Index   abi.IndexType // 0: the log
}

// Mover opens objects and keeps the locations that hold for a whole object, so that a plugin is asked about once a
// segment and not once a read. Lock order: a stretch's turn, then mu.
type Mover struct {
	roots   *grant.Roots
	now     func() time.Time
	sleep   func(ctx context.Context, d time.Duration) error
	buffers *budget.Pool
	counts  counts

	mu      sync.Mutex
	sources *simplelru.LRU[Key, *abi.Source]
	shared  map[Key][]*stretch // those that a read may join
}

// Options of a Mover. The zero value is good.
type Options struct {
	Memory *budget.Pool                                     // what is kept for reads that share it counts there; nil: nowhere
	Now    func() time.Time                                 // what expiry and deadlines are held against
	Sleep  func(ctx context.Context, d time.Duration) error // waits before a further try; an error is that of ctx
}

// New makes a Mover that opens files below roots and nothing else. o may be nil.
func New(roots *grant.Roots, o *Options) *Mover {
	m := &Mover{roots: roots, now: time.Now, sleep: sleep, shared: map[Key][]*stretch{}}
	if o == nil {
		o = &Options{}
	}
	if o.Now != nil {
		m.now = o.Now
	}
	if o.Sleep != nil {
		m.sleep = o.Sleep
	}
	if m.buffers = o.Memory; m.buffers == nil {
		m.buffers = budget.New(0)
	}
	lru, err := simplelru.NewLRU[Key, *abi.Source](maxSources, nil)
	if err != nil { // only for a size that is not positive
		panic(err)
	}
	m.sources = lru
	return m
}

// Object opens the object called key; subject names it in errors. Nothing is asked for until the first ReadAt. The
// caller closes it.
func (m *Mover) Object(key Key, subject string, fetch Fetcher) *Object {
	return &Object{mover: m, key: key, subject: subject, fetch: fetch, size: -1, promise: -1}
}

// Forget drops what is known of an object: its location turned out to be wrong.
func (m *Mover) Forget(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources.Remove(key)
}

func (m *Mover) known(key Key) *abi.Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, ok := m.sources.Get(key)
	if !ok {
		return nil
	}
	if exp := src.Location.ExpiresAt; !exp.IsZero() && !m.now().Before(exp) {
		m.sources.Remove(key)
		return nil
	}
	return src
}

// keep keeps the location of a log that could be opened. One of an index is used once, since what it brings is cached: kept, it
// would only bring the same again where that was wrong.
func (m *Mover) keep(key Key, src *abi.Source) {
	if src.Location == nil || src.Location.Scope != abi.ScopeObject || key.Index != 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources.Add(key, src)
}
