package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// The cases of Kafka's ReplicaManagerTest and DelayedRemoteFetchTest (spec 10.2 and 10.3). A DelayedRemoteFetch of Kafka is
// here the wait of Fetch for its jobs; "watched in purgatory" is a job that runs.

// topic is a tiered partition of one segment of n batches of ten offsets and 1000 bytes each.
func topic(t testing.TB, name string, number byte, n int) (*segment, *Partition) {
	t.Helper()
	var bs []batch
	for i := range int64(n) {
		bs = append(bs, batch{Base: 10 * i, Last: 10*i + 9, Size: 1000})
	}
	s := kafkabytes.NewSegment(t, id(name), number, bs...)
	return s, remotePartition(t, s)
}

// topics makes them by name, and the store that holds them.
func topics(t testing.TB, names string) (*memrsm.Store, []*Partition) {
	t.Helper()
	var segs []*segment
	var parts []*Partition
	for i, c := range names {
		s, p := topic(t, string(c), byte(i+1), 20)
		segs, parts = append(segs, s), append(parts, p)
	}
	return memrsm.New(memrsm.Inline, segs...), parts
}

// delays lets each call for a topic's segment take its time.
func delays(store *memrsm.Store, parts []*Partition, by map[string]time.Duration) {
	of := map[abi.UUID]time.Duration{}
	for _, p := range parts {
		for _, s := range p.Remote.Segments() {
			of[s.SegmentID] = by[p.ID.Topic]
		}
	}
	store.Before = func(ctx context.Context, c memrsm.Call) error {
		select {
		case <-time.After(of[c.Segment]):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// all asks for partitions from offset 0 on with their allowance; total is the request's.
func all(names string, total, each int64) FetchRequest {
	req := FetchRequest{MaxBytes: total}
	for _, c := range names {
		req.Partitions = append(req.Partitions, ask(string(c), 0, each))
	}
	return req
}

// follower is what a broker with id 2 gets.
func follower(r *Reader, req FetchRequest) []PartitionData {
	req.Version, req.ReplicaID = 17, 2
	return r.Fetch(context.Background(), &req).Partitions
}

// TestM1OutOfRangeReadFromLog: 15,000 bytes in all and 10,000 a partition: a consumer's allowances are 10,000 and 5,000,
// and a follower is sent to the remote tier. Both are told the log's offsets.
func TestM1OutOfRangeReadFromLog(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "ab")
		r := newReader(t, policy, store, parts...)
		got := fetch(t, r, context.Background(), all("ab", 15_000, 10_000))
		if a, b := len(got[0].Records), len(got[1].Records); a != 10_000 || b != 5_000 {
			t.Errorf("%s: %d and %d bytes, want 10000 and 5000", name, a, b)
		}
		for _, p := range append(got, follower(r, all("ab", 15_000, 10_000))...) {
			if p.HighWatermark != 200 || p.LogStartOffset != 0 || p.LastStableOffset != 200 {
				t.Errorf("%s: %v: high watermark %d, log start %d, last stable %d", name, p.Code, p.HighWatermark, p.LogStartOffset, p.LastStableOffset)
			}
		}
	}
}

// TestM2OutOfRangeFetchMessages: a follower is answered at once and no remote read begins. A consumer waits for one, which
// looks for its offset.
func TestM2OutOfRangeFetchMessages(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "a")
			delays(store, parts, map[string]time.Duration{"a": time.Second})
			r := newReader(t, policy, store, parts...)
			for _, p := range follower(r, all("a", 1000, 1000)) {
				if p.Code != OffsetMovedToTiered || len(p.Records) > 0 {
					t.Errorf("%s: follower: %v, %d bytes", name, p.Code, len(p.Records))
				}
			}
			if n := len(store.Calls()); n != 0 {
				t.Errorf("%s: a follower began %d remote reads", name, n)
			}
			began := time.Now()
			p := ask("a", 1, 1000)
			p.CurrentLeaderEpoch = 0
			want(t, name, one(t, r, p), None, "[0]")
			if took := time.Since(began); took != 2*time.Second { // the index, and the log
				t.Errorf("%s: answered after %v, want 2 s", name, took)
			}
			if calls := store.Calls(); len(calls) != 2 || calls[0].Index != abi.OffsetIndex || calls[1].Index != 0 || calls[1].Range.Start != 0 {
				t.Errorf("%s: calls %+v, want the index and the log", name, calls)
			}
			p.CurrentLeaderEpoch = 7
			want(t, name+", another epoch", one(t, r, p), UnknownLeaderEpoch, "[]")
		})
	}
}

