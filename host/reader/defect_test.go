package reader

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// The rows of spec section 11 that are the reader's. 3 is in late_test.go, 24 in pool_test.go, the letters in
// letter_test.go; those of the host, the index cache, the transfer and the metadata lie there.

// TestDefect1ReadsAllRemotePartitions (KAFKA-14915): Kafka read the first remote partition of a request and left the others
// empty. All are read, and at the same time.
func TestDefect1ReadsAllRemotePartitions(t *testing.T) {
	const names = "abcdefgh"
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, names)
			by := map[string]time.Duration{}
			for _, c := range names {
				by[string(c)] = time.Second
			}
			delays(store, parts, by)
			r := newReader(t, policy, store, parts...)
			r.Resize(len(names), 0)
			began := time.Now()
			for _, p := range fetch(t, r, context.Background(), all(names, math.MaxInt32, 1000)) {
				want(t, name+" "+p.Topic, p, None, "[0]")
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("%s: %v for reads of a second each", name, took)
			}
		})
	}
}

// TestDefect2SlowPartition (discussion in PR 20045; still so in Kafka, where the wait is for all or for 500 ms): one remote
// partition that hangs does not hold back what is local, what is ready and what failed beyond the wait, wherever it stands
// in the request, and not though it takes the readers.
func TestDefect2SlowPartition(t *testing.T) {
	for name, policy := range policies {
		for _, order := range []string{"slrx", "lrxs", "lsxr"} { // slow, local, ready, unknown
			synctest.Test(t, func(t *testing.T) {
				store, parts := topics(t, "sr")
				delays(store, parts, map[string]time.Duration{"s": time.Hour})
				local := kafkabytes.NewSegment(t, id("l"), 9, batch{Base: 0, Last: 9, Size: 1000})
				r := newReader(t, policy, store, append(parts, withLocal(t, remotePartition(t, local), local))...)
				r.SetWait(500 * time.Millisecond)
				defer r.Close()
				began := time.Now()
				got := map[string]PartitionData{}
				for _, p := range fetch(t, r, context.Background(), all(order, 10_000, 1000)) {
					got[p.Topic] = p
				}
				if took := time.Since(began); took != time.Duration(r.wait.Load()) {
					t.Errorf("%s, %s: answered after %v", name, order, took)
				}
				want(t, name+", slow", got["s"], None, "[]")
				want(t, name+", local", got["l"], None, "[0]")
				want(t, name+", ready", got["r"], None, "[0]")
				want(t, name+", unknown", got["x"], UnknownTopicOrPartition, "[]")
			})
		}
	}
}

// TestDefect4InterruptedRead (KAFKA-15931): an interrupt in a read of a transaction index made every later read_committed
// fetch of the segment fail. One who gives up, before or while an index is loaded, harms nobody else, in memory or on disk.
func TestDefect4InterruptedRead(t *testing.T) {
	for name, policy := range policies {
		for _, dir := range []string{"", t.TempDir()} {
			synctest.Test(t, func(t *testing.T) {
				s := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 1}, txn(2, 4, 7), kafkabytes.Marker(5, 7, false), batch{Base: 6, Last: 9})
				s.Meta.TxnIndexEmpty = false
				s.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 7, FirstOffset: 2, LastOffset: 5, LastStableOffset: 9})
				store := memrsm.New(memrsm.Stream, s)
				delays(store, []*Partition{remotePartition(t, s)}, map[string]time.Duration{"a": time.Second})
				r := newReader(t, policy, store, remotePartition(t, s))
				indexes, err := indexcache.New(indexcache.Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				r.indexes = indexes
				for _, patience := range []time.Duration{1500 * time.Millisecond, time.Hour, 10 * time.Millisecond, time.Hour} {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					req := all("a", 1000, 1000)
					req.Isolation = 1
					p := fetch(t, r, ctx, req)[0]
					cancel()
					if patience < time.Hour {
						continue
					}
					if want := []AbortedTransaction{{7, 2}}; p.Code != None || !slices.Equal(p.Aborted, want) {
						t.Errorf("%s: %v, aborted %v, want %v", name, p.Code, p.Aborted, want)
					}
				}
			})
		}
	}
}

// TestDefect5FetchMaxBytes (KAFKA-19462): an answer never exceeds the request's bytes but by one batch, the first.
func TestDefect5FetchMaxBytes(t *testing.T) { bounded(t, "abcdef", "") }

// TestDefect8MixedFetchMaxBytes (KAFKA-20019): and not where some of it is local.
func TestDefect8MixedFetchMaxBytes(t *testing.T) { bounded(t, "abcdef", "bde") }

