package rlmm

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

var tp = abi.TopicIDPartition{Topic: "t", TopicID: kafkabytes.ID(200), Partition: 3}

// announce is the event that begins segment n, of these offsets and (epoch, start) pairs; without pairs it is epoch 0.
func announce(n byte, start, end int64, pairs ...int64) *format.SegmentEvent {
	if len(pairs) == 0 {
		pairs = []int64{0, start}
	}
	m := abi.SegmentMetadata{TopicIDPartition: tp, SegmentID: kafkabytes.ID(n), StartOffset: start, EndOffset: end, SizeBytes: 1,
		EventTimestampMs: int64(n), MaxTimestampMs: -1}
	for i := 0; i < len(pairs); i += 2 {
		m.LeaderEpochs = append(m.LeaderEpochs, abi.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return &format.SegmentEvent{SegmentMetadata: m, State: format.CopySegmentStarted}
}

func move(n byte, to format.SegmentState) *format.SegmentUpdateEvent {
	return &format.SegmentUpdateEvent{TopicIDPartition: tp, SegmentID: kafkabytes.ID(n), EventTimestampMs: 1000 + int64(n), State: to}
}

// partition applies events, none of which may be refused.
func partition(t testing.TB, events ...any) *Partition {
	t.Helper()
	p := newPartition(tp)
	apply(t, p, events...)
	return p
}

func apply(t testing.TB, p *Partition, events ...any) {
	t.Helper()
	for _, e := range events {
		if err := p.apply(e); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
	}
}

// copied is a segment of epoch 0 that was copied.
func copied(n byte, start, end int64, pairs ...int64) []any {
	return []any{announce(n, start, end, pairs...), move(n, format.CopySegmentFinished)}
}

// at says which segments lookups find: "50:2 101:1 201:-".
func at(p *Partition, lookup func(int32, int64) (*Segment, bool), epoch int32, offsets ...int64) string {
	var out []string
	for _, o := range offsets {
		found := "-"
		if s, ok := lookup(epoch, o); ok {
			found = fmt.Sprint(s.SegmentID[15])
		}
		out = append(out, fmt.Sprintf("%d:%s", o, found))
	}
	return fmt.Sprint(out)
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// reachable lists the segments that a lookup can give.
func reachable(p *Partition) string {
	var out []byte
	for _, s := range p.Segments() {
		if p.Reachable(s) {
			out = append(out, s.SegmentID[15])
		}
	}
	return fmt.Sprint(out)
}

func listed(p *Partition) string {
	var out []byte
	for _, s := range p.Segments() {
		out = append(out, s.SegmentID[15])
	}
	return fmt.Sprint(out)
}

func all(parts ...[]any) []any { return slices.Concat(parts...) }

// TestLeaderEpochState is spec 10.7, L1 to L10.
func TestLeaderEpochState(t *testing.T) {
	p := partition(t)
	want(t, "L1 listing", listed(p), "[]")

	p = partition(t, all([]any{announce(1, 0, 4)}, copied(2, 5, 10), copied(3, 11, 100), copied(4, 9, 150))...)
	want(t, "L3 listing by start", listed(p), "[1 2 4 3]")

	p = partition(t, all(copied(1, 10, 100), copied(2, 101, 200))...)
	want(t, "L4", at(p, p.Lookup, 0, 9, 10, 90, 100, 101, 150, 200, 201), "[9:- 10:1 90:1 100:1 101:2 150:2 200:2 201:-]")
	wantHighest(t, "L4", p, 0, 200)

	p = partition(t, all(copied(1, 10, 100), copied(2, 5, 150))...)
	want(t, "L5", at(p, p.Lookup, 0, 4, 5, 11, 150), "[4:- 5:2 11:2 150:2]")
	want(t, "L5 reachable", reachable(p), "[2]")
	want(t, "L5 listing", listed(p), "[2 1]")
	wantHighest(t, "L5", p, 0, 150)

	p = partition(t, all(copied(1, 10, 100), copied(2, 5, 150), copied(3, 148, 155), copied(4, 4, 200))...)
	want(t, "L6 reachable", reachable(p), "[4]")
	wantHighest(t, "L6", p, 0, 200)

	p = partition(t, all(copied(1, 10, 100), copied(2, 10, 100))...)
	want(t, "L7", at(p, p.Lookup, 0, 50), "[50:2]")
	want(t, "L7 reachable", reachable(p), "[2]")

	p = partition(t, all(copied(1, 10, 100), copied(2, 10, 150))...)
	want(t, "L8", at(p, p.Lookup, 0, 50, 111), "[50:2 111:2]")
	wantHighest(t, "L8", p, 0, 150)

	apply(t, p, move(1, format.DeleteSegmentStarted), move(2, format.DeleteSegmentStarted))
	want(t, "L9", at(p, p.Lookup, 0, 50, 111), "[50:- 111:-]")
	want(t, "L9 reachable", reachable(p), "[]")
	want(t, "L9 listing", listed(p), "[1 2]")
	apply(t, p, move(1, format.DeleteSegmentFinished), move(2, format.DeleteSegmentFinished))
	want(t, "L10 listing", listed(p), "[]")
	wantHighest(t, "L10", p, 0, 150)
}

func wantHighest(t *testing.T, what string, p *Partition, epoch int32, offset int64) {
	t.Helper()
	got, ok := p.HighestOffset(epoch)
	if !ok {
		got = -1
	}
	if got != offset {
		t.Errorf("%s: highest offset of epoch %d is %d, want %d", what, epoch, got, offset)
	}
}

// TestDefects is spec 5.4: what Kafka loses, KafkaLookup loses, and Lookup finds.
func TestDefects(t *testing.T) {
	p := partition(t, all(copied(1, 10, 200), copied(2, 50, 100))...)
	offsets := []int64{10, 49, 50, 100, 101, 150, 200, 201}
	want(t, "nested, Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:1 49:1 50:2 100:2 101:- 150:- 200:- 201:-]")
	want(t, "nested", at(p, p.Lookup, 0, offsets...), "[10:1 49:1 50:2 100:2 101:1 150:1 200:1 201:-]")
	wantHighest(t, "nested", p, 0, 200)

	p = partition(t, all(copied(1, 10, 150), copied(2, 10, 100))...)
	offsets = []int64{10, 100, 101, 150, 151}
	want(t, "same start, Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:2 100:2 101:- 150:- 151:-]")
	want(t, "same start", at(p, p.Lookup, 0, offsets...), "[10:2 100:2 101:1 150:1 151:-]")
	apply(t, p, move(2, format.DeleteSegmentStarted))
	want(t, "same start, deleted, Kafka", at(p, p.KafkaLookup, 0, offsets...), "[10:- 100:- 101:- 150:- 151:-]")
	want(t, "same start, deleted", at(p, p.Lookup, 0, offsets...), "[10:1 100:1 101:1 150:1 151:-]")

	p = partition(t, all(copied(1, 0, 300), copied(2, 50, 100), copied(3, 60, 80))...)
	want(t, "nested twice", at(p, p.Lookup, 0, 59, 70, 90, 101), "[59:2 70:3 90:2 101:1]")
}

// TestTransitions is spec 10.7, C1 to C3, and every transition of the table in 5.2.
func TestTransitions(t *testing.T) {
	for s := format.CopySegmentFinished; s <= format.DeleteSegmentFinished; s++ {
		e := announce(1, 0, 9)
		e.State = s
		p := partition(t)
		if p.apply(e) == nil || listed(p) != "[]" {
			t.Errorf("C1: a segment was announced in state %v", s)
		}
	}
	p := partition(t)
	if p.apply(move(9, format.CopySegmentFinished)) == nil || listed(p) != "[]" {
		t.Error("C2: a segment that nobody announced was updated")
	}

	p = partition(t, announce(1, 0, 9))
	for i, step := range []struct {
		to format.SegmentState
		ok bool
	}{{3, false}, {1, true}, {3, false}, {0, false}, {2, true}, {1, false}, {0, false}, {3, true}} {
		if err := p.apply(move(1, step.to)); (err == nil) != step.ok {
			t.Fatalf("C3, step %d to %v: %v", i, step.to, err)
		}
	}
	want(t, "C3 listing", listed(p), "[]")

	paths := map[format.SegmentState][]format.SegmentState{0: {}, 1: {1}, 2: {1, 2}}
	legal := map[[2]format.SegmentState]bool{{0, 1}: true, {0, 2}: true, {1, 1}: true, {1, 2}: true, {2, 2}: true, {2, 3}: true}
	for from, path := range paths {
		for to := format.CopySegmentStarted; to <= format.DeleteSegmentFinished; to++ {
			p := partition(t, announce(1, 0, 9))
			for _, s := range path {
				apply(t, p, move(1, s))
			}
			if err := p.apply(move(1, to)); (err == nil) != legal[[2]format.SegmentState{from, to}] {
				t.Errorf("an update from %v to %v: %v", from, to, err)
			}
		}
	}
}

// TestAnnouncedAgain: a second announcement counts while the copy runs, and not after it.
func TestAnnouncedAgain(t *testing.T) {
	p := partition(t, announce(1, 0, 9), announce(1, 0, 19), move(1, format.CopySegmentFinished))
	want(t, "announced twice", at(p, p.Lookup, 0, 15), "[15:1]")
	if p.apply(announce(1, 0, 5)) == nil {
		t.Error("a finished segment was announced again")
	}
	want(t, "after it", at(p, p.Lookup, 0, 15), "[15:1]")
	bad := announce(2, 9, 5)
	if p.apply(bad) == nil {
		t.Error("a segment that ends before it begins was taken")
	}
	none := announce(3, 0, 5)
	none.LeaderEpochs = nil
	if p.apply(none) == nil {
		t.Error("a segment of no leader epoch was taken")
	}
}

// lifecycle is the four segments of spec 10.7's RemoteLogSegmentLifecycleTest.
func lifecycle() []any {
	return all(copied(10, 0, 100, 0, 0, 1, 20, 2, 80), copied(11, 101, 200, 2, 101), copied(12, 201, 300, 2, 201, 3, 240),
		copied(13, 250, 400, 3, 250, 4, 370))
}

func TestLifecycle(t *testing.T) {
	started := partition(t, lifecycle()[0])
	want(t, "while it is copied", at(started, started.Lookup, 1, 40), "[40:-]")
	for e := range int32(3) {
		wantHighest(t, "while it is copied", started, e, -1)
	}
	p := partition(t, lifecycle()...)
	check := func(what string) {
		t.Helper()
		for e, h := range []int64{19, 79, 239, 369, 400, -1} {
			wantHighest(t, what, p, int32(e), h)
		}
	}
	for _, tt := range []struct {
		epoch  int32
		offset int64
		want   string
	}{{1, 40, "[40:10]"}, {2, 110, "[110:11]"}, {3, 240, "[240:12]"}, {3, 250, "[250:13]"}, {4, 375, "[375:13]"},
		{1, 110, "[110:-]"}, {4, 401, "[401:-]"}, {5, 301, "[301:-]"}} {
		want(t, fmt.Sprintf("epoch %d", tt.epoch), at(p, p.Lookup, tt.epoch, tt.offset), tt.want)
		want(t, fmt.Sprintf("epoch %d, Kafka", tt.epoch), at(p, p.KafkaLookup, tt.epoch, tt.offset), tt.want)
	}
	check("finished")
	apply(t, p, move(10, format.DeleteSegmentStarted))
	want(t, "being deleted", at(p, p.Lookup, 0, 10), "[10:-]")
	want(t, "being deleted, listed", listed(p), "[10 11 12 13]")
	check("being deleted")
	apply(t, p, move(10, format.DeleteSegmentFinished))
	want(t, "deleted, listed", listed(p), "[11 12 13]")
	check("deleted")
}

// TestUpdateReplaces: an update takes broker, time, state and custom metadata with it, also "none".
func TestUpdateReplaces(t *testing.T) {
	e := announce(1, 0, 9)
	e.CustomMetadata, e.BrokerID = []byte("old"), 1
	p := partition(t, e)
	apply(t, p, &format.SegmentUpdateEvent{TopicIDPartition: tp, SegmentID: e.SegmentID, BrokerID: 7, EventTimestampMs: 99,
		CustomMetadata: []byte("new"), State: format.CopySegmentFinished})
	s, _ := p.Lookup(0, 5)
	if s.BrokerID != 7 || s.EventTimestampMs != 99 || string(s.CustomMetadata) != "new" || s.EndOffset != 9 {
		t.Errorf("after the update: %+v", s)
	}
	apply(t, p, move(1, format.DeleteSegmentStarted))
	if s := p.Segments()[0]; s.CustomMetadata != nil || s.State != format.DeleteSegmentStarted {
		t.Errorf("after the second: %+v", s)
	}
}

func TestPartitionDelete(t *testing.T) {
	p := partition(t, copied(1, 0, 9)...)
	before := p.LastCopyMs()
	for s := format.DeletePartitionMarked; s <= format.DeletePartitionFinished; s++ {
		want(t, "before "+s.String(), listed(p), "[1]")
		apply(t, p, &format.PartitionDeleteEvent{TopicIDPartition: tp, EventTimestampMs: 1 << 40, State: s})
		if !p.Deleted() {
			t.Errorf("%v: not deleted", s)
		}
	}
	want(t, "after it", listed(p), "[]")
	want(t, "lookups", at(p, p.Lookup, 0, 5), "[5:-]")
	if p.LastCopyMs() != before {
		t.Error("a deletion counts as a copy")
	}
}

// TestLookupDuringSwap: while overlapping segments supersede each other, a lookup never finds nothing (spec 5.4, 3).
func TestLookupDuringSwap(t *testing.T) {
	p := partition(t, copied(0, 10, 100)...)
	var done atomic.Bool
	hammer.Run(t, 4, 1, func(g, _ int) {
		if g == 0 {
			for n := byte(1); n < 250; n++ {
				apply(t, p, copied(n, int64(10-n%2), 100+int64(n))...)
			}
			done.Store(true)
			return
		}
		for !done.Load() {
			if _, ok := p.Lookup(0, 50); !ok {
				t.Error("a lookup found nothing during a swap")
				return
			}
		}
	})
}
