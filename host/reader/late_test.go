package reader

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// slowStore answers each call for a log after delay.
func slowStore(delay time.Duration, segs ...*segment) *memrsm.Store {
	store := memrsm.New(memrsm.Inline, segs...)
	store.Before = func(ctx context.Context, c memrsm.Call) error {
		select {
		case <-time.After(delay):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return store
}

func twoParts(t testing.TB, delay time.Duration) (*memrsm.Store, *segment, *Partition) {
	seg := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9}, batch{Base: 10, Last: 19})
	return slowStore(delay, seg), seg, remotePartition(t, seg)
}

// TestDefect3SlowStoreIsReadOnce (KAFKA-15776): a store slower than the wait costs empty answers, and then the retry is
// answered from what came; the bytes are asked for once.
func TestDefect3SlowStoreIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seg, part := twoParts(t, 2100*time.Millisecond)
		r := newReader(t, Better, store, part)
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		rounds := 0
		for ; rounds < 10; rounds++ {
			began := time.Now()
			p := one(t, r, ask("a", 0, 1<<20))
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Fatalf("answered after %v, the wait is 500 ms", took)
			}
			if len(p.Records) > 0 {
				if string(p.Records) != string(seg.Log) {
					t.Error("other bytes than the segment's")
				}
				break
			}
			if !p.Late || p.Code != None || p.HighWatermark != 20 {
				t.Fatalf("round %d: late %v, %v, high watermark %d", rounds, p.Late, p.Code, p.HighWatermark)
			}
		}
		if rounds != 4 { // ready after 2.1 s
			t.Errorf("data in round %d, want 4", rounds)
		}
		if n := len(store.Calls()); n != 1 {
			t.Errorf("the store was asked %d times, want once", n)
		}
	})
}

// TestD5ExpiryAnswersWhatIsReady: one of two is ready at the end of the wait: its data goes out, the other is empty with
// its own high watermark, and not cancelled (Kafka cancels it).
func TestD5ExpiryAnswersWhatIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9})
		slow := kafkabytes.NewSegment(t, id("b"), 2, batch{Base: 0, Last: 9})
		store := memrsm.New(memrsm.Inline, fast, slow)
		store.Before = func(ctx context.Context, c memrsm.Call) error {
			if c.Segment == slow.Meta.SegmentID {
				time.Sleep(time.Second)
			}
			return nil
		}
		r := newReader(t, Better, store, remotePartition(t, fast), remotePartition(t, slow))
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		parts := fetch(t, r, context.Background(), FetchRequest{MaxBytes: math.MaxInt32, Partitions: []FetchPartition{ask("b", 0, 1000), ask("a", 0, 1000)}})
		if p := parts[0]; !p.Late || len(p.Records) > 0 || p.HighWatermark != 10 {
			t.Errorf("the slow one: %+v", p)
		}
		if p := parts[1]; p.Late || string(p.Records) != string(fast.Log) {
			t.Errorf("the fast one: late %v, %d bytes", p.Late, len(p.Records))
		}
		time.Sleep(time.Second)
		if p := one(t, r, ask("b", 0, 1000)); p.Late || string(p.Records) != string(slow.Log) {
			t.Errorf("the retry: late %v, %d bytes", p.Late, len(p.Records))
		}
	})
}

// TestLateReadIsDroppedWhenNobodyAsks: what nobody asks for again lets go of its bytes after a minute.
func TestLateReadIsDroppedWhenNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, part := twoParts(t, time.Second)
		r := newReader(t, Better, store, part)
		r.SetWait(time.Millisecond)
		if p := one(t, r, ask("a", 0, 1<<20)); !p.Late {
			t.Fatal("not late")
		}
		time.Sleep(2 * time.Second)
		if r.buffers.InUse() == 0 {
			t.Error("the late read holds no bytes")
		}
		time.Sleep(lateKept)
		synctest.Wait()
		if n := r.buffers.InUse(); n != 0 {
			t.Errorf("%d bytes are held after %v", n, lateKept)
		}
	})
}

