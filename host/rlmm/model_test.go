package rlmm

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// part is what a finished segment holds of one epoch.
type part struct {
	start, end int64
	seg        *Segment
}

// model is the state machine written down as the spec has it, slow and obvious.
type model struct {
	segs    map[abi.UUID]*Segment
	kafka   map[int32]map[int64]part // spec 5.4: one segment a start
	better  map[int32][]part         // the same rule of superseding, and nothing is overwritten
	highest map[int32]int64
	gone    format.PartitionDeleteState
	drops   int
}

func newModel() *model {
	return &model{map[abi.UUID]*Segment{}, map[int32]map[int64]part{}, map[int32][]part{}, map[int32]int64{}, notDeleted, 0}
}

func (m *model) apply(event any) bool {
	ok := m.take(event)
	if !ok {
		m.drops++
	}
	return ok
}

func (m *model) take(event any) bool {
	switch e := event.(type) {
	case *format.SegmentEvent:
		if old := m.segs[e.SegmentID]; old != nil && old.State != format.CopySegmentStarted {
			return false
		}
		m.segs[e.SegmentID] = &Segment{e.SegmentMetadata, e.State}
		return true
	case *format.SegmentUpdateEvent:
		s := m.segs[e.SegmentID]
		if s == nil || !slices.Contains([][2]format.SegmentState{{0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}, {2, 3}},
			[2]format.SegmentState{s.State, e.State}) {
			return false
		}
		s.State, s.BrokerID, s.EventTimestampMs, s.CustomMetadata = e.State, e.BrokerID, e.EventTimestampMs, e.CustomMetadata
		m.moved(s)
		return true
	case *format.PartitionDeleteEvent:
		if e.State != m.gone && e.State != m.gone+1 {
			return false
		}
		if m.gone = e.State; m.gone == format.DeletePartitionFinished {
			drops := m.drops
			*m = *newModel()
			m.gone, m.drops = e.State, drops
		}
		return true
	}
	return false
}

func (m *model) moved(s *Segment) {
	for i, le := range s.LeaderEpochs {
		x := part{start: le.StartOffset, end: s.EndOffset, seg: s}
		if i+1 < len(s.LeaderEpochs) {
			x.end = s.LeaderEpochs[i+1].StartOffset - 1
		}
		m.remove(le.Epoch, x)
		if s.State == format.CopySegmentFinished {
			m.finish(le.Epoch, x)
		}
	}
	if s.State == format.DeleteSegmentFinished {
		delete(m.segs, s.SegmentID)
	}
}

func (m *model) remove(epoch int32, x part) {
	if m.kafka[epoch][x.start].seg == x.seg {
		delete(m.kafka[epoch], x.start)
	}
	m.better[epoch] = slices.DeleteFunc(m.better[epoch], func(o part) bool { return o.seg == x.seg })
}

func (m *model) finish(epoch int32, x part) {
	if m.kafka[epoch] == nil {
		m.kafka[epoch], m.highest[epoch] = map[int64]part{}, -1
	}
	if m.highest[epoch] <= x.end {
		for start := range m.kafka[epoch] {
			if start >= x.start {
				delete(m.kafka[epoch], start)
			}
		}
		m.better[epoch] = slices.DeleteFunc(m.better[epoch], func(o part) bool { return o.start >= x.start })
	}
	m.kafka[epoch][x.start] = x
	m.better[epoch] = append(m.better[epoch], x)
	m.highest[epoch] = max(m.highest[epoch], x.end)
}

func (m *model) kafkaLookup(epoch int32, offset int64) abi.UUID {
	best := part{start: -1}
	for start, x := range m.kafka[epoch] {
		if start <= offset && start > best.start {
			best = x
		}
	}
	if best.start < 0 || best.end < offset {
		return abi.UUID{}
	}
	return best.seg.SegmentID
}

// lookup is the nearest begin among those that hold the offset, and of equal ones the last that finished.
func (m *model) lookup(epoch int32, offset int64) abi.UUID {
	best := part{start: -1}
	for _, x := range m.better[epoch] {
		if x.start <= offset && offset <= x.end && x.start >= best.start {
			best = x
		}
	}
	if best.start < 0 {
		return abi.UUID{}
	}
	return best.seg.SegmentID
}

// nextTxn is the first offset at or behind offset whose nearest segment, of those with an index, there is.
func (m *model) nextTxn(epoch int32, offset int64) abi.UUID {
	for ; offset < 100; offset++ {
		best := part{start: -1}
		for _, x := range m.better[epoch] {
			if !x.seg.TxnIndexEmpty && x.start <= offset && offset <= x.end && x.start >= best.start {
				best = x
			}
		}
		if best.start >= 0 {
			return best.seg.SegmentID
		}
	}
	return abi.UUID{}
}

func (m *model) kafkaNextTxn(epoch int32, offset int64) abi.UUID {
	for {
		id := m.kafkaLookup(epoch, offset)
		if id == (abi.UUID{}) || !m.segs[id].TxnIndexEmpty {
			return id
		}
		offset = m.segs[id].EndOffset + 1
	}
}

func (m *model) reachable(id abi.UUID) bool {
	for _, parts := range m.better {
		if slices.ContainsFunc(parts, func(x part) bool { return x.seg.SegmentID == id }) {
			return true
		}
	}
	return false
}

// size is the bytes of the epoch's segments, and their number.
func (m *model) size(epoch int32) (bytes int64, n int) {
	for _, s := range m.segs {
		if slices.ContainsFunc(s.LeaderEpochs, func(le abi.LeaderEpoch) bool { return le.Epoch == epoch }) {
			bytes, n = bytes+s.SizeBytes, n+1
		}
	}
	return bytes, n
}

