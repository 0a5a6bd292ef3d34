package host

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/tally"
)

// The methods of a plugin that a host calls while it reads, as PluginStats name them.
const (
	FetchLogSegment = "fetch_log_segment"
	FetchIndex      = "fetch_index"
)

// PluginStats is how a plugin's method did.
type PluginStats struct {
	Took  tally.Durations  // of all calls; a stream is not in it, only the answer that brings it
	Kinds map[string]int64 // calls by how they ended: OK, or the kind of the error; those of the contract are all there
}

// counted is a storage backend whose calls are counted.
type counted struct {
	abi.RemoteStorageManager
	log, index callCounts
}

var _ abi.RemoteStorageManager = (*counted)(nil)

// callCounts are a method's PluginStats while they grow.
type callCounts struct {
	took  tally.Histogram
	kinds [abi.Internal + 1]atomic.Int64 // 0: no error
}

// FetchLogSegment implements abi.RemoteStorageManager.
func (c *counted) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	began := time.Now()
	src, err := c.RemoteStorageManager.FetchLogSegment(ctx, seg, r)
	c.log.ended(began, err)
	return src, err
}

// FetchIndex implements abi.RemoteStorageManager.
func (c *counted) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	began := time.Now()
	src, err := c.RemoteStorageManager.FetchIndex(ctx, seg, t)
	c.index.ended(began, err)
	return src, err
}

func (c *callCounts) ended(began time.Time, err error) {
	c.took.Observe(time.Since(began))
	k := abi.KindOf(err)
	if int(k) >= len(c.kinds) {
		k = abi.Internal
	}
	c.kinds[k].Add(1)
}

func (c *callCounts) stats() PluginStats {
	s := PluginStats{Took: c.took.Durations(), Kinds: map[string]int64{"OK": c.kinds[0].Load()}}
	for k := abi.Kind(1); int(k) < len(c.kinds); k++ {
		s.Kinds[k.String()] = c.kinds[k].Load()
	}
	return s
}

// stats gives what was counted, by method; of no backend too, so that all is there from the start.
func (c *counted) stats() map[string]PluginStats {
	if c == nil {
		c = &counted{}
	}
	return map[string]PluginStats{FetchLogSegment: c.log.stats(), FetchIndex: c.index.stats()}
}
