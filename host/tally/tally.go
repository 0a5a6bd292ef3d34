// Package tally counts what happens where it happens: with atomics, without memory for each event, and without knowing who
// will ask. Rooms give what they counted as values; turning those into metrics is somebody else's.
//
// # Concurrency
//
// Everything here is safe for concurrent use. Values that are read together need not be of the same moment.
package tally

import (
	"sync"
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of a Histogram's buckets; what is longer than the last has a bucket of its own. A read from
// the page cache takes 0.1 ms, one from an object store 30 ms and more, one that somebody complains of seconds.
var Bounds = [...]time.Duration{50 * time.Microsecond, 250 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond,
	100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Minute}

// Histogram counts durations by Bounds. The zero value is empty.
type Histogram struct {
	buckets [len(Bounds) + 1]atomic.Int64
	sum     atomic.Int64
}

// Durations is what a Histogram holds at one moment.
type Durations struct {
	Count   int64
	Sum     time.Duration
	Buckets [len(Bounds)]int64 // by Bounds, cumulative: those that took that long or less
}

// Observe counts a duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(Bounds) && d > Bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// Durations gives what was counted.
func (h *Histogram) Durations() Durations {
	d := Durations{Sum: time.Duration(h.sum.Load())}
	for i := range h.buckets {
		d.Count += h.buckets[i].Load()
		if i < len(d.Buckets) {
			d.Buckets[i] = d.Count
		}
	}
	return d
}

// Table holds a value of counters for each key. The zero value has no bound.
type Table[K comparable, V any] struct {
	Max  int // of keys; 0: any number. What comes beyond them shares Rest
	Rest V

	mu sync.RWMutex
	of map[K]*V
}

// At gives the counters of k, which it makes where there are none; Rest where there is no room for more.
func (t *Table[K, V]) At(k K) *V {
	t.mu.RLock()
	v, ok := t.of[k]
	t.mu.RUnlock()
	if ok {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok = t.of[k]; ok {
		return v
	}
	if t.Max > 0 && len(t.of) >= t.Max {
		return &t.Rest
	}
	if t.of == nil {
		t.of = map[K]*V{}
	}
	v = new(V)
	t.of[k] = v
	return v
}

// Each gives all keys with their counters, in no order. fn must not use the table.
func (t *Table[K, V]) Each(fn func(K, *V)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for k, v := range t.of {
		fn(k, v)
	}
}

// Keep drops the counters of all keys but those that keep names.
func (t *Table[K, V]) Keep(keep func(K) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.of {
		if !keep(k) {
			delete(t.of, k)
		}
	}
}
