package rlmm

import (
	"slices"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
)

// reach is the last stretch that Reach found to be without a hole: from is where it began, to its exclusive end. It holds for a
// lineage, and until the next event.
type reach struct {
	mu       sync.Mutex
	lineage  []abi.LeaderEpoch
	version  int64
	from, to int64
}

// Reach is the first offset at or above from that no finished segment holds in the lineage: from itself where none holds it.
// To ask again, for an offset in the same stretch, takes no time.
func (p *Partition) Reach(l epoch.Lineage, from int64) int64 {
	p.mu.RLock()
	version := p.version
	p.mu.RUnlock()
	m := &p.reach
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.version == version && m.from < m.to && slices.Equal(m.lineage, l.Entries())
	if known && from >= m.from && from <= m.to {
		return m.to
	}
	to := from
	for known := known; ; {
		if known && to >= m.from && to <= m.to {
			to = m.to
			break
		}
		le, ok := l.ForOffset(to)
		if !ok {
			break
		}
		s, ok := p.Lookup(le.Epoch, to)
		if !ok {
			break
		}
		to = Shared(&s.SegmentMetadata, l, to)
	}
	m.lineage, m.version, m.from, m.to = l.Entries(), version, from, to
	return to
}

// TellsTxnIndexes reports metadata that tells empty transaction indexes apart (since Kafka 4.0): a segment that is not said to
// have an empty one has some entries then.
func (p *Partition) TellsTxnIndexes() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.tellsTxns
}