// bounded asks with random budgets; batches have 1000 bytes.
func bounded(t *testing.T, names, local string) {
	rnd := rand.New(rand.NewPCG(5, 8))
	for name, policy := range policies {
		var segs []*segment
		var parts []*Partition
		for i, c := range names {
			s, p := topic(t, string(c), byte(i+1), 20)
			if slices.Contains([]rune(local), c) {
				withLocal(t, p, s)
			}
			segs, parts = append(segs, s), append(parts, p)
		}
		r := newReader(t, policy, memrsm.New(memrsm.Ranged, segs...), parts...)
		for range 50 {
			req := all(names, rnd.Int64N(30_000), 1+rnd.Int64N(10_000))
			total, first := int64(0), int64(0)
			for _, p := range fetch(t, r, context.Background(), req) {
				if n := int64(len(p.Records)); n > 0 {
					total += n
					first = max(first, 1000) // the first partition may have its first batch whatever it costs
				}
			}
			if total > max(req.MaxBytes, first) {
				t.Fatalf("%s: %d bytes for a request of %d, %d a partition", name, total, req.MaxBytes, req.Partitions[0].MaxBytes)
			}
		}
	}
}

// TestDefect6MinimumOnce (KAFKA-19795): in a request of many partitions the first that has data may exceed its allowance
// by a batch, and no other, be it local or remote.
func TestDefect6MinimumOnce(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "abc")
		local := kafkabytes.NewSegment(t, id("l"), 9, batch{Base: 0, Last: 9, Size: 1000})
		r := newReader(t, policy, store, append(parts, withLocal(t, remotePartition(t, local), local))...)
		for _, order := range []string{"abcl", "labc", "alcb"} {
			for i, p := range fetch(t, r, context.Background(), all(order, 100_000, 100)) {
				w := "[]"
				if i == 0 {
					w = "[0]"
				}
				want(t, fmt.Sprintf("%s, %s, %d", name, order, i), p, None, w)
			}
		}
	}
}

// TestDefect7NothingStays (KAFKA-19763): completed remote fetches stayed referenced, until memory was out. Here nothing of
// a request stays: not in the pool, not among late reads, not with the caller's context, which may live on.
func TestDefect7NothingStays(t *testing.T) {
	for name, policy := range policies {
		store, parts := topics(t, "ab")
		r := newReader(t, policy, store, parts...)
		r.SetWait(time.Minute)
		defer r.Close()
		ctx := &registry{Context: context.Background()}
		asked := func() weak.Pointer[FetchPartition] {
			req := all("ab", 10_000, 1000)
			req.Version, req.ReplicaID = 17, -1
			resp := r.Fetch(ctx, &req)
			want(t, name, resp.Partitions[0], None, "[0]")
			resp.Release()
			return weak.Make(&req.Partitions[0])
		}()
		r.late.wg.Wait()
		runtime.GC()
		if asked.Value() != nil {
			t.Errorf("%s: the request is still referenced", name)
		}
		if ctx.registered != 0 {
			t.Errorf("%s: %d functions stay with the context", name, ctx.registered)
		}
		if n := r.late.kept() + len(r.pool.clients) + r.pool.turn.Len() + r.pool.outside.Len(); n != 0 || r.buffers.InUse() != 0 {
			t.Errorf("%s: %d are left, with %d bytes", name, n, r.buffers.InUse())
		}
	}
}

// registry is a context that lives on, and counts what is registered with it.
type registry struct {
	context.Context
	mu         sync.Mutex
	registered int
}

func (c *registry) Done() <-chan struct{} { return make(chan struct{}) }

// AfterFunc is what context.AfterFunc calls.
func (c *registry) AfterFunc(func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered++
	return sync.OnceValue(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.registered--
		return true
	})
}

// TestDefect9TransactionIndexScans (KAFKA-16780): each read_committed fetch looked through the transaction indexes of all
// later segments. A segment that says its index is empty is not asked. Where none says so, as before 4.0, Kafka asks for
// all at each fetch, from its index cache; here the markers in the data say enough.
func TestDefect9TransactionIndexScans(t *testing.T) {
	for name, policy := range policies {
		for _, flagged := range []bool{true, false} {
			var segs []*segment
			for i := range int64(30) {
				s := tens(t, byte(i+1), 100*i, 10, 100)
				s.Meta.TxnIndexEmpty = flagged
				segs = append(segs, s)
			}
			store := memrsm.New(memrsm.Inline, segs...)
			r := newReader(t, policy, store, remotePartition(t, segs...))
			looked := func() (n int) {
				for _, c := range store.Calls() {
					if c.Index == abi.TransactionIndex {
						n++
					}
				}
				return n
			}
			for offset := int64(0); offset < 100; offset += 10 {
				want(t, name, committed(t, r, ask("a", offset, 100)), None, fmt.Sprintf("[%d]", offset))
			}
			most := 0
			if policy == Kafka43 && !flagged {
				most = 300 // what a store says that it has not is not kept
			}
			if n := looked(); n > most {
				t.Errorf("%s: flagged %v: %d indexes were asked for, want %d at most", name, flagged, n, most)
			}
		}
	}
}

