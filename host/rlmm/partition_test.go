package rlmm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
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

func listed(p *Partition) string { return numbers(p.Segments()) }

func numbers(segs []*Segment) string {
	var out []byte
	for _, s := range segs {
		out = append(out, s.SegmentID[15])
	}
	return fmt.Sprint(out)
}

func all(parts ...[]any) []any { return slices.Concat(parts...) }

// The tests L1 to L10 are the cases of Kafka's RemoteLogLeaderEpochStateTest (spec 10.7); "referenced" there is what
// lookups reach.

func TestL1Empty(t *testing.T) {
	p := partition(t)
	want(t, "listing", listed(p), "[]")
	want(t, "of an epoch", fmt.Sprint(len(p.EpochSegments(0))), "0")
}

// TestL2IDWithoutMetadata: Kafka keeps ids beside the metadata, and fails where they disagree; here a list can't name
// what is not there: the lists hold the segments themselves.
func TestL2IDWithoutMetadata(t *testing.T) {
	p := partition(t, copied(1, 5, 10)...)
	apply(t, p, move(1, format.DeleteSegmentStarted), move(1, format.DeleteSegmentFinished))
	want(t, "listing", listed(p), "[]")
	want(t, "reachable", fmt.Sprint(p.Reachable(&Segment{SegmentMetadata: announce(1, 5, 10).SegmentMetadata})), "false")
}

func TestL3ListingByStart(t *testing.T) {
	p := partition(t, all([]any{announce(1, 0, 4)}, copied(2, 5, 10), copied(3, 11, 100), copied(4, 9, 150))...)
	want(t, "listing", listed(p), "[1 2 4 3]")
	want(t, "of the epoch", fmt.Sprint(len(p.EpochSegments(0))), "4")
}

func TestL4Consecutive(t *testing.T) {
	p := partition(t, all(copied(1, 10, 100), copied(2, 101, 200))...)
	want(t, "lookup", at(p, p.Lookup, 0, 9, 10, 90, 100, 101, 150, 200, 201), "[9:- 10:1 90:1 100:1 101:2 150:2 200:2 201:-]")
	want(t, "reachable", reachable(p), "[1 2]")
	wantHighest(t, "both", p, 0, 200)
}

func TestL5Superseded(t *testing.T) {
	p := partition(t, all(copied(1, 10, 100), copied(2, 5, 150))...)
	want(t, "lookup", at(p, p.Lookup, 0, 4, 5, 11, 150), "[4:- 5:2 11:2 150:2]")
	want(t, "reachable", reachable(p), "[2]")
	want(t, "listing", listed(p), "[2 1]")
	wantHighest(t, "both", p, 0, 150)
}

func TestL6SupersededByTheLast(t *testing.T) {
	p := partition(t, all(copied(1, 10, 100), copied(2, 5, 150), copied(3, 148, 155), copied(4, 4, 200))...)
	want(t, "reachable", reachable(p), "[4]")
	want(t, "listing", listed(p), "[4 2 1 3]")
	wantHighest(t, "all", p, 0, 200)
}

func TestL7SameOffsets(t *testing.T) {
	p := partition(t, all(copied(1, 10, 100), copied(2, 10, 100))...)
	want(t, "lookup", at(p, p.Lookup, 0, 50), "[50:2]")
	want(t, "reachable", reachable(p), "[2]")
}

func sameStart(t *testing.T) *Partition {
	return partition(t, all(copied(1, 10, 100), copied(2, 10, 150))...)
}

func TestL8SameStart(t *testing.T) {
	p := sameStart(t)
	want(t, "lookup", at(p, p.Lookup, 0, 50, 111), "[50:2 111:2]")
	want(t, "reachable", reachable(p), "[2]")
	wantHighest(t, "both", p, 0, 150)
}

func TestL9DeleteStarted(t *testing.T) {
	p := sameStart(t)
	apply(t, p, move(1, format.DeleteSegmentStarted), move(2, format.DeleteSegmentStarted))
	want(t, "lookup", at(p, p.Lookup, 0, 50, 111), "[50:- 111:-]")
	want(t, "reachable", reachable(p), "[]")
	want(t, "listing", listed(p), "[1 2]")
}

