package reader

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/transfer"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// boundedReader is a reader with a budget, over one remote partition of 40 batches of 20 KiB.
func boundedReader(t *testing.T, limit int64, form memrsm.Form, threads int) (*Reader, *budget.Pool) {
	t.Helper()
	s := tens(t, 1, 0, 40, 20<<10)
	pool := budget.New(limit)
	indexes, err := indexcache.New(indexcache.Options{Budget: pool})
	if err != nil {
		t.Fatal(err)
	}
	store := memrsm.New(form, s)
	store.Before = func(context.Context, memrsm.Call) error { runtime.Gosched(); return nil } // others come between
	r := New(Options{Catalog: partitions{"a": remotePartition(t, s)}, Indexes: indexes, Policy: Better, Threads: threads, Memory: pool,
		Store: &Store{Name: "memory", RSM: store, Mover: transfer.New(nil, &transfer.Options{Memory: pool})}})
	t.Cleanup(func() {
		r.Close()
		indexes.Close()
		if n := pool.InUse(); n != 0 {
			t.Errorf("%d bytes stay in use", n)
		}
	})
	return r, pool
}

// TestMemoryMax: a load of requests of several partitions, some with batches that are larger than their room, over transfer
// and caches: the budget is exceeded by a tenth at most, or where it is tiny by what one request needs; nobody is stuck,
// and every answer has its bytes.
func TestMemoryMax(t *testing.T) {
	for _, form := range []memrsm.Form{memrsm.Inline, memrsm.Stream} {
		for _, tt := range []struct {
			threads      int
			limit, bound int64
		}{{1, 5 << 20, 5 << 20 * 11 / 10}, {4, 5 << 20, 5 << 20 * 11 / 10}, {1, 300 << 10, 300<<10 + 3*144<<10}, {4, 300 << 10, 300<<10 + 3*144<<10}} {
			t.Run(fmt.Sprintf("form %d, %d threads, %d bytes", form, tt.threads, tt.limit), func(t *testing.T) {
				r, pool := boundedReader(t, tt.limit, form, tt.threads)
				hammer.Run(t, 64, 4, func(g, n int) {
					req := FetchRequest{ReplicaID: locality.Consumer, ClientID: fmt.Sprint(g % 5), MaxBytes: 1 << 20}
					for i := range 1 + (g+n)%3 {
						room := int64(100 << 10)
						if i == 0 && n%2 == 0 {
							room = 5 << 10
						}
						req.Partitions = append(req.Partitions, ask("a", int64((g*7+n+i)%30*10), room))
					}
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					resp := r.Fetch(ctx, &req)
					defer resp.Release()
					for range 20 {
						runtime.Gosched() // a client that reads the answer slowly
					}
					for i := range resp.Partitions {
						if p := &resp.Partitions[i]; p.Code != None || len(p.Records) < 20<<10 {
							t.Errorf("%v, %d bytes: %v", p.Code, len(p.Records), p.Err)
						}
					}
				})
				if peak := pool.Peak(); peak > tt.bound || peak < tt.limit/2 {
					t.Errorf("at most %d bytes were in use, of %d: the load is too small, or the budget did not hold", peak, tt.limit)
				}
			})
		}
	}
}

// TestMemoryFull: a read that gets no memory within its time says so, and its code lets the client ask again.
func TestMemoryFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pool := boundedReader(t, 256<<10, memrsm.Inline, 1)
		held, err := pool.Lease().Get(context.Background(), 256<<10)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		resp := r.Fetch(ctx, &FetchRequest{ReplicaID: locality.Consumer, MaxBytes: 1 << 20, Partitions: []FetchPartition{ask("a", 0, 100<<10)}})
		if p := &resp.Partitions[0]; p.Code != KafkaStorageError || abi.KindOf(p.Err) != abi.Deadline {
			t.Errorf("%v: %v", p.Code, p.Err)
		}
		resp.Release()
		held.Release()
	})
}

// TestMemoryOfALateRead: what a read keeps that came too late, and whose client does not come again, is given to a read that began
// to wait for memory before it was done.
func TestMemoryOfALateRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := boundedReader(t, 256<<10, memrsm.Stream, 4)
		r.store.RSM.(*memrsm.Store).Before = func(_ context.Context, c memrsm.Call) error {
			if c.Index == 0 {
				time.Sleep(2 * time.Second)
			}
			return nil
		}
		r.SetWait(500 * time.Millisecond)
		if p := one(t, r, ask("a", 0, 200<<10)); !p.Late {
			t.Fatalf("not late: %v, %d bytes", p.Code, len(p.Records))
		}
		began := time.Now()
		for {
			p := one(t, r, ask("a", 100, 200<<10))
			if took := time.Since(began); p.Code != None || took > 20*time.Second {
				t.Fatalf("after %v: %v, %d bytes", took, p.Code, len(p.Records))
			}
			if len(p.Records) > 0 {
				return
			}
		}
	})
}
