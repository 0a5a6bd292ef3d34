package host

import (
	"context"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/tally"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// Stats is how busy a Host is, and what it has done since it was opened. Everything that can be known is there from the
// start, with zeros.
type Stats struct {
	Memory    budget.Stats
	Indexes   indexcache.Stats
	Transfer  transfer.Stats
	Reader    reader.Stats
	Plugin    map[string]PluginStats // by method
	Steps     map[string]tally.Durations
	SlowReads int64
	Looks     LookStats
	Topics    []TopicStats // those that are served, by name
	SizesTook time.Duration
}

// LookStats is how the looks at the metadata source and the log directories went.
type LookStats struct {
	Count        int64
	Failures     int64
	Good         time.Time // the last look that read everything; zero: none did
	FailingSince time.Time // the first of the failures since; zero: the last look was good
	Err          error     // why the last one failed; nil: it did not
}

// TopicStats is what is known of a topic that is served.
type TopicStats struct {
	Name       string
	Partitions int
	Segments   int   // in the remote log metadata, finished or not
	Bytes      int64 // of the finished ones, not older than a minute
	Read       reader.TopicStats
}

// Stats tells how busy the host is.
func (h *Host) Stats() Stats {
	s := Stats{Memory: h.memory.Stats(), Indexes: h.indexes.Stats(), Plugin: h.calls.stats(), Steps: h.watch.durations(),
		SlowReads: h.watch.found.Load(), Looks: h.looks.get()}
	if h.store != nil {
		s.Transfer = h.store.Mover.Stats()
	}
	served := map[string]*Topic{}
	topics := h.servedTopics()
	for _, t := range topics {
		served[t.Name] = t
	}
	s.Reader = h.reader.Stats(func(topic string) bool { return served[topic] != nil })
	var bytes map[string]int64
	bytes, s.SizesTook = h.sizes.of(h.catalog.Load(), topics)
	for _, t := range topics {
		one := TopicStats{Name: t.Name, Partitions: len(t.Partitions), Bytes: bytes[t.Name], Read: s.Reader.Topics[t.Name]}
		for _, p := range t.Partitions {
			if p.Remote != nil {
				one.Segments += p.Remote.Len()
			}
		}
		s.Topics = append(s.Topics, one)
	}
	return s
}

// LookStats tells how the looks at the metadata went, which is the part of Stats that costs nothing.
func (h *Host) LookStats() LookStats { return h.looks.get() }

// servedTopics are the topics that a name means, and that were not deleted.
func (h *Host) servedTopics() []*Topic {
	var out []*Topic
	for _, t := range h.Topics() {
		if t.Newest && !t.Deleted {
			out = append(out, t)
		}
	}
	return out
}

// looks are LookStats while they grow.
type looks struct {
	mu sync.Mutex
	s  LookStats
}

func (l *looks) get() LookStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.s
}

// ended notes how a look went. One that its caller gave up says nothing.
func (l *looks) ended(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.s.Count++
	l.s.Err = err
	if err == nil {
		l.s.Good, l.s.FailingSince = now, time.Time{}
		return
	}
	l.s.Failures++
	if l.s.FailingSince.IsZero() {
		l.s.FailingSince = now
	}
}

// sizesKept is how old the bytes of the remote tier may be: to add them up looks at every segment.
const sizesKept = time.Minute

// sizes is how many bytes each topic has in the remote tier, as they were added up last.
type sizes struct {
	mu    sync.Mutex
	at    time.Time
	from  *catalog
	took  time.Duration
	bytes map[string]int64
}

// of gives the bytes by topic, and how long it took to add them up.
func (z *sizes) of(c *catalog, topics []*Topic) (map[string]int64, time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	now := time.Now()
	if z.from == c || z.from != nil && now.Sub(z.at) < sizesKept {
		return z.bytes, z.took
	}
	bytes := map[string]int64{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Remote == nil {
				continue
			}
			for seg := range p.Remote.All() {
				if seg.State == format.CopySegmentFinished {
					bytes[t.Name] += seg.SizeBytes
				}
			}
		}
	}
	z.at, z.from, z.bytes, z.took = now, c, bytes, time.Since(now)
	return z.bytes, z.took
}
