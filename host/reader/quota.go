package reader

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/tally"
)

// QuotaConfig is the fetch quota of remote reads (KIP-956): remote.log.manager.fetch.max.bytes.per.second and its
// windows. The zero value has no bound.
type QuotaConfig struct {
	BytesPerSecond int64         // 0: no bound
	Windows        int           // 0: 11
	Window         time.Duration // 0: 1 s
}

// quota measures the rate of remote reads over a few windows. A read reserves its allowance before it runs and gives back
// what it did not take; Kafka checks before and records after, so that bursts overshoot (KAFKA-19968).
type quota struct {
	cfg QuotaConfig
	now func() time.Time

	throttled tally.Histogram // waits until the rate allowed a read

	mu      sync.Mutex
	samples []sample      // oldest first
	eased   chan struct{} // closed when those who wait may have to wait less; nil: nobody waits
}

// sample is what was recorded in one window.
type sample struct {
	began time.Time
	bytes int64
}

func newQuota(cfg QuotaConfig, now func() time.Time) *quota {
	if cfg.Windows <= 0 {
		cfg.Windows = 11
	}
	if cfg.Window <= 0 {
		cfg.Window = time.Second
	}
	if now == nil {
		now = time.Now
	}
	return &quota{cfg: cfg, now: now}
}

// setBound changes the bound at run time; 0: none.
func (q *quota) setBound(bytesPerSecond int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cfg.BytesPerSecond = bytesPerSecond
	q.easeLocked()
}

// easeLocked has those who wait look again.
func (q *quota) easeLocked() {
	if q.eased != nil {
		close(q.eased)
		q.eased = nil
	}
}

// throttle is how long the rate must rest to come back to the bound; 0 while it is not above.
func (q *quota) throttle() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.throttleLocked(q.now())
}

func (q *quota) throttleLocked(now time.Time) time.Duration {
	q.purgeLocked(now)
	if q.cfg.BytesPerSecond <= 0 || len(q.samples) == 0 {
		return 0
	}
	elapsed := max(now.Sub(q.samples[0].began), q.cfg.Window)
	total := int64(0)
	for _, s := range q.samples {
		total += s.bytes
	}
	bound := float64(q.cfg.BytesPerSecond)
	rate := float64(total) / elapsed.Seconds()
	if rate <= bound {
		return 0
	}
	return time.Duration(math.Round((rate-bound)/bound*float64(elapsed.Milliseconds()))) * time.Millisecond
}

func (q *quota) purgeLocked(now time.Time) {
	oldest := now.Add(-time.Duration(q.cfg.Windows) * q.cfg.Window)
	for len(q.samples) > 0 && !q.samples[0].began.After(oldest) {
		q.samples = q.samples[1:]
	}
}

// record adds bytes to the window at hand; a negative number gives back what was reserved.
func (q *quota) record(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recordLocked(q.now(), bytes)
}

func (q *quota) recordLocked(now time.Time, bytes int64) {
	if n := len(q.samples); n > 0 && now.Sub(q.samples[n-1].began) < q.cfg.Window {
		q.samples[n-1].bytes += bytes
		return
	}
	q.samples = append(q.samples, sample{now, bytes})
}

// reserve waits until the rate allows a read and charges its allowance; nothing is charged while there is no bound. An error is
// THROTTLED: the deadline came first, and nothing was charged.
func (q *quota) reserve(ctx context.Context, bytes int64) (charged int64, err error) {
	began, waited := q.now(), false
	defer func() {
		if waited {
			q.throttled.Observe(q.now().Sub(began))
		}
	}()
	for ; ; waited = true {
		q.mu.Lock()
		if q.cfg.BytesPerSecond <= 0 {
			q.mu.Unlock()
			return 0, nil
		}
		now := q.now()
		wait := q.throttleLocked(now)
		if wait == 0 {
			q.recordLocked(now, bytes)
			q.mu.Unlock()
			return bytes, nil
		}
		if q.eased == nil {
			q.eased = make(chan struct{})
		}
		eased := q.eased
		q.mu.Unlock()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-eased:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			waited = true
			err := abi.Errorf("remote read", "", abi.Throttled, "the fetch quota is used up: %w", context.Cause(ctx))
			err.RetryAfter = wait
			return 0, err
		}
	}
}

// settle makes of what was charged for a read what it took. Those who wait may have the rest at once: what was reserved may be for
// many minutes, and they would end with their deadline. The bound may have come or gone while the read ran: what was not charged is
// not given back.
func (q *quota) settle(charged, took int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cfg.BytesPerSecond <= 0 && charged == 0 || took == charged {
		return
	}
	q.recordLocked(q.now(), took-charged)
	if took < charged {
		q.easeLocked()
	}
}