// TestM3MultipleRemoteFetches: two partitions of one request are read, the first alone may exceed its allowance by a
// batch, nothing is left in waiting, and both are answered.
func TestM3MultipleRemoteFetches(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "ab")
			delays(store, parts, map[string]time.Duration{"a": time.Second, "b": 2 * time.Second})
			r := newReader(t, policy, store, parts...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				got := fetch(t, r, context.Background(), all("ab", 1998, 999)) // a batch is 1000
				want(t, name+", first", got[0], None, "[0]")
				want(t, name+", second", got[1], None, "[]")
			}()
			synctest.Wait()
			if got := r.PoolStats().Running; got != 2 {
				t.Errorf("%s: %d reads run, want 2", name, got)
			}
			<-done
			if got := r.PoolStats(); got.Running+got.Queued+got.Outside > 0 {
				t.Errorf("%s: left: %+v", name, got)
			}
		})
	}
}

// TestM5RemoteReadQuota: a partition that the quota does not let be read is answered with nothing and no error, and no
// remote read begins. One below the quota is read. Kafka drops the read; ours waits for its turn, and the retry gets it.
func TestM5RemoteReadQuota(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "a")
			r := newReader(t, policy, store, parts...)
			r.SetWait(500 * time.Millisecond)
			defer r.Close()
			r.SetQuota(1000)
			r.quota.record(20_000)
			p := one(t, r, ask("a", 0, 1000))
			want(t, name+", exceeded", p, None, "[]")
			if n := len(store.Calls()); n != 0 || p.HighWatermark != 200 {
				t.Errorf("%s: exceeded: %d calls, high watermark %d", name, n, p.HighWatermark)
			}
			time.Sleep(20 * time.Second)
			want(t, name+", not exceeded", one(t, r, ask("a", 0, 1000)), None, "[0]")
		})
	}
}

// TestM7RemoteFetchExpires: a read that blocks for 2 s is answered at the end of the wait: empty, and marked as late where
// the retry is answered from it. Stats count it.
func TestM7RemoteFetchExpires(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "a")
			delays(store, parts, map[string]time.Duration{"a": 2 * time.Second})
			r := newReader(t, policy, store, parts...)
			r.SetWait(500 * time.Millisecond)
			defer r.Close()
			began := time.Now()
			p := one(t, r, ask("a", 0, 1000))
			want(t, name, p, None, "[]")
			if took := time.Since(began); took != 500*time.Millisecond || !p.Late || p.HighWatermark != 200 {
				t.Errorf("%s: after %v, late %v, high watermark %d", name, took, p.Late, p.HighWatermark)
			}
		})
	}
}

// TestD1Fetch: the answer has the high watermark and log start of the moment when it was asked, not of when it was read.
func TestD1Fetch(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "a")
		before, after := *parts[0], *parts[0]
		before.Offsets.LogStart, before.Offsets.HighWatermark, before.Offsets.LastStableOffset = 10, 100, 100
		after.Offsets.LogStart, after.Offsets.HighWatermark = 20, 150
		var now atomic.Pointer[Partition]
		now.Store(&before)
		r := newReader(t, policy, store)
		r.catalog = finder(func(context.Context) (*Partition, Code, error) { return now.Load(), None, nil })
		store.Before = func(context.Context, memrsm.Call) error { now.Store(&after); return nil }
		p := one(t, r, ask("a", 10, 1000))
		want(t, name, p, None, "[10]")
		if p.HighWatermark != 100 || p.LogStartOffset != 10 {
			t.Errorf("%s: high watermark %d, log start %d, want 100 and 10", name, p.HighWatermark, p.LogStartOffset)
		}
	}
}

// TestD2FollowerIsNeverDelayed: whoever is a replica is told to go to the remote tier, with the future local replica, and
// no wait begins for it. In Kafka such a wait is an illegal state; here none can be made, since the check does not say
// Remote to replicas.
func TestD2FollowerIsNeverDelayed(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "ab")
		r := newReader(t, policy, store, parts...)
		for _, replica := range []int32{0, 2, math.MaxInt32, -3} {
			req := all("ab", 1000, 1000)
			req.ReplicaID = replica
			for _, p := range r.Fetch(context.Background(), &req).Partitions {
				if p.Code != OffsetMovedToTiered {
					t.Errorf("%s: replica %d: %v", name, replica, p.Code)
				}
			}
		}
		if n := len(store.Calls()); n != 0 {
			t.Errorf("%s: %d remote reads", name, n)
		}
		for _, consumer := range []int32{locality.Consumer, locality.DebugConsumer} {
			req := all("a", 1000, 1000)
			req.ReplicaID = consumer
			resp := r.Fetch(context.Background(), &req)
			want(t, name, resp.Partitions[0], None, "[0]")
			resp.Release()
		}
	}
}