// TestDefect10UpperBound (KAFKA-17801): the bound of the aborted transactions was counted from the segment's begin, and
// so missed those that begin in the batches that were read. It is the end of what was read; Kafka's is the next index
// entry behind it.
func TestDefect10UpperBound(t *testing.T) {
	s := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9}, batch{Base: 10, Last: 19}, txn(20, 29, 22), txn(30, 39, 31), batch{Base: 40, Last: 49},
		txn(50, 54, 45), kafkabytes.Marker(55, 22, false), kafkabytes.Marker(56, 31, false), kafkabytes.Marker(57, 45, false))
	s.Meta.TxnIndexEmpty = false
	for i, e := range []format.AbortedTxn{{ProducerID: 22, FirstOffset: 20}, {ProducerID: 31, FirstOffset: 30}, {ProducerID: 45, FirstOffset: 50}} {
		e.LastOffset, e.LastStableOffset = 55+int64(i), []int64{30, 50, 58}[i]
		s.TxnIndex = kafkabytes.AppendAborted(s.TxnIndex, e)
	}
	for policy, want := range map[Policy][]AbortedTransaction{Better: {{22, 20}}, Kafka43: {{22, 20}, {31, 30}}} {
		r := newReader(t, policy, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
		if got := committed(t, r, ask("a", 20, 100)); !slices.Equal(got.Aborted, want) {
			t.Errorf("20-29: aborted %v, want %v", got.Aborted, want)
		}
	}
}

// TestDefect11CompactedAway (KAFKA-15388): where an offset and all behind it in its segment was compacted away the answer
// was empty for ever. It comes from the next segment that holds something, over such as hold nothing at all.
func TestDefect11CompactedAway(t *testing.T) {
	a, empty, c := tens(t, 1, 0, 1, 100), tens(t, 2, 20, 1, 100), tens(t, 3, 30, 1, 100)
	a.Meta.EndOffset = 19
	empty.Log, empty.OffsetIndex, empty.Meta.SizeBytes = nil, nil, 0
	for name, policy := range policies {
		forms(t, func(t *testing.T, form memrsm.Form) {
			r := newReader(t, policy, memrsm.New(form, a, empty, c), remotePartition(t, a, empty, c))
			for _, offset := range []int64{10, 19, 20, 29, 30} {
				want(t, fmt.Sprint(name, ", offset ", offset), one(t, r, ask("a", offset, 100)), None, "[30]")
			}
		})
	}
}

// TestDefect12GapBeforeTheLocalLog (KAFKA-16088, open): where the last remote segment ends in compacted offsets, Kafka
// answers with nothing for ever. We go on in the local log.
func TestDefect12GapBeforeTheLocalLog(t *testing.T) {
	a, b := tens(t, 1, 0, 1, 100), tens(t, 2, 20, 2, 100)
	a.Meta.EndOffset = 19
	for policy, batches := range map[Policy]string{Better: "[20]", Kafka43: "[]"} {
		r := newReader(t, policy, memrsm.New(memrsm.Stream, a), withLocal(t, remotePartition(t, a), b))
		for range 3 {
			got := one(t, r, ask("a", 15, 100))
			want(t, "in the gap", got, None, batches)
			if got.HighWatermark != 40 {
				t.Errorf("high watermark %d", got.HighWatermark)
			}
		}
	}
}

