package host

import (
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/epoch"
)

// What a server tells its clients beside what it answers fetches with.

// NodeID is the broker's: that of the first log directory that tells one, else 1.
func (h *Host) NodeID() int32 { return h.nodeID }

// ClusterID is that of the first log directory that tells one; empty: none does.
func (h *Host) ClusterID() string {
	h.looking.Lock()
	defer h.looking.Unlock()
	for _, d := range h.dirs {
		if d.ClusterID != "" {
			return d.ClusterID
		}
	}
	return ""
}

// Memory is the budget that reads and caches take from, for who serves the Host: what it keeps itself counts there.
func (h *Host) Memory() *budget.Pool { return h.memory }

// OnMemoryShortage has shed called when a fetch has to wait for n bytes of memory, by the goroutine that waits: what holds
// the records of answers that nobody takes lets go of them. It can't be taken back.
func (h *Host) OnMemoryShortage(shed func(n int64)) { h.memory.OnShortage(shed) }

// MemoryWanted is the bytes of memory that fetches wait for now.
func (h *Host) MemoryWanted() int64 { return h.memory.Wanted() }

// Changed gives a channel that is closed when a look finds something new: data, partitions, or that some are gone. Who
// waits for data takes the channel, reads, and then waits.
func (h *Host) Changed() <-chan struct{} { return h.catalog.wait() }

// Incarnation finds a topic by its id alone.
func (h *Host) Incarnation(id abi.UUID) (*Topic, bool) {
	t, ok := h.catalog.Load().byID[id]
	return t, ok
}

// Named finds the topic that a name means.
func (h *Host) Named(name string) (*Topic, bool) {
	t, ok := h.catalog.Load().topics[name]
	return t, ok
}

// KnownLeaderEpoch is the partition's current leader epoch as far as it is known without asking the store; else -1, which
// clients take for a broker that tells none.
func (p *TopicPartition) KnownLeaderEpoch() int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return epoch.Undefined
	}
	return p.lineage.Latest()
}

// LatestLeaderEpoch is the highest leader epoch that the partition's lineage can have, by what is known without asking the store;
// -1: none is.
func (p *TopicPartition) LatestLeaderEpoch() int32 {
	if e := p.KnownLeaderEpoch(); e != epoch.Undefined || p.Remote == nil {
		return e
	}
	if newest, ok := p.Remote.Newest(); ok {
		return lastEpoch(newest)
	}
	return epoch.Undefined
}

// LogDir is a log directory and the partitions that lie in it.
type LogDir struct {
	Path       string
	Partitions []LogDirPartition
}

// LogDirPartition is a partition in a log directory.
type LogDirPartition struct {
	Topic     string
	Partition int32
	Bytes     int64
}

// LogDirs lists the local tier, by topic and partition.
func (h *Host) LogDirs() []LogDir {
	h.looking.Lock()
	dirs := slices.Clone(h.dirs)
	h.looking.Unlock()
	var out []LogDir
	for _, d := range dirs {
		one := LogDir{Path: d.Path}
		for _, l := range d.Logs() {
			var bytes int64
			for _, s := range l.Segments() {
				bytes += s.Size
			}
			one.Partitions = append(one.Partitions, LogDirPartition{l.ID.Topic, l.ID.Partition, bytes})
		}
		out = append(out, one)
	}
	return out
}
