package reader

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

const sixty = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// offsetsOf asks for one timestamp of each topic.
func offsetsOf(names string, ts int64) *ListOffsetsRequest {
	req := &ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer}
	for _, c := range names {
		req.Partitions = append(req.Partitions, ListOffsetsPartition{Topic: string(c), Timestamp: ts, CurrentLeaderEpoch: epoch.Undefined})
	}
	return req
}

func (s *lookups) kept() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// everywhere delays each call of a store.
func everywhere(store *memrsm.Store, d time.Duration) {
	store.Before = func(ctx context.Context, _ memrsm.Call) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestLookupsRunSideBySide: offsets of sixty partitions behind a slow store take eight answers of it one after another, and not
// one or more for each partition.
func TestLookupsRunSideBySide(t *testing.T) {
	for name, policy := range policies {
		for _, ts := range []int64{0, MaxTimestamp} {
			if ts == MaxTimestamp && policy == Kafka43 {
				continue // which asks no store for it
			}
			synctest.Test(t, func(t *testing.T) {
				store, parts := topics(t, sixty[:60])
				everywhere(store, 300*time.Millisecond)
				r := newReader(t, policy, store, parts...)
				defer r.Close()
				r.Resize(0, 0)
				began := time.Now()
				for _, d := range r.ListOffsets(context.Background(), offsetsOf(sixty[:60], ts)) {
					if d.Code != None || d.Offset != 0 {
						t.Errorf("%s, %s: offset %d, %v", name, d.Topic, d.Offset, d.Err)
					}
				}
				if took := time.Since(began); took > 8*300*time.Millisecond {
					t.Errorf("%s, %d: %v", name, ts, took)
				}
			})
		}
	}
}

// TestLookupIsKeptForTheRetry: what is not ready at the deadline is REQUEST_TIMED_OUT, what is ready is answered, and who asks
// again is answered from what came meanwhile.
func TestLookupIsKeptForTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, parts := topics(t, "ab")
		delays(store, parts, map[string]time.Duration{"a": 5 * time.Second})
		r := newReader(t, Better, store, parts...)
		defer r.Close()
		for round, want := range [][]Code{{RequestTimedOut, None}, {RequestTimedOut, None}, {None, None}} {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			var got []Code
			for _, d := range r.ListOffsets(ctx, offsetsOf("ab", 500)) {
				got = append(got, d.Code)
			}
			cancel()
			if !slices.Equal(got, want) {
				t.Fatalf("round %d: %v, want %v", round, got, want)
			}
		}
		n := 0
		for _, c := range store.Calls() {
			if c.Segment == parts[0].Remote.Segments()[0].SegmentID {
				n++
			}
		}
		if n != 3 { // two indexes, and the log
			t.Errorf("%d calls", n)
		}
		if r.lookups.kept() != 0 {
			t.Errorf("%d lookups are left", r.lookups.kept())
		}
	})
}

// TestLookupThatNobodyAsksForAgainGoes after a while, and one whose client went away at once.
func TestLookupThatNobodyAsksForAgainGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, parts := topics(t, "ab")
		everywhere(store, 5*time.Second)
		r := newReader(t, Better, store, parts...)
		defer r.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.ListOffsets(ctx, offsetsOf("a", 500))
		time.Sleep(20 * time.Second)
		if r.lookups.kept() != 1 {
			t.Errorf("%d lookups are kept", r.lookups.kept())
		}
		time.Sleep(lateKept)
		if r.lookups.kept() != 0 {
			t.Errorf("%d lookups are left", r.lookups.kept())
		}
		gone, leave := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, leave)
		began, before := time.Now(), len(store.Calls())
		r.ListOffsets(gone, offsetsOf("b", 500))
		r.lookups.wg.Wait()
		if took := time.Since(began); took != time.Second || r.lookups.kept() != 0 {
			t.Errorf("%v, %d lookups are left, %d calls", took, r.lookups.kept(), len(store.Calls())-before)
		}
	})
}

// slowCatalog needs a second for each partition, once.
type slowCatalog struct {
	partitions
	mu    sync.Mutex
	loads map[string]chan struct{}
}

func (c *slowCatalog) Find(ctx context.Context, topic string, id abi.UUID, n int32) (*Partition, Code, error) {
	c.mu.Lock()
	l, ok := c.loads[topic]
	if !ok {
		l = make(chan struct{})
		c.loads[topic] = l
		time.AfterFunc(time.Second, func() { close(l) })
	}
	c.mu.Unlock()
	select {
	case <-l:
		return c.partitions.Find(ctx, topic, id, n)
	default:
	}
	select {
	case <-l:
		return c.partitions.Find(ctx, topic, id, n)
	case <-ctx.Done():
		return nil, ReplicaNotAvailable, abi.E("find", topic, abi.KindOf(ctx.Err()), context.Cause(ctx))
	}
}

// TestCatalogIsWaitedForOnce: what the catalog needs for the partitions of a request is on its way for all of them at once.
func TestCatalogIsWaitedForOnce(t *testing.T) {
	const names = "abcdefgh"
	for what, ask := range map[string]func(t *testing.T, r *Reader) []Code{
		"fetch": func(t *testing.T, r *Reader) (codes []Code) {
			for _, p := range fetch(t, r, context.Background(), all(names, 1<<20, 1000)) {
				codes = append(codes, p.Code)
			}
			return codes
		},
		"the latest offsets": func(t *testing.T, r *Reader) (codes []Code) {
			for _, d := range r.ListOffsets(context.Background(), offsetsOf(names, Latest)) {
				codes = append(codes, d.Code)
			}
			return codes
		},
		"leader epochs": func(t *testing.T, r *Reader) (codes []Code) {
			var reqs []EpochRequest
			for _, c := range names {
				reqs = append(reqs, EpochRequest{Topic: string(c), CurrentLeaderEpoch: epoch.Undefined})
			}
			for _, e := range r.OffsetsForLeaderEpochs(context.Background(), reqs) {
				codes = append(codes, e.Code)
			}
			return codes
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, parts := topics(t, names)
				r := newReader(t, Better, store, parts...)
				defer r.Close()
				r.catalog = &slowCatalog{partitions: r.catalog.(partitions), loads: map[string]chan struct{}{}}
				began := time.Now()
				codes := ask(t, r)
				if took := time.Since(began); took > 1100*time.Millisecond || len(codes) != len(names) {
					t.Errorf("%d answers after %v", len(codes), took)
				}
				for i, c := range codes {
					if c != None {
						t.Errorf("%d: %v", i, c)
					}
				}
			})
		})
	}
}
