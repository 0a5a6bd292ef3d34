package rlmm

import (
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
}

func newModel() *model {
	return &model{map[abi.UUID]*Segment{}, map[int32]map[int64]part{}, map[int32][]part{}, map[int32]int64{}}
}

func (m *model) apply(event any) bool {
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
		s.State = e.State
		m.moved(s)
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

// events reads events from bytes: four a piece.
func events(b []byte) []any {
	var out []any
	for ; len(b) >= 4; b = b[4:] {
		n := b[0]%8 + 1
		if b[0] < 128 {
			out = append(out, move(n, format.SegmentState(b[1]%4)))
			continue
		}
		start := int64(b[1] % 48)
		end := start + int64(b[2]%16)
		pairs := []int64{int64(b[3] % 3), start}
		if mid := start + int64(b[3]/32); b[3]%2 == 1 && mid > start && mid <= end {
			pairs = append(pairs, int64(b[3]%3)+1, mid)
		}
		out = append(out, announce(n, start, end, pairs...))
	}
	return out
}

func FuzzStateMachine(f *testing.F) {
	f.Add([]byte{128, 10, 15, 0, 0, 1, 0, 0, 129, 12, 5, 0, 1, 1, 0, 0, 1, 2, 0, 0, 1, 3, 0, 0}) // nested, then deleted
	f.Add([]byte{128, 10, 15, 0, 0, 1, 0, 0, 129, 10, 5, 0, 1, 1, 0, 0, 1, 2, 0, 0})             // same start
	f.Add([]byte{128, 0, 9, 65, 0, 1, 0, 0, 129, 5, 15, 65, 1, 1, 0, 0, 0, 1, 0, 0})             // finished again
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
		for offset := range int64(70) {
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
		if w := m.segs[s.SegmentID]; w == nil || w.State != s.State {
			t.Errorf("%v in state %v, want %v", s.SegmentID, s.State, w)
		}
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