// TestLateReadIsCutToTheRetry: a retry with a smaller allowance gets whole batches of what came, and the rest is not lost.
func TestLateReadIsCutToTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seg, part := twoParts(t, time.Second)
		r := newReader(t, Better, store, part)
		r.SetWait(time.Millisecond)
		defer r.Close()
		one(t, r, ask("a", 0, 1<<20))
		time.Sleep(2 * time.Second)
		half := int64(len(seg.Log)) / 2
		if p := one(t, r, ask("a", 0, half)); string(p.Records) != string(seg.Log[:half]) {
			t.Errorf("%d bytes, want %d", len(p.Records), half)
		}
	})
}

// TestCallerWhoGivesUpEndsTheRead: a request's own end is no wait: its read is cancelled and told as what it is.
func TestCallerWhoGivesUpEndsTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, part := twoParts(t, time.Hour)
		r := newReader(t, Better, store, part)
		r.SetWait(time.Minute)
		defer r.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p := fetch(t, r, ctx, FetchRequest{MaxBytes: 1000, Partitions: []FetchPartition{ask("a", 0, 1000)}})[0]
		if p.Code != KafkaStorageError || !errors.Is(p.Err, context.DeadlineExceeded) {
			t.Errorf("got %v: %v", p.Code, p.Err)
		}
	})
}

// TestCloseEndsLateReads: nothing runs on behind Close.
func TestCloseEndsLateReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, part := twoParts(t, time.Hour)
		r := newReader(t, Better, store, part)
		r.SetWait(time.Millisecond)
		one(t, r, ask("a", 0, 1000))
		r.Close()
	})
}

// TestM7KafkaThrowsLateReadsAway: with Kafka's policy the retry begins anew.
func TestM7KafkaThrowsLateReadsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _, part := twoParts(t, time.Second)
		r := newReader(t, Kafka43, store, part)
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		for range 3 {
			if p := one(t, r, ask("a", 0, 1000)); len(p.Records) > 0 || p.Code != None {
				t.Fatal("data came through")
			}
		}
		if n := len(store.Calls()); n != 3 {
			t.Errorf("asked %d times, want 3", n)
		}
	})
}

// TestReadCommittedOfASlowStore: records, and the list of aborted transactions behind them, have each their own time; where that
// of the list is over, the retry goes on with it, and no record is read twice.
func TestReadCommittedOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := transactionLog(t, 0)
		store := slowStore(40*time.Second, first, second)
		r := newReader(t, Better, store, remotePartition(t, first, second))
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		began, failed := time.Now(), 0
		for {
			p := committed(t, r, ask("a", 0, int64(len(first.Log))))
			if len(p.Records) > 0 {
				if s := delivered(t, p); s != "[20 30]" {
					t.Errorf("delivered %s", s)
				}
				break
			}
			if p.Code != None {
				failed++
			}
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("nothing after %v: %v", time.Since(began), p.Err)
			}
		}
		logs := 0
		for _, c := range store.Calls() {
			if c.Index == 0 && c.Segment == first.Meta.SegmentID {
				logs++
			}
		}
		if logs != 1 || failed > 2 {
			t.Errorf("the records were asked for %d times, and the client was told of %d failures", logs, failed)
		}
	})
}

// TestLateReadEndsWithWhatItHas: a read whose request was answered without it goes on into no further segment.
func TestLateReadEndsWithWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var segs []*segment
		for i := range int64(30) {
			segs = append(segs, tens(t, byte(i+1), 10*i, 1, 100))
		}
		r := newReader(t, Better, slowStore(300*time.Millisecond, segs...), remotePartition(t, segs...))
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		began := time.Now()
		for {
			if p := one(t, r, ask("a", 0, 1<<20)); len(p.Records) > 0 {
				want(t, "what came first", p, None, "[0 10]")
				break
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the first records came after %v", took)
		}
	})
}
