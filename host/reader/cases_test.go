package reader

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// The cases of Kafka's RemoteLogManagerTest (spec 10.1) that R1 to R4 in reader_test.go leave; R5 is the host's.

// policies are both of them, by name.
var policies = map[string]Policy{"better": Better, "exact": Kafka43}

// metadata gives a partition's remote metadata after events.
func metadata(t testing.TB, tp abi.TopicIDPartition, events ...any) *rlmm.Partition {
	t.Helper()
	store := rlmm.NewStore()
	for _, e := range events {
		value, err := format.AppendRemoteLogMetadata(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(value); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := store.Partition(tp)
	return p
}

func lineage(pairs ...int64) epoch.Lineage {
	var entries []abi.LeaderEpoch
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, abi.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return epoch.Of(entries)
}

// TestR5UnknownPartition: what the catalog does not know is not looked for in the remote tier. Kafka, whose reader pool is
// asked by name and id, answers UNKNOWN_SERVER_ERROR to an id that it does not know; here the client is told so.
func TestR5UnknownPartition(t *testing.T) {
	s := tens(t, 1, 0, 2, 100)
	for name, policy := range policies {
		store := memrsm.New(memrsm.Inline, s)
		r := newReader(t, policy, store, remotePartition(t, s))
		r.catalog = finder(func(context.Context) (*Partition, Code, error) {
			return nil, UnknownTopicID, abi.Errorf("fetch", "a", abi.NotFound, "no such id")
		})
		want(t, name, one(t, r, ask("a", 0, 100)), UnknownTopicID, "[]")
		if n := len(store.Calls()); n != 0 {
			t.Errorf("%s: the store was asked %d times", name, n)
		}
	}
}

// finder is a Catalog of one partition, which may change.
type finder func(ctx context.Context) (*Partition, Code, error)

func (f finder) Find(ctx context.Context, _ string, _ abi.UUID, _ int32) (*Partition, Code, error) {
	return f(ctx)
}

// indexed is a segment of one epoch that may have a transaction index.
func indexed(t testing.TB, number byte, start, end int64, epoch int32) *segment {
	s := kafkabytes.NewSegment(t, id("a"), number, batch{Base: start, Last: end, Epoch: epoch})
	s.Meta.TxnIndexEmpty = false
	return s
}

// nextIndexed is the number of the segment that a scan of transaction indexes goes on with.
func nextIndexed(r *Reader, p *Partition, offset int64) string {
	seg, ok := r.nextWithAborted(&read{part: p}, offset)
	if !ok {
		return "none"
	}
	return fmt.Sprint(seg.SegmentID[15])
}

// TestT1NextTxnIndexInOneEpoch asks epoch 0 from offset 10 on: not what lies below, nor in another epoch.
func TestT1NextTxnIndexInOneEpoch(t *testing.T) {
	below, other, after := indexed(t, 1, 0, 9, 0), indexed(t, 2, 10, 19, 1), indexed(t, 3, 20, 29, 0)
	none := indexed(t, 4, 10, 19, 0)
	none.Meta.TxnIndexEmpty = true
	for name, policy := range policies {
		p := remotePartition(t, below, none, other, after)
		p.Lineage = lineage(0, 0)
		r := newReader(t, policy, memrsm.New(memrsm.Inline), p)
		for offset, want := range map[int64]string{10: "3", 20: "3", 30: "none"} {
			if got := nextIndexed(r, p, offset); got != want {
				t.Errorf("%s: from %d: segment %s, want %s", name, offset, got, want)
			}
		}
	}
}

// TestT2NextTxnIndexOverEpochs: with the epochs 0 from 0, 1 from 100 and 2 from 200, and nothing in 0 and 1, they are asked
// from 10, 100 and 200 on, in this order.
func TestT2NextTxnIndexOverEpochs(t *testing.T) {
	decoys := []*segment{indexed(t, 1, 0, 9, 0), indexed(t, 2, 90, 99, 1), indexed(t, 3, 190, 199, 2)}
	two := indexed(t, 4, 200, 299, 2)
	for name, policy := range policies {
		p := remotePartition(t, append(decoys, two)...)
		p.Lineage = lineage(0, 0, 1, 100, 2, 200)
		r := newReader(t, policy, memrsm.New(memrsm.Inline), p)
		if got := nextIndexed(r, p, 10); got != "4" {
			t.Errorf("%s: segment %s, want 4", name, got)
		}
		one := indexed(t, 5, 100, 199, 1) // and one in the order before it
		p.Remote = metadata(t, p.ID, kafkabytes.Finished(append(decoys, two, one)...)...)
		if got := nextIndexed(r, p, 10); got != "5" {
			t.Errorf("%s: segment %s, want 5", name, got)
		}
	}
}

// TestT2FencedTxnIndex: what the leader of epoch 0 copied after epoch 1 had begun tells of transactions that never were.
// Kafka asks for the segments of epoch 0 without an end.
func TestT2FencedTxnIndex(t *testing.T) {
	none, fenced, good := indexed(t, 1, 0, 119, 0), indexed(t, 2, 120, 149, 0), indexed(t, 3, 120, 199, 1)
	none.Meta.TxnIndexEmpty = true
	for policy, want := range map[Policy]string{Better: "3", Kafka43: "2"} {
		p := remotePartition(t, none, fenced, good)
		p.Lineage = lineage(0, 0, 1, 120)
		if got := nextIndexed(newReader(t, policy, memrsm.New(memrsm.Inline), p), p, 110); got != want {
			t.Errorf("segment %s, want %s", got, want)
		}
	}
}

// timed is Kafka's segment for lookups by time: three records of epoch 10 from offset 120 on, at ts-1, ts+1 and ts+2.
func timed(t testing.TB, number byte, ts int64, epochOfFirst int32) *segment {
	bs := []batch{{Base: 120, Last: 120, Epoch: 10, Timestamp: ts - 1}, {Base: 121, Last: 121, Epoch: 10, Timestamp: ts + 1},
		{Base: 122, Last: 122, Epoch: 10, Timestamp: ts + 2}}
	if epochOfFirst != 10 {
		bs = append([]batch{{Base: 119, Last: 119, Epoch: epochOfFirst, Timestamp: ts - 2}}, bs...)
	}
	return kafkabytes.NewSegment(t, id("a"), number, bs...)
}

// timedPartition has Kafka's lineage: 4 and 5 from 99 on, 10 from 120, 12 from 500; the search starts at 120.
func timedPartition(t testing.TB, events ...any) *Partition {
	tp := id("a")
	return &Partition{ID: tp, LeaderID: 1, Remote: metadata(t, tp, events...), Lineage: lineage(4, 99, 5, 99, 10, 120, 12, 500),
		Offsets: locality.Offsets{LogStart: 120, LocalStart: 600, LocalBase: -1, HighWatermark: 600, LastStableOffset: 600, LogEnd: 600, Remote: true}}
}

// byTime asks for one timestamp: "121 at 1001, epoch 10".
func byTime(t testing.TB, r *Reader, ts int64) string {
	t.Helper()
	got := r.ListOffsets(context.Background(), &ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer,
		Partitions: []ListOffsetsPartition{{Topic: "a", Timestamp: ts, CurrentLeaderEpoch: epoch.Undefined}}})[0]
	switch {
	case got.Err != nil:
		return got.Code.String()
	case got.Offset < 0:
		return "none"
	}
	return fmt.Sprintf("%d at %d, epoch %d", got.Offset, got.Timestamp, got.LeaderEpoch)
}

func wantTime(t testing.TB, what string, r *Reader, ts int64, want string) {
	t.Helper()
	if got := byTime(t, r, ts); got != want {
		t.Errorf("%s: time %d is offset %s, want %s", what, ts, got, want)
	}
}

// TestS1OffsetByTime finds the first record at or after a time.
func TestS1OffsetByTime(t *testing.T) {
	const ts = 5000
	s := timed(t, 1, ts, 10)
	for name, policy := range policies {
		r := newReader(t, policy, memrsm.New(memrsm.Stream, s), timedPartition(t, kafkabytes.Finished(s)...))
		wantTime(t, name, r, ts, "121 at 5001, epoch 10")
		wantTime(t, name, r, ts+2, "122 at 5002, epoch 10")
		wantTime(t, name, r, ts+3, "none")
	}
}

// TestS2OffsetByTimeLineage: a segment with an epoch that the lineage does not know is passed over.
func TestS2OffsetByTimeLineage(t *testing.T) {
	const ts = 5000
	s := timed(t, 1, ts, 9)
	for name, policy := range policies {
		store := memrsm.New(memrsm.Stream, s)
		r := newReader(t, policy, store, timedPartition(t, kafkabytes.Finished(s)...))
		wantTime(t, name, r, ts, "none")
		if n := len(store.Calls()); n != 0 {
			t.Errorf("%s: the store was asked %d times", name, n)
		}
	}
}

// TestS3OffsetByTimeUnfinished: a segment that is still copied is passed over.
func TestS3OffsetByTimeUnfinished(t *testing.T) {
	const ts = 5000
	s := timed(t, 1, ts, 10)
	for name, policy := range policies {
		store := memrsm.New(memrsm.Stream, s)
		r := newReader(t, policy, store, timedPartition(t, kafkabytes.Started(s)))
		wantTime(t, name, r, ts, "none")
		if n := len(store.Calls()); n != 0 {
			t.Errorf("%s: the store was asked %d times", name, n)
		}
	}
}

// TestS4OffsetByTimeLocal: a segment that is still local is looked at there, and no index is fetched.
func TestS4OffsetByTimeLocal(t *testing.T) {
	const ts = 5000
	s := timed(t, 1, ts, 10)
	for name, policy := range policies {
		store := memrsm.New(memrsm.Stream, s)
		r := newReader(t, policy, store, withLocal(t, timedPartition(t, kafkabytes.Finished(s)...), s))
		wantTime(t, name, r, ts, "121 at 5001, epoch 10")
		if n := len(store.Calls()); n != 0 {
			t.Errorf("%s: the store was asked %d times", name, n)
		}
	}
}

// TestListOffsetsExpires: a lookup by time that its deadline ends is REQUEST_TIMED_OUT with nothing found (Kafka's
// DelayedRemoteListOffsetsTest).
func TestListOffsetsExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, part := twoParts(t, time.Hour)
		r := newReader(t, Better, store, part)
		defer r.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got := r.ListOffsets(ctx, &ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer, Partitions: []ListOffsetsPartition{
			{Topic: "a", Timestamp: 0, CurrentLeaderEpoch: epoch.Undefined}}})[0]
		if got.Code != RequestTimedOut || got.Offset != -1 || got.Timestamp != -1 {
			t.Errorf("got %+v", got)
		}
	})
}