// TestD3NotLeaderOrFollower: a partition that is not here is told at once and begins no read. Kafka asks again while it
// waits, and answers the whole request, with what is not ready empty; what we have begun to read is good whoever leads,
// and is answered.
func TestD3NotLeaderOrFollower(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "a")
			delays(store, parts, map[string]time.Duration{"a": time.Second})
			r := newReader(t, policy, store)
			var gone atomic.Bool
			r.catalog = finder(func(context.Context) (*Partition, Code, error) {
				if gone.Load() {
					return nil, NotLeaderOrFollower, abi.Errorf("fetch", "a-0", abi.Unavailable, "it moved away")
				}
				return parts[0], None, nil
			})
			time.AfterFunc(500*time.Millisecond, func() { gone.Store(true) })
			want(t, name+", while it is read", one(t, r, ask("a", 0, 1000)), None, "[0]")
			began := time.Now()
			want(t, name+", after that", one(t, r, ask("a", 10, 1000)), NotLeaderOrFollower, "[]")
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: after %v", name, took)
			}
		})
	}
}

// TestD4LocalErrorStays: a fenced partition is FENCED_LEADER_EPOCH whatever the remote read of another one gives.
func TestD4LocalErrorStays(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "ab")
		parts[0].Lineage = lineage(0, 0, 3, 200)
		r := newReader(t, policy, store, parts...)
		req := all("ab", 10_000, 1000)
		req.Partitions[0].CurrentLeaderEpoch = 2
		got := fetch(t, r, context.Background(), req)
		want(t, name+", fenced", got[0], FencedLeaderEpoch, "[]")
		want(t, name+", remote", got[1], None, "[0]")
		if got[0].Leader == nil || *got[0].Leader != (Leader{1, 3}) {
			t.Errorf("%s: leader %+v", name, got[0].Leader)
		}
	}
}

// TestD6WaitsForAll: with one of two done there is no answer yet; with both there is, and each has its own offsets.
func TestD6WaitsForAll(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "ab")
			delays(store, parts, map[string]time.Duration{"a": time.Second, "b": 2 * time.Second})
			for i, p := range parts {
				p.Offsets.HighWatermark, p.Offsets.LogStart = int64(100+100*i), int64(10+10*i)
			}
			r := newReader(t, policy, store, parts...)
			r.SetWait(time.Minute)
			defer r.Close()
			req := all("ab", 10_000, 1000)
			req.Partitions[0].Offset, req.Partitions[1].Offset = 10, 20
			began := time.Now()
			got := fetch(t, r, context.Background(), req)
			if took := time.Since(began); took < 2*time.Second || took > 4*time.Second { // b needs its index and its log
				t.Errorf("%s: answered after %v", name, took)
			}
			for i, p := range got {
				want(t, name, p, None, fmt.Sprintf("[%d]", 10+10*i))
				if p.HighWatermark != int64(100+100*i) || p.LogStartOffset != int64(10+10*i) {
					t.Errorf("%s: %d: high watermark %d, log start %d", name, i, p.HighWatermark, p.LogStartOffset)
				}
			}
		})
	}
}

// TestD7OneFails: a failure is its own partition's alone. Kafka says UNKNOWN_SERVER_ERROR, and we that the store did not
// answer.
func TestD7OneFails(t *testing.T) {
	for policy, code := range map[Policy]Code{Better: KafkaStorageError, Kafka43: UnknownServerError} {
		store, parts := topics(t, "ab")
		failing := parts[1].Remote.Segments()[0].SegmentID
		store.Before = func(_ context.Context, c memrsm.Call) error {
			if c.Segment == failing {
				return abi.E("fetch_log_segment", "", abi.Unavailable, errors.New("down"))
			}
			return nil
		}
		r := newReader(t, policy, store, parts...)
		got := fetch(t, r, context.Background(), all("ab", 10_000, 1000))
		want(t, "the one", got[0], None, "[0]")
		want(t, "the other", got[1], code, "[]")
		if codes := []int64{got[1].HighWatermark, got[1].LogStartOffset, got[1].LastStableOffset}; !slices.Equal(codes, []int64{-1, -1, -1}) {
			t.Errorf("offsets with an error: %v", codes)
		}
	}
}