// events reads events from bytes: four a piece.
func events(b []byte) []any {
	var out []any
	for ; len(b) >= 4; b = b[4:] {
		n := b[0]%8 + 1
		switch {
		case b[0] == 127:
			out = append(out, deletion(format.PartitionDeleteState(b[1]%3)))
		case b[0] < 128:
			e := move(n, format.SegmentState(b[1]%4))
			if e.BrokerID = int32(b[2]); b[2]%2 == 1 {
				e.CustomMetadata = []byte{b[3]}
			}
			out = append(out, e)
		default:
			out = append(out, announced(n, b[0], b[1:4]))
		}
	}
	return out
}

// announced is a segment of up to three leader epochs, with the second and third where the bits say.
func announced(n, kind byte, b []byte) any {
	start := int64(b[0] % 48)
	end := start + int64(b[1]%32)
	pairs := []int64{int64(b[2] % 3), start}
	if mid := start + int64(b[2]/32); b[2]%2 == 1 && mid > start && mid <= end {
		pairs = append(pairs, int64(b[2]%3)+1, mid)
		if kind%16 >= 8 && mid < end {
			pairs = append(pairs, int64(b[2]%3)+2, end)
		}
	}
	e := announce(n, start, end, pairs...)
	e.TxnIndexEmpty, e.SizeBytes = kind%32 >= 16, 1+int64(b[1])
	return e
}

func FuzzStateMachine(f *testing.F) {
	f.Add([]byte{128, 10, 15, 0, 0, 1, 0, 0, 129, 12, 5, 0, 1, 1, 0, 0, 1, 2, 0, 0, 1, 3, 0, 0})                                                // nested, then deleted
	f.Add([]byte{128, 10, 15, 0, 0, 1, 0, 0, 129, 10, 5, 0, 1, 1, 0, 0, 1, 2, 0, 0})                                                            // same start
	f.Add([]byte{128, 0, 9, 65, 0, 1, 0, 0, 129, 5, 15, 65, 1, 1, 0, 0, 0, 1, 0, 0})                                                            // finished again
	f.Add([]byte{136, 0, 30, 65, 0, 1, 1, 7, 153, 5, 15, 65, 1, 1, 3, 9, 127, 0, 0, 0, 127, 1, 0, 0, 127, 2, 0, 0, 136, 0, 30, 65, 0, 1, 0, 0}) // three epochs, then the topic is deleted
	f.Fuzz(func(t *testing.T, b []byte) {
		p, m := newPartition(tp), newModel()
		for i, e := range events(b[:min(len(b), 400)]) {
			if got, want := p.apply(e) == nil, m.apply(e); got != want {
				t.Fatalf("event %d, %+v: taken %v, want %v", i, e, got, want)
			}
		}
		compare(t, p, m)
	})
}

func compare(t *testing.T, p *Partition, m *model) {
	t.Helper()
	for epoch := range int32(5) {
		high, ok := p.HighestOffset(epoch)
		if want, known := m.highest[epoch]; ok != known || ok && high != want {
			t.Errorf("epoch %d: highest %d, %v, want %d, %v", epoch, high, ok, want, known)
		}
		size, n := m.size(epoch)
		if p.RemoteLogSize(epoch) != size || len(p.EpochSegments(epoch)) != n {
			t.Errorf("epoch %d: %d bytes in %d segments, want %d in %d", epoch, p.RemoteLogSize(epoch), len(p.EpochSegments(epoch)), size, n)
		}
		for offset := range int64(90) {
			if got, want := found(p.NextWithTxnIndex(epoch, offset)), m.nextTxn(epoch, offset); got != want {
				t.Errorf("epoch %d, offset %d, next: %v, want %v", epoch, offset, got, want)
			}
			if got, want := found(p.KafkaNextWithTxnIndex(epoch, offset)), m.kafkaNextTxn(epoch, offset); got != want {
				t.Errorf("epoch %d, offset %d, next as Kafka: %v, want %v", epoch, offset, got, want)
			}
			better, kafka := m.lookup(epoch, offset), m.kafkaLookup(epoch, offset)
			if got := found(p.Lookup(epoch, offset)); got != better {
				t.Errorf("epoch %d, offset %d: %v, want %v", epoch, offset, got, better)
			}
			if got := found(p.KafkaLookup(epoch, offset)); got != kafka {
				t.Errorf("epoch %d, offset %d, as Kafka: %v, want %v", epoch, offset, got, kafka)
			}
			if kafka != (abi.UUID{}) && better == (abi.UUID{}) {
				t.Errorf("epoch %d, offset %d: Kafka finds %v, Lookup nothing", epoch, offset, kafka)
			}
		}
	}
	if len(p.Segments()) != len(m.segs) {
		t.Errorf("%d segments, want %d", len(p.Segments()), len(m.segs))
	}
	for _, s := range p.Segments() {
		if w := m.segs[s.SegmentID]; w == nil || !reflect.DeepEqual(w, s) || p.Reachable(s) != m.reachable(s.SegmentID) {
			t.Errorf("%+v, reachable %v, want %+v", s, p.Reachable(s), w)
		}
	}
	if d := p.Dropped(); d.Count != m.drops || p.Deleted() != (m.gone != notDeleted) {
		t.Errorf("%d dropped, deleted %v, want %d, %v", d.Count, p.Deleted(), m.drops, m.gone)
	}
}

func found(s *Segment, ok bool) abi.UUID {
	if !ok {
		return abi.UUID{}
	}
	if s.State != format.CopySegmentFinished {
		return kafkabytes.ID(255) // must never be found
	}
	return s.SegmentID
}
