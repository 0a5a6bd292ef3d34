package rlmm

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Segment is what is known of one remote segment. It is immutable; an update makes another.
type Segment struct {
	abi.SegmentMetadata
	State format.SegmentState
}

// Partition is the metadata of one partition of one incarnation of a topic.
type Partition struct {
	ID abi.TopicIDPartition

	mu       sync.RWMutex
	segments map[abi.UUID]*Segment
	epochs   map[int32]*epochState
	gone     bool  // the topic is deleted or being deleted
	copiedMs int64 // event timestamp of the newest event that tells of a copy
}

func newPartition(id abi.TopicIDPartition) *Partition {
	return &Partition{ID: id, segments: map[abi.UUID]*Segment{}, epochs: map[int32]*epochState{}}
}

// Lookup finds the finished segment that holds offset in this leader epoch.
func (p *Partition) Lookup(epoch int32, offset int64) (*Segment, bool) {
	return p.find(epoch, offset, (*epochState).lookup)
}

// KafkaLookup is Lookup with Kafka's hole: a segment inside another hides the offsets behind it.
func (p *Partition) KafkaLookup(epoch int32, offset int64) (*Segment, bool) {
	return p.find(epoch, offset, (*epochState).kafkaLookup)
}

func (p *Partition) find(epoch int32, offset int64, in func(*epochState, int64) *Segment) (*Segment, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e, ok := p.epochs[epoch]
	if !ok {
		return nil, false
	}
	s := in(e, offset)
	return s, s != nil
}

// HighestOffset is the highest end offset that ever finished in this epoch; it never falls.
func (p *Partition) HighestOffset(epoch int32) (int64, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	e, ok := p.epochs[epoch]
	if !ok || e.highest < 0 {
		return 0, false
	}
	return e.highest, true
}

// Segments lists what is not yet deleted, by start offset, then by event time.
func (p *Partition) Segments() []*Segment {
	p.mu.RLock()
	defer p.mu.RUnlock()
	out := make([]*Segment, 0, len(p.segments))
	for _, s := range p.segments {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Segment) int {
		return cmp.Or(cmp.Compare(a.StartOffset, b.StartOffset), cmp.Compare(a.EventTimestampMs, b.EventTimestampMs),
			slices.Compare(a.SegmentID[:], b.SegmentID[:]))
	})
	return out
}

// Reachable reports whether a lookup can still give s: it is finished and not superseded in all of its epochs.
func (p *Partition) Reachable(s *Segment) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, e := range s.LeaderEpochs {
		if st := p.epochs[e.Epoch]; st != nil && slices.ContainsFunc(st.spans, func(x span) bool { return x.seg == s }) {
			return true
		}
	}
	return false
}

// Deleted reports that the topic was deleted, or is being deleted.
func (p *Partition) Deleted() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.gone
}

// LastCopyMs is the time of the newest event that tells of a copy, begun or finished, for telling incarnations of a topic
// apart. Deletions do not count: those of a deleted topic go on while the one that took its name is copied.
func (p *Partition) LastCopyMs() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.copiedMs
}

// dropped is an event that changes nothing, and why.
type dropped string

func (d dropped) Error() string { return string(d) }

// apply applies one event: *format.SegmentEvent, *format.SegmentUpdateEvent or *format.PartitionDeleteEvent. A dropped
// error says that Kafka would drop it too.
func (p *Partition) apply(event any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *format.SegmentEvent:
		p.copiedMs = max(p.copiedMs, e.EventTimestampMs)
		return p.addLocked(e)
	case *format.SegmentUpdateEvent:
		if e.State == format.CopySegmentFinished {
			p.copiedMs = max(p.copiedMs, e.EventTimestampMs)
		}
		return p.updateLocked(e)
	case *format.PartitionDeleteEvent:
		p.gone = true
		if e.State == format.DeletePartitionFinished {
			p.segments, p.epochs = map[abi.UUID]*Segment{}, map[int32]*epochState{}
		}
	}
	return nil
}

func (p *Partition) addLocked(e *format.SegmentEvent) error {
	old, known := p.segments[e.SegmentID]
	switch {
	case e.State != format.CopySegmentStarted:
		return dropped(fmt.Sprintf("segment %s is announced in state %s; only COPY_SEGMENT_STARTED can begin one", e.SegmentID, e.State))
	case known && old.State != format.CopySegmentStarted:
		return dropped(fmt.Sprintf("segment %s is announced again in state %s", e.SegmentID, old.State))
	case e.EndOffset < e.StartOffset || e.StartOffset < 0:
		return dropped(fmt.Sprintf("segment %s has the offsets %d to %d", e.SegmentID, e.StartOffset, e.EndOffset))
	case len(e.LeaderEpochs) == 0:
		return dropped(fmt.Sprintf("segment %s names no leader epoch", e.SegmentID))
	}
	p.segments[e.SegmentID] = &Segment{SegmentMetadata: e.SegmentMetadata, State: e.State}
	return nil
}

func (p *Partition) updateLocked(e *format.SegmentUpdateEvent) error {
	old, known := p.segments[e.SegmentID]
	if !known {
		return dropped(fmt.Sprintf("an update to %s of segment %s, which was never announced or is gone", e.State, e.SegmentID))
	}
	if !allowed(old.State, e.State) {
		return dropped(fmt.Sprintf("illegal transition of segment %s from %s to %s", e.SegmentID, old.State, e.State))
	}
	next := *old
	next.State, next.BrokerID, next.EventTimestampMs, next.CustomMetadata = e.State, e.BrokerID, e.EventTimestampMs, e.CustomMetadata
	p.moveLocked(old, &next)
	return nil
}

// allowed are Kafka's transitions. One to the state itself is fine, but for an update to the state that only an
// announcement may give.
func allowed(from, to format.SegmentState) bool {
	switch {
	case to == format.CopySegmentStarted:
		return false
	case from == to:
		return true
	}
	switch from {
	case format.CopySegmentStarted:
		return to == format.CopySegmentFinished || to == format.DeleteSegmentStarted
	case format.CopySegmentFinished:
		return to == format.DeleteSegmentStarted
	case format.DeleteSegmentStarted:
		return to == format.DeleteSegmentFinished
	}
	return false
}

// moveLocked replaces old by next, in the map and in each of its epochs.
func (p *Partition) moveLocked(old, next *Segment) {
	for i, le := range next.LeaderEpochs {
		e := p.epochs[le.Epoch]
		if e == nil {
			e = &epochState{highest: -1}
			p.epochs[le.Epoch] = e
		}
		e.removed(old)
		if next.State == format.CopySegmentFinished {
			e.finished(le.StartOffset, epochEnd(&next.SegmentMetadata, i), next)
		}
	}
	if next.State == format.DeleteSegmentFinished {
		delete(p.segments, next.SegmentID)
		return
	}
	p.segments[next.SegmentID] = next
}

// epochEnd is the last offset, inclusive, of the i-th leader epoch inside the segment.
func epochEnd(s *abi.SegmentMetadata, i int) int64 {
	if i+1 < len(s.LeaderEpochs) {
		return s.LeaderEpochs[i+1].StartOffset - 1
	}
	return s.EndOffset
}