// TestDefect28TimeLookupRace (KAFKA-17637, open): a local segment that is deleted between the look at the remote tier and
// that at the local one made a lookup by time give a later offset, or none. The partition that a lookup sees does not
// change under it: its files are open.
func TestDefect28TimeLookupRace(t *testing.T) {
	a := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9, Timestamp: 1000}, batch{Base: 10, Last: 19, Timestamp: 1500})
	b := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 20, Last: 29, Timestamp: 2000})
	c := kafkabytes.NewSegment(t, id("a"), 3, batch{Base: 30, Last: 39, Timestamp: 3000})
	a.Meta.MaxTimestampMs = 2500 // so that it is looked at first, in vain: the race's time
	for name, policy := range policies {
		p := withLocal(t, remotePartition(t, a, b), b, c)
		store := memrsm.New(memrsm.Inline, a, b)
		store.Before = func(context.Context, memrsm.Call) error {
			for _, ext := range []string{".log", ".index"} {
				os.Remove(filepath.Join(p.Local.Path, format.SegmentFileName(20, ext)))
			}
			return nil
		}
		r := newReader(t, policy, store, p)
		wantTime(t, name+", deleted meanwhile", r, 1800, "20 at 2000, epoch 0")
		after := newReader(t, policy, memrsm.New(memrsm.Inline, a, b), withLocal(t, remotePartition(t, a, b), c))
		if policy == Better { // Kafka looks in the first remote segment that may fit, and then locally
			wantTime(t, name+", deleted before", after, 1800, "20 at 2000, epoch 0")
		}
	}
}

// TestDefect29MaxTimestamp (KAFKA-17552, open): Kafka looks for the greatest timestamp in the local tier alone, we in both.
func TestDefect29MaxTimestamp(t *testing.T) {
	a := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9, Timestamp: 1000}, batch{Base: 10, Last: 19, Timestamp: 9000})
	b := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 20, Last: 29, Timestamp: 5000})
	for policy, found := range map[Policy]string{Better: "10 at 9000, epoch 0", Kafka43: "20 at 5000, epoch 0"} {
		r := newReader(t, policy, memrsm.New(memrsm.Stream, a), withLocal(t, remotePartition(t, a), b))
		wantTime(t, "the greatest", r, MaxTimestamp, found)
	}
}

// TestDefect30UnfinishedSegments (KAFKA-15802): a copy that failed has the times that are looked for, and no object. Its
// retry is looked at.
func TestDefect30UnfinishedSegments(t *testing.T) {
	failed, retry := tens(t, 1, 0, 2, 100), tens(t, 2, 0, 2, 100)
	for name, policy := range policies {
		p := remotePartition(t, retry)
		p.Remote = metadata(t, p.ID, append([]any{kafkabytes.Started(failed)}, kafkabytes.Finished(retry)...)...)
		store := memrsm.New(memrsm.Inline, retry)
		r := newReader(t, policy, store, p)
		wantTime(t, name, r, 500, "0 at 1000, epoch 0")
		for _, c := range store.Calls() {
			if c.Segment == failed.Meta.SegmentID {
				t.Errorf("%s: the failed copy was asked for", name)
			}
		}
	}
}

// TestDefect38NotKnownToBeGone (Aiven #663): OFFSET_OUT_OF_RANGE makes clients reset their position, and lose what is only
// not here: what is still copied, what a lineage that is not rebuilt does not reach, and what no segment holds between those that
// are there, where they would come again or pass over all that follows. Kafka says so to all; we say NOT_LEADER_OR_FOLLOWER, on
// which clients ask again. What is not of the log is out of range in both.
func TestDefect38NotKnownToBeGone(t *testing.T) {
	a, b := tens(t, 1, 0, 2, 100), tens(t, 2, 20, 2, 100)
	fenced := kafkabytes.NewSegment(t, id("a"), 3, batch{Base: 20, Last: 39, Epoch: 1})
	copying := append(kafkabytes.Finished(a), kafkabytes.Started(b))
	deleted := append(kafkabytes.Finished(a, b), kafkabytes.Update(b, format.DeleteSegmentStarted, 5000))
	for name, tt := range map[string]struct {
		events   []any
		lineage  []int64
		logStart int64
		offset   int64
		better   Code
	}{
		"being copied":                       {copying, []int64{0, 0}, 0, 25, NotLeaderOrFollower},
		"being copied, no epoch":             {copying, []int64{3, 50}, 0, 25, NotLeaderOrFollower},
		"the lineage begins later":           {kafkabytes.Finished(a, b), []int64{3, 30}, 0, 25, NotLeaderOrFollower},
		"no lineage at all":                  {kafkabytes.Finished(a, b), nil, 0, 25, NotLeaderOrFollower},
		"being deleted":                      {deleted, []int64{0, 0}, 0, 25, NotLeaderOrFollower},
		"never copied":                       {kafkabytes.Finished(a), []int64{0, 0}, 0, 25, NotLeaderOrFollower},
		"below the log start":                {copying, []int64{0, 0}, 30, 25, OffsetOutOfRange},
		"by a fenced leader":                 {kafkabytes.Finished(a, fenced), []int64{0, 0, 2, 20}, 0, 25, NotLeaderOrFollower},
		"by a fenced leader, being copied":   {append(kafkabytes.Finished(a), kafkabytes.Started(fenced)), []int64{0, 0, 2, 20}, 0, 25, NotLeaderOrFollower},
		"by a later leader, being copied":    {append(kafkabytes.Finished(a), kafkabytes.Started(fenced)), []int64{0, 0}, 0, 25, NotLeaderOrFollower},
		"beyond what is known, being copied": {copying, []int64{0, 0}, 0, 45, OffsetOutOfRange},
	} {
		for policy, code := range map[Policy]Code{Better: tt.better, Kafka43: OffsetOutOfRange} {
			p := remotePartition(t, a, b)
			p.Remote, p.Lineage, p.Offsets.LogStart = metadata(t, p.ID, tt.events...), lineage(tt.lineage...), tt.logStart
			r := newReader(t, policy, memrsm.New(memrsm.Inline, a), p)
			got := one(t, r, ask("a", tt.offset, 100))
			want(t, name, got, code, "[]")
			if kind := abi.KindOf(got.Err); (code == NotLeaderOrFollower) != (kind == abi.Unavailable) {
				t.Errorf("%s: kind %v of %v", name, kind, got.Err)
			}
		}
	}
	// A read that has something goes up to there, and the next one is told.
	p := remotePartition(t, a, b)
	p.Remote = metadata(t, p.ID, copying...)
	r := newReader(t, Better, memrsm.New(memrsm.Inline, a), p)
	want(t, "before it", one(t, r, ask("a", 5, 1000)), None, "[0 10]")
	want(t, "at it", one(t, r, ask("a", 20, 1000)), NotLeaderOrFollower, "[]")
}

