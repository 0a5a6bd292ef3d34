package indexcache

import "sync/atomic"

// Stats is what a Cache holds, and what it has done since it was opened.
type Stats struct {
	MemoryHits    int64 // also those that waited for a load that ran
	DiskHits      int64
	Loads         int64 // indexes that were fetched from the store
	Failures      int64 // of those that asked, also of those that waited
	Evictions     int64 // indexes that left memory: for want of room, by age, or with their segment
	DiskEvictions int64 // files that left, likewise
	MemoryBytes   int64
	MemoryEntries int
	DiskBytes     int64
	DiskEntries   int
	DiskLimit     int64 // 0: there is no disk
}

// counts are a Cache's Stats while they grow.
type counts struct{ memory, disk, loads, failures, gone atomic.Int64 }

// answered counts an answer by where it came from.
func (c *counts) answered(from Origin, err error) {
	switch {
	case err != nil:
		c.failures.Add(1)
	case from == Memory:
		c.memory.Add(1)
	case from == Disk:
		c.disk.Add(1)
	default:
		c.loads.Add(1)
	}
}

// Stats tells what is held and what was done so far.
func (c *Cache) Stats() Stats {
	n := &c.counts
	s := Stats{MemoryHits: n.memory.Load(), DiskHits: n.disk.Load(), Loads: n.loads.Load(), Failures: n.failures.Load(), Evictions: n.gone.Load()}
	c.mu.Lock()
	s.MemoryBytes, s.MemoryEntries = c.hot.bytes, c.hot.lru.Len()
	c.mu.Unlock()
	if d := c.disk; d != nil {
		d.mu.Lock()
		s.DiskBytes, s.DiskEntries, s.DiskLimit = d.files.bytes, d.files.lru.Len(), d.files.limit
		d.mu.Unlock()
		s.DiskEvictions = d.gone.Load()
	}
	return s
}
