package reader

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	now := time.Now()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		took    time.Duration
		threads int
		want    []time.Duration // waits of reads that want to begin at once
	}{
		"nothing is known yet":   {0, 10, []time.Duration{0, 0, 0}},
		"a fast store":           {200 * time.Microsecond, 10, []time.Duration{0, 0, 0, 0, 0}},
		"30 ms":                  {30 * ms, 10, []time.Duration{0, 1700 * time.Microsecond, 4400 * time.Microsecond, 7100 * time.Microsecond}},
		"a slow store, few":      {2 * time.Second, 2, []time.Duration{0, 4 * ms, 9 * ms}},
		"a slow store, very few": {2 * time.Second, 1, []time.Duration{0, 4 * ms}},
	} {
		p := pace{}
		if tt.took > 0 {
			p.ended(tt.took)
		}
		for i, want := range tt.want {
			got := p.wait(now)
			if got != want {
				t.Errorf("%s: read %d waits %v, want %v", name, i, got, want)
			}
			p.began(now.Add(got), tt.threads)
		}
		if got := p.wait(now.Add(time.Minute)); got != 0 {
			t.Errorf("%s: a minute later it waits %v", name, got)
		}
	}
}

func TestPaceFollowsTheStore(t *testing.T) {
	p := pace{}
	p.ended(time.Second)
	for range 100 {
		p.ended(time.Millisecond)
	}
	if p.took > 2*time.Millisecond {
		t.Errorf("the mean is %v after a hundred reads of 1 ms", p.took)
	}
}

// TestPoolSpreadsReads: a store that takes 30 ms for each read ends at one moment those that began at one moment. Those that
// waited for their places do not begin at one moment again, and no time is lost by that after the first round.
func TestPoolSpreadsReads(t *testing.T) {
	const threads, rounds, took = 10, 20, 30 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p := newPool(threads, 1000)
		var mu sync.Mutex
		var ends []time.Time
		var wg sync.WaitGroup
		began := time.Now()
		for range threads * rounds {
			wg.Go(func() {
				err := p.do(context.Background(), "", func(t *turn) {
					defer t.tell()
					time.Sleep(took)
					mu.Lock()
					defer mu.Unlock()
					ends = append(ends, time.Now())
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if whole, least := time.Since(began), rounds*took; whole > least+took {
			t.Errorf("%d rounds took %v, want %v and one more at most", rounds, whole, least)
		}
		slices.SortFunc(ends, time.Time.Compare)
		together := 0
		for i := threads; i < len(ends); i++ { // the first round began together
			if ends[i].Sub(ends[i-1]) < 500*time.Microsecond {
				together++
			}
		}
		if together > rounds {
			t.Errorf("%d of %d reads ended together with another", together, len(ends))
		}
	})
}
