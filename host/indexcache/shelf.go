package indexcache

import (
	"math"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
)

type key struct {
	seg abi.UUID
	typ abi.IndexType
}

// shelf is what is kept, in the order in which it was used, bounded by bytes and by the time since. Whoever has it locks.
type shelf[V any] struct {
	lru   *simplelru.LRU[key, *item[V]]
	bytes int64
	limit int64
	ttl   time.Duration // negative: nothing expires
}

type item[V any] struct {
	v    V
	size int64
	used time.Time
}

// newShelf makes a shelf; gone is told of each that leaves it.
func newShelf[V any](limit int64, ttl time.Duration, gone func(v V, size int64)) (*shelf[V], error) {
	s := &shelf[V]{limit: limit, ttl: ttl}
	var err error
	s.lru, err = simplelru.NewLRU(math.MaxInt32, func(_ key, it *item[V]) {
		s.bytes -= it.size
		gone(it.v, it.size)
	})
	return s, err
}

// get gives what is kept and has not expired. It is the newest then.
func (s *shelf[V]) get(k key, now time.Time) (v V, ok bool) {
	s.expire(now)
	it, ok := s.lru.Get(k)
	if !ok {
		return v, false
	}
	it.used = now
	return it.v, true
}

// add keeps v in place of what k had, and lets the oldest go while there are too many bytes. One that is larger than the
// limit stays until another comes: else each read of it would fetch it anew.
func (s *shelf[V]) add(k key, v V, size int64, now time.Time) {
	s.expire(now)
	s.lru.Remove(k)
	s.bytes += size
	s.lru.Add(k, &item[V]{v, size, now})
	for s.bytes > s.limit && s.lru.Len() > 1 {
		s.lru.RemoveOldest()
	}
}

// resize changes the limit, and holds to it at once.
func (s *shelf[V]) resize(limit int64) {
	s.limit = limit
	s.shrink(s.bytes - limit)
}

// shrink lets the oldest go until n bytes are gone.
func (s *shelf[V]) shrink(n int64) {
	for target := s.bytes - n; s.bytes > target && s.lru.Len() > 0; {
		s.lru.RemoveOldest()
	}
}

// expire lets go what was not used within the ttl: the oldest are in front.
func (s *shelf[V]) expire(now time.Time) {
	for s.ttl >= 0 {
		_, it, ok := s.lru.GetOldest()
		if !ok || now.Sub(it.used) < s.ttl {
			return
		}
		s.lru.RemoveOldest()
	}
}