// TestDefect41NothingPerPartition (KAFKA-20204): Kafka's meter of expired reads stays when its partition leaves the broker.
// There is no meter a partition here. What expires is kept by partition as a late read, and that ends by itself; the
// what is known of transactions is bounded in number.
func TestDefect41NothingPerPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const names = "abcdefgh"
		store, parts := topics(t, names)
		by := map[string]time.Duration{}
		for _, c := range names {
			by[string(c)] = time.Second
		}
		delays(store, parts, by)
		r := newReader(t, Better, store, parts...)
		r.SetWait(time.Millisecond)
		defer r.Close()
		for _, p := range fetch(t, r, context.Background(), all(names, math.MaxInt32, 1000)) {
			if !p.Late {
				t.Errorf("%s is not late", p.Topic)
			}
		}
		if n := r.late.kept(); n != len(names) {
			t.Errorf("%d late reads are kept, want %d", n, len(names))
		}
		r.catalog = partitions{} // they leave
		time.Sleep(lateKept + time.Second)
		synctest.Wait()
		if n := r.late.kept() + len(r.pool.clients); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
	var known stretches
	for i := range maxKnown + 100 {
		known.put(stretchKey{remote: abi.UUID{byte(i), byte(i >> 8), byte(i >> 16)}}, &stretch{list: make([]marker, 10)})
	}
	if n := known.lru.Len(); n*10 > maxMarkers || known.markers != n*10 {
		t.Errorf("%d stretches are kept, %d markers", n, known.markers)
	}
}

// kept is how many late reads wait for their retry.
func (l *lateReads) kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}

// TestDefect43SmallAllowance (KAFKA-15777): an allowance of 1 MiB is too little for a store that is tuned to larger ones.
// A store that answers with a location of its object is asked once, whatever the allowance is; and an allowance is filled
// over the ends of segments. What a store that answers with streams is asked for is the transfer's (row 39).
func TestDefect43SmallAllowance(t *testing.T) {
	a, b := tens(t, 1, 0, 32, 1000), tens(t, 2, 320, 32, 1000)
	for name, policy := range policies {
		store := memrsm.New(memrsm.Inline, a, b)
		r := newReader(t, policy, store, remotePartition(t, a, b))
		fetches := 0
		for next := int64(0); next < 640; fetches++ {
			p := one(t, r, ask("a", next, 3000))
			if p.Code != None || len(p.Records) == 0 {
				t.Fatalf("%s: offset %d: %v", name, next, p.Err)
			}
			next = consume(p.Records, next, new([]int64))
		}
		logs := 0
		for _, c := range store.Calls() {
			if c.Index == 0 {
				logs++
			}
		}
		if logs != 2 {
			t.Errorf("%s: the store was asked %d times for two segments in %d fetches", name, logs, fetches)
		}
		if policy == Better && fetches != 22 { // 64 batches, three a fetch
			t.Errorf("%d fetches, want 22", fetches)
		}
	}
}
