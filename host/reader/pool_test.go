package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// TestPoolIsFairBetweenClients lets one client fill the queue and another come late: they are served in turn.
func TestPoolIsFairBetweenClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 100)
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		begin := func(client string) {
			wg.Go(func() {
				err := p.do(context.Background(), client, func(*turn) {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					order = append(order, client)
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 4 {
			begin("greedy")
		}
		begin("late")
		begin("late")
		wg.Wait()
		if want := []string{"greedy", "greedy", "late", "greedy", "late", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("served %v, want %v", order, want)
		}
	})
}

// TestM6ReaderMetrics: 2 threads, 5 reads: 2 run, 3 wait (Kafka's testRemoteLogReaderMetrics).
func TestM6ReaderMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { p.do(context.Background(), fmt.Sprint(i), func(*turn) { time.Sleep(time.Second) }) })
		}
		synctest.Wait()
		if got, want := p.stats(), (PoolStats{Threads: 2, Running: 2, Queued: 3}); got != want {
			t.Errorf("busy: %+v, want %+v", got, want)
		}
		wg.Wait()
		if got, want := p.stats(), (PoolStats{Threads: 2}); got != want {
			t.Errorf("idle: %+v, want %+v", got, want)
		}
	})
}

// TestPoolFullQueueWaitsOutside: where Kafka answers UNKNOWN_SERVER_ERROR, callers wait until their deadline.
func TestPoolFullQueueWaitsOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 1)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := p.do(context.Background(), "", func(*turn) { time.Sleep(time.Second) }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if got, want := p.stats(), (PoolStats{Threads: 1, Running: 1, Queued: 1, Outside: 1}); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		err := p.do(ctx, "", func(*turn) { t.Error("ran after its deadline") })
		if !errors.Is(err, abi.Deadline) {
			t.Errorf("got %v, want DEADLINE", err)
		}
		wg.Wait()
		if got := p.stats(); got.Running+got.Queued+got.Outside != 0 {
			t.Errorf("somebody is left: %+v", got)
		}
	})
}

// TestPoolResize grows and shrinks while reads run.
func TestPoolResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 100)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { p.do(context.Background(), "", func(*turn) { time.Sleep(time.Second) }) })
		}
		synctest.Wait()
		p.resize(4, 100)
		synctest.Wait()
		if got := p.stats().Running; got != 4 {
			t.Errorf("%d run after growing, want 4", got)
		}
		p.resize(1, 100)
		wg.Wait()
	})
}

// TestQuotaNumbers are those of Kafka's RLMQuotaManagerTest.
func TestQuotaNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(QuotaConfig{BytesPerSecond: 50}, nil)
		q.record(500)
		for _, step := range []struct{ after, want time.Duration }{
			{time.Second, 9 * time.Second}, {8 * time.Second, time.Second}, {time.Second, 0},
		} {
			time.Sleep(step.after)
			if got := q.throttle(); got != step.want {
				t.Errorf("throttle %v, want %v", got, step.want)
			}
		}
		q = newQuota(QuotaConfig{BytesPerSecond: 50}, nil)
		q.record(51)
		for _, step := range []struct {
			bound    int64
			exceeded bool
		}{{50, true}, {60, false}, {40, true}} {
			q.setBound(step.bound)
			if got := q.throttle() > 0; got != step.exceeded {
				t.Errorf("bound %d: exceeded %v, want %v", step.bound, got, step.exceeded)
			}
		}
	})
}

// TestDefect24QuotaIsReservedBeforeTheRead: ten reads at once may not overshoot: each waits for those before it.
func TestDefect24QuotaIsReservedBeforeTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(QuotaConfig{BytesPerSecond: 1000}, nil)
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := q.reserve(context.Background(), 2000); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took < 17*time.Second { // 20,000 bytes, the first 2,000 at once
			t.Errorf("20,000 bytes were let through in %v at 1,000 a second", took)
		}
	})
}

// TestQuotaGivesBackWhatWasNotTaken: a small answer does not cost its allowance.
func TestQuotaGivesBackWhatWasNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuota(QuotaConfig{BytesPerSecond: 1000}, nil)
		if _, err := q.reserve(context.Background(), 1<<20); err != nil {
			t.Fatal(err)
		}
		q.settle(1<<20, 100)
		if got := q.throttle(); got != 0 {
			t.Errorf("throttled for %v after 100 bytes", got)
		}
		q.record(1 << 20)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := q.reserve(ctx, 1); !errors.Is(err, abi.Throttled) {
			t.Errorf("got %v, want THROTTLED", err)
		}
	})
}

// TestQuotaOfABoundThatComesAndGoes: reads that run while the bound changes cost what they took, and give back only what was charged.
func TestQuotaOfABoundThatComesAndGoes(t *testing.T) {
	for name, tt := range map[string]struct {
		at, meanwhile, then int64 // the bound when the read begins, while it runs, and when it ends
		rate                float64
	}{
		"it stays":         {1000, 1000, 1000, 500},
		"there is none":    {0, 0, 0, 0},
		"it comes":         {0, 1000, 1000, 500},
		"it goes":          {1000, 0, 0, 500},
		"it came and went": {0, 1000, 0, 0},
		"it was away":      {1000, 0, 1000, 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQuota(QuotaConfig{BytesPerSecond: tt.at}, nil)
			charged, err := q.reserve(context.Background(), 1_000_000)
			if err != nil {
				t.Fatal(err)
			}
			q.setBound(tt.meanwhile)
			q.setBound(tt.then)
			q.settle(charged, 500)
			if got := q.rate(); got != tt.rate {
				t.Errorf("%s: %v bytes/s after a read of 500, want %v", name, got, tt.rate)
			}
		})
	}
}

// TestQuotaWakesThoseWhoWait: a read with a large allowance and a small answer. Who began to wait while it ran waits for what it took,
// and not for its allowance, which would be a quarter of an hour.
func TestQuotaWakesThoseWhoWait(t *testing.T) {
	for name, change := range map[string]func(q *quota){
		"given back":   func(q *quota) { q.settle(1_000_000, 10) },
		"a larger one": func(q *quota) { q.setBound(1_000_000_000) },
		"no bound":     func(q *quota) { q.setBound(0) },
		"no change":    nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQuota(QuotaConfig{BytesPerSecond: 1000}, nil)
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if _, err := q.reserve(ctx, 1_000_000); err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() { // ends with the reserve, which done waits for
				_, err := q.reserve(ctx, 10)
				done <- err
			}()
			time.Sleep(2 * time.Second)
			if change != nil {
				change(q)
			}
			err, took := <-done, time.Since(began)
			if change != nil && (err != nil || took > 2*time.Second) || change == nil && (err == nil || took < time.Minute) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}