func TestL10DeleteFinished(t *testing.T) {
	p := sameStart(t)
	for _, s := range []format.SegmentState{format.DeleteSegmentStarted, format.DeleteSegmentFinished} {
		apply(t, p, move(1, s), move(2, s))
	}
	want(t, "listing", listed(p), "[]")
	wantHighest(t, "deleted", p, 0, 150)
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

// The tests C1 to C4 are those of Kafka's RemoteLogMetadataCacheTest.

func TestC1OnlyACopyBegins(t *testing.T) {
	for s := format.CopySegmentFinished; s <= format.DeleteSegmentFinished; s++ {
		e := announce(1, 0, 9)
		e.State = s
		p := partition(t)
		if p.apply(e) == nil || listed(p) != "[]" {
			t.Errorf("a segment was announced in state %v", s)
		}
	}
}

// TestC2UnknownSegment: Kafka fails the call of an initialised cache, and drops the event that comes from the topic; here
// all events come from it.
func TestC2UnknownSegment(t *testing.T) {
	p := partition(t)
	if p.apply(move(9, format.CopySegmentFinished)) == nil || listed(p) != "[]" {
		t.Error("a segment that nobody announced was updated")
	}
}

func TestC3Transitions(t *testing.T) {
	p := partition(t, announce(1, 0, 9))
	for i, step := range []struct {
		to format.SegmentState
		ok bool
	}{{3, false}, {1, true}, {3, false}, {0, false}, {2, true}, {1, false}, {0, false}, {3, true}} {
		if err := p.apply(move(1, step.to)); (err == nil) != step.ok {
			t.Fatalf("step %d to %v: %v", i, step.to, err)
		}
	}
	want(t, "listing", listed(p), "[]")
	d := p.Dropped()
	if d.Count != 5 || len(d.First) != maxDrops || !strings.Contains(d.First[0], "COPY_SEGMENT_STARTED to DELETE_SEGMENT_FINISHED") {
		t.Errorf("dropped: %+v", d)
	}
}

// TestC4NothingToWaitFor: Kafka's readers wait up to 100 ms for a cache that is being filled, and are then told that the
// replica is not available. A Store is filled before a catalog names its partitions, so that no reader meets a half one.
func TestC4NothingToWaitFor(t *testing.T) {
	s := NewStore()
	if _, ok := s.Partition(tp); ok {
		t.Error("a partition that no event named")
	}
}

// TestTransitions is every transition of the table in spec 5.2.
func TestTransitions(t *testing.T) {
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

// TestLifecycle is Kafka's RemoteLogSegmentLifecycleTest.
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

// TestLifecycleStates: where a segment is seen in each of its states.
func TestLifecycleStates(t *testing.T) {
	for _, tt := range []struct {
		states        []format.SegmentState
		lookup, lists string
		size          int64
	}{
		{nil, "[5:-]", "[1]", 1},
		{[]format.SegmentState{1}, "[5:1]", "[1]", 1},
		{[]format.SegmentState{1, 2}, "[5:-]", "[1]", 1},
		{[]format.SegmentState{2}, "[5:-]", "[1]", 1},
		{[]format.SegmentState{1, 2, 3}, "[5:-]", "[]", 0},
	} {
		p := partition(t, announce(1, 0, 9))
		for _, s := range tt.states {
			apply(t, p, move(1, s))
		}
		want(t, fmt.Sprint(tt.states, " lookup"), at(p, p.Lookup, 0, 5), tt.lookup)
		want(t, fmt.Sprint(tt.states, " listed"), listed(p), tt.lists)
		want(t, fmt.Sprint(tt.states, " by epoch"), numbers(p.EpochSegments(0)), tt.lists)
		if p.RemoteLogSize(0) != tt.size {
			t.Errorf("%v: %d bytes, want %d", tt.states, p.RemoteLogSize(0), tt.size)
		}
	}
}

// TestLifecycleListByEpoch: list(0) has three in order, list(1) the last alone.
func TestLifecycleListByEpoch(t *testing.T) {
	p := partition(t, all(copied(3, 201, 400, 0, 201, 1, 301), copied(1, 0, 100), copied(2, 101, 200))...)
	want(t, "epoch 0", numbers(p.EpochSegments(0)), "[1 2 3]")
	want(t, "epoch 1", numbers(p.EpochSegments(1)), "[3]")
	want(t, "epoch 2", numbers(p.EpochSegments(2)), "[]")
}

// TestRemoteLogSize is the sum over list(epoch): what is superseded, copied or deleted counts, and each segment with its
// whole size in every epoch that it has.
func TestRemoteLogSize(t *testing.T) {
	sized := func(n byte, size, start, end int64, pairs ...int64) *format.SegmentEvent {
		e := announce(n, start, end, pairs...)
		e.SizeBytes = size
		return e
	}
	p := partition(t, sized(1, 10, 0, 9), move(1, 1), sized(2, 100, 0, 19), move(2, 1), sized(3, 1000, 20, 29, 0, 20, 1, 25), sized(4, 7, 30, 39, 1, 30))
	check := func(what string, sizes ...int64) {
		t.Helper()
		for e, size := range sizes {
			if got := p.RemoteLogSize(int32(e)); got != size {
				t.Errorf("%s: epoch %d has %d bytes, want %d", what, e, got, size)
			}
		}
	}
	check("at first", 1110, 1007, 0)
	apply(t, p, sized(4, 8, 30, 39, 2, 30))
	check("one announced again", 1110, 1000, 8)
	apply(t, p, move(1, 2), move(1, 3), move(3, 1), move(3, 2))
	check("one deleted, one being deleted", 1100, 1000, 8)
	apply(t, p, move(3, 3))
	check("two deleted", 100, 0, 8)
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

// TestKept: what an event carries comes out again, in whichever form it is kept.
func TestKept(t *testing.T) {
	for name, pairs := range map[string][]int64{"one epoch": {7, 10}, "one from before": {7, 3}, "two": {7, 10, 8, 15}} {
		for _, custom := range [][]byte{nil, {}, []byte("x")} {
			e := announce(1, 10, 19, pairs...)
			e.CustomMetadata, e.BrokerID, e.MaxTimestampMs, e.TxnIndexEmpty, e.SizeBytes = custom, 3, 44, true, 1<<40
			if got := partition(t, e).Segments()[0]; !reflect.DeepEqual(got.SegmentMetadata, e.SegmentMetadata) {
				t.Errorf("%s, custom metadata %v: %+v, want %+v", name, custom, got.SegmentMetadata, e.SegmentMetadata)
			}
		}
	}
}

func deletion(s format.PartitionDeleteState) *format.PartitionDeleteEvent {
	return &format.PartitionDeleteEvent{TopicIDPartition: tp, EventTimestampMs: 1 << 40, State: s}
}

func TestPartitionDelete(t *testing.T) {
	p := partition(t, copied(1, 0, 9)...)
	before := p.LastCopyMs()
	for s := format.DeletePartitionMarked; s <= format.DeletePartitionFinished; s++ {
		want(t, "before "+s.String(), listed(p), "[1]")
		apply(t, p, deletion(s))
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

// TestPartitionDeleteTransitions is the table of spec 5.2: a step at a time, or the same again.
func TestPartitionDeleteTransitions(t *testing.T) {
	for from := notDeleted; from <= format.DeletePartitionFinished; from++ {
		for to := format.DeletePartitionMarked; to <= format.DeletePartitionFinished; to++ {
			p := partition(t, copied(1, 0, 9)...)
			for s := format.DeletePartitionMarked; s <= from; s++ {
				apply(t, p, deletion(s))
			}
			if err := p.apply(deletion(to)); (err == nil) != (to == from || to == from+1) || (err == nil) != (p.Dropped().Count == 0) {
				t.Errorf("from %d to %v: %v, %+v", from, to, err, p.Dropped())
			}
		}
	}
}

// TestNextWithTxnIndex: without an index segments are passed over, behind gaps too; Kafka ends at a gap.
func TestNextWithTxnIndex(t *testing.T) {
	var events []any
	for n, start := range map[byte]int64{1: 0, 2: 10, 3: 20, 4: 30, 5: 60} {
		e := announce(n, start, start+9)
		e.TxnIndexEmpty = n != 3 && n != 5
		events = append(events, e, move(n, format.CopySegmentFinished))
	}
	p := partition(t, events...)
	want(t, "next", at(p, p.NextWithTxnIndex, 0, 0, 15, 20, 29, 30, 45, 60, 69, 70), "[0:3 15:3 20:3 29:3 30:5 45:5 60:5 69:5 70:-]")
	want(t, "next as Kafka", at(p, p.KafkaNextWithTxnIndex, 0, 0, 15, 20, 29, 30, 45, 60, 69, 70), "[0:3 15:3 20:3 29:3 30:- 45:- 60:5 69:5 70:-]")
	want(t, "another epoch", at(p, p.NextWithTxnIndex, 1, 0), "[0:-]")
	apply(t, p, move(3, format.DeleteSegmentStarted))
	want(t, "one deleted", at(p, p.NextWithTxnIndex, 0, 0), "[0:5]")
}

// TestSummaries are what a catalog is made of.
func TestSummaries(t *testing.T) {
	p := partition(t, announce(1, 0, 9))
	if _, _, ok := p.Range(); ok {
		t.Error("a range of nothing that is finished")
	}
	if s, ok := p.Newest(); ok {
		t.Errorf("newest: %v", s)
	}
	apply(t, p, all(copied(2, 50, 99, 3, 50), copied(3, 10, 49, 1, 10, 3, 45), copied(4, 100, 300, 2, 100), copied(5, 40, 44, 3, 40))...)
	if first, last, ok := p.Range(); first != 10 || last != 300 || !ok {
		t.Errorf("range %d to %d, %v", first, last, ok)
	}
	if s, ok := p.Newest(); !ok || s.SegmentID != kafkabytes.ID(2) {
		t.Errorf("newest: %v", s)
	}
	want(t, "epochs", fmt.Sprint(p.Epochs()), "[{1 10} {2 100} {3 40}]")
}
