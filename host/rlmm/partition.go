package rlmm

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/planted"
)

// Partition is the metadata of one partition of one incarnation of a topic.
type Partition struct {
	ID abi.TopicIDPartition

	mu       sync.RWMutex
	segments map[abi.UUID]*record // that are not yet deleted
	order    spans                // the same, by start
	epochs   epochList
	deletion format.PartitionDeleteState // notDeleted where there is none
	copiedMs int64                       // event timestamp of the newest event that tells of a copy
	drops    Drops
	version  int64 // of events that were applied

	deletedTo int64 // one past the last offset of what was finished and then deleted
	tellsTxns bool  // a segment was said to have an empty transaction index

	reach reach
}

const notDeleted format.PartitionDeleteState = -1

func newPartition(id abi.TopicIDPartition) *Partition {
	return &Partition{ID: id, segments: map[abi.UUID]*record{}, deletion: notDeleted}
}

// Lookup finds the finished segment that holds offset in this leader epoch: of several the one that begins nearest to it,
// and of those the one that finished last.
func (p *Partition) Lookup(epoch int32, offset int64) (*Segment, bool) {
	if planted.NestedHole {
		return p.KafkaLookup(epoch, offset)
	}
	return p.find(epoch, offset, (*epochState).lookup)
}

// KafkaLookup is Lookup with Kafka's hole: a segment inside another hides the offsets behind it.
func (p *Partition) KafkaLookup(epoch int32, offset int64) (*Segment, bool) {
	return p.find(epoch, offset, (*epochState).kafkaLookup)
}

// NextWithTxnIndex finds the first finished segment of this leader epoch, at or after offset, that may have a transaction
// index. It costs a lookup, however many without one lie between.
func (p *Partition) NextWithTxnIndex(epoch int32, offset int64) (*Segment, bool) {
	return p.find(epoch, offset, (*epochState).nextTxn)
}

// KafkaNextWithTxnIndex is NextWithTxnIndex over KafkaLookup: it ends at the first offset that this does not find.
func (p *Partition) KafkaNextWithTxnIndex(epoch int32, offset int64) (*Segment, bool) {
	return p.find(epoch, offset, (*epochState).kafkaNextTxn)
}

func (p *Partition) find(epoch int32, offset int64, in func(*epochState, int64) *record) (*Segment, bool) {
	r := p.findRecord(epoch, offset, in)
	if r == nil {
		return nil, false
	}
	return p.segment(r), true
}

func (p *Partition) findRecord(epoch int32, offset int64, in func(*epochState, int64) *record) *record {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.epochs.find(epoch)
	if e == nil {
		return nil
	}
	return in(e, offset)
}

// HighestOffset is the highest end offset that ever finished in this epoch; it never falls.
func (p *Partition) HighestOffset(epoch int32) (int64, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e := p.epochs.find(epoch)
	if e == nil || e.highest < 0 {
		return 0, false
	}
	return e.highest, true
}

// RemoteLogSize is how many bytes the segments with this epoch have that are not yet deleted, each with its whole size, as
// Kafka counts.
func (p *Partition) RemoteLogSize(epoch int32) int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e := p.epochs.find(epoch); e != nil {
		return e.size
	}
	return 0
}

// DeletedTo is one past the highest offset that a finished segment held whose deletion began: how far retention has come,
// before the broker's checkpoint says so. 0: nothing was deleted.
func (p *Partition) DeletedTo() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.deletedTo
}

// Len is how many segments are not yet deleted.
func (p *Partition) Len() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.segments)
}

// Segments lists what is not yet deleted, by start offset, then by event time.
func (p *Partition) Segments() []*Segment {
	out := make([]*Segment, 0, p.Len())
	for s := range p.All() {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.StartOffset, b.StartOffset), cmp.Compare(a.EventTimestampMs, b.EventTimestampMs),
			slices.Compare(a.SegmentID[:], b.SegmentID[:]))
	})
	return out
}

// EpochSegments is Segments of those that have this leader epoch.
func (p *Partition) EpochSegments(epoch int32) []*Segment {
	return slices.DeleteFunc(p.Segments(), func(s *Segment) bool {
		return !slices.ContainsFunc(s.LeaderEpochs, func(e abi.LeaderEpoch) bool { return e.Epoch == epoch })
	})
}

// pageSize is how many segments All takes at a time.
const pageSize = 256

// All goes over what is not yet deleted, by start offset, and holds a few of them at a time. What changes meanwhile may
// be seen or not.
func (p *Partition) All() iter.Seq[*Segment] {
	return func(yield func(*Segment) bool) {
		var page []*record
		for from, more := int64(math.MinInt64), true; more; {
			page, from, more = p.page(page[:0], from)
			for _, r := range page {
				if !yield(p.segment(r)) {
					return
				}
			}
		}
	}
}

// page takes the records that begin at or above from, a page of them, and never a part of those with the same start.
func (p *Partition) page(page []*record, from int64) (_ []*record, next int64, more bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for x := range p.order.at(from) {
		if n := len(page); n >= pageSize && page[n-1].start < x.start {
			return page, x.start, true
		}
		page = append(page, x.rec)
	}
	return page, 0, false
}

// Range is the first and the last offset, inclusive, that a lookup can find in any epoch. It reports false where there is
// none.
func (p *Partition) Range() (first, last int64, ok bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, e := range p.epochs {
		if len(e.finished.chunks) == 0 {
			continue
		}
		f, l := e.finished.starts[0], slices.Max(e.finished.ends)
		if !ok || f < first {
			first = f
		}
		if !ok || l > last {
			last = l
		}
		ok = true
	}
	return first, last, ok
}

// Newest is the finished segment with the highest leader epoch, and of several that which ends last.
func (p *Partition) Newest() (*Segment, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, e := range slices.Backward(p.epochs) {
		f := &e.finished
		if len(f.chunks) == 0 {
			continue
		}
		c := slices.Index(f.ends, slices.Max(f.ends))
		last := slices.MaxFunc(f.chunks[c], func(a, b span) int { return cmp.Compare(a.end, b.end) })
		return p.segment(last.rec), true
	}
	return nil, false
}

// Epochs is where each leader epoch of the finished segments first appears, ascending.
func (p *Partition) Epochs() []abi.LeaderEpoch {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var out []abi.LeaderEpoch
	for _, e := range p.epochs {
		if f := &e.finished; len(f.chunks) > 0 {
			out = append(out, abi.LeaderEpoch{Epoch: e.epoch, StartOffset: f.starts[0]})
		}
	}
	return out
}

// Reachable reports whether a lookup can still give s: it is finished and not superseded in all of its epochs.
func (p *Partition) Reachable(s *Segment) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	r, ok := p.segments[s.SegmentID]
	if !ok {
		return false
	}
	for i := range r.parts() {
		n, x := r.part(i)
		if p.epochs.find(n).finished.has(x.start, r) {
			return true
		}
	}
	return false
}

// Deleted reports that the topic was deleted, or is being deleted.
func (p *Partition) Deleted() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.deletion != notDeleted
}

// LastCopyMs is the time of the newest event that tells of a copy, begun or finished, for telling incarnations of a topic
// apart. Deletions do not count: those of a deleted topic go on while the one that took its name is copied.
func (p *Partition) LastCopyMs() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.copiedMs
}

// Dropped tells of the events that were dropped.
func (p *Partition) Dropped() Drops {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return Drops{p.drops.Count, slices.Clone(p.drops.First)}
}
