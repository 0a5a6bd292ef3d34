package rlmm

import (
	"fmt"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// dropped is an event that changes nothing, and why.
type dropped string

func (d dropped) Error() string { return string(d) }

func drop(format string, args ...any) error { return dropped(fmt.Sprintf(format, args...)) }

// maxDrops bounds how many dropped events a partition remembers; more are counted.
const maxDrops = 4

// Drops are the events of a partition that changed nothing, since its state does not allow them.
type Drops struct {
	Count int
	First []string // what was wrong with the first few
}

// apply applies one event: *format.SegmentEvent, *format.SegmentUpdateEvent or *format.PartitionDeleteEvent. A dropped
// error says that Kafka would drop it too.
func (p *Partition) apply(event any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	var err error
	switch e := event.(type) {
	case *format.SegmentEvent:
		p.copiedMs = max(p.copiedMs, e.EventTimestampMs)
		err = p.addLocked(e)
	case *format.SegmentUpdateEvent:
		if e.State == format.CopySegmentFinished {
			p.copiedMs = max(p.copiedMs, e.EventTimestampMs)
		}
		err = p.updateLocked(e)
	case *format.PartitionDeleteEvent:
		err = p.deleteLocked(e.State)
	}
	if err != nil {
		p.drops.Count++
		if len(p.drops.First) < maxDrops {
			p.drops.First = append(p.drops.First, err.Error())
		}
	}
	return err
}

func (p *Partition) addLocked(e *format.SegmentEvent) error {
	old, known := p.segments[e.SegmentID]
	switch {
	case e.State != format.CopySegmentStarted:
		return drop("segment %s is announced in state %s; only COPY_SEGMENT_STARTED can begin one", e.SegmentID, e.State)
	case known && old.state != format.CopySegmentStarted:
		return drop("segment %s is announced again in state %s", e.SegmentID, old.state)
	case e.EndOffset < e.StartOffset || e.StartOffset < 0:
		return drop("segment %s has the offsets %d to %d", e.SegmentID, e.StartOffset, e.EndOffset)
	case len(e.LeaderEpochs) == 0:
		return drop("segment %s names no leader epoch", e.SegmentID)
	}
	if known {
		p.dropLocked(old)
	}
	p.putLocked(newRecord(&e.SegmentMetadata, e.State))
	return nil
}

func (p *Partition) updateLocked(e *format.SegmentUpdateEvent) error {
	old, known := p.segments[e.SegmentID]
	if !known {
		return drop("an update to %s of segment %s, which was never announced or is gone", e.State, e.SegmentID)
	}
	if !allowed(old.state, e.State) {
		return drop("illegal transition of segment %s from %s to %s", e.SegmentID, old.state, e.State)
	}
	p.dropLocked(old)
	if old.state == format.CopySegmentFinished && e.State == format.DeleteSegmentStarted {
		p.deletedTo = max(p.deletedTo, old.end+1)
	}
	if e.State != format.DeleteSegmentFinished {
		p.putLocked(old.updated(e))
	}
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

// putLocked takes a record into the lists that its state has a place in.
func (p *Partition) putLocked(r *record) {
	p.segments[r.id] = r
	p.tellsTxns = p.tellsTxns || r.txnEmpty
	p.order.insert(r.whole())
	for i := range r.parts() {
		n, x := r.part(i)
		e := p.epochs.of(n)
		e.size += r.size
		if r.state == format.CopySegmentFinished {
			e.finish(x)
		}
	}
}

// dropLocked takes a record out of every list.
func (p *Partition) dropLocked(r *record) {
	delete(p.segments, r.id)
	p.order.remove(r.start, r)
	for i := range r.parts() {
		n, x := r.part(i)
		e := p.epochs.find(n)
		e.size -= r.size
		if r.state == format.CopySegmentFinished {
			e.remove(x)
		}
	}
}

// deleteLocked follows the deletion of the topic, a step at a time; the last forgets all segments.
func (p *Partition) deleteLocked(to format.PartitionDeleteState) error {
	if to != p.deletion && to != p.deletion+1 {
		from := "no deletion"
		if p.deletion != notDeleted {
			from = p.deletion.String()
		}
		return drop("illegal transition of the partition from %s to %s", from, to)
	}
	p.deletion = to
	if to == format.DeletePartitionFinished {
		p.segments, p.order, p.epochs = map[abi.UUID]*record{}, spans{}, nil
	}
	return nil
}
