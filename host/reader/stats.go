package reader

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/tally"
)

// Stats is how busy a Reader is, and what it has done since it was made.
type Stats struct {
	Pool   PoolStats
	Topics map[string]TopicStats

	FetchesWaiting int64 // requests that wait for remote reads now
	OffsetsWaiting int64 // ListOffsets that run now
	LateLeft       int64 // remote reads that were not ready when their request was answered
	LateAnswered   int64 // requests that such a read answered later
	LateKept       int   // reads that are kept for that now
	OffsetsExpired int64 // lookups of offsets that their deadline ended

	RemoteReads tally.Durations // by how long a remote read ran, without its wait for a reader
	RemoteWaits tally.Durations // by how long a request waited for its remote reads
	Throttled   tally.Durations // by how long a read waited for the quota; those that did not wait are not in it
	ByteRate    float64         // of remote reads over the quota's windows, bytes a second; 0 without a quota
}

// TopicStats is what was read of a topic.
type TopicStats struct {
	RemoteBytes    int64 // that remote reads gave, also for answers that came too late
	RemoteRequests int64 // remote reads that were begun
	RemoteErrors   int64 // of them: those that failed, but for an offset out of range
	LocalBytes     int64 // from the local tier
	Lookups        int64 // of a segment by leader epoch and offset
}

// topicCounts are TopicStats while they grow.
type topicCounts struct{ remoteBytes, requests, failures, localBytes, lookups atomic.Int64 }

// counts are a Reader's Stats while they grow.
type counts struct {
	topics                                                tally.Table[string, topicCounts]
	fetching, asking, lateLeft, lateAnswered, offsetsLate atomic.Int64
	remoteReads, remoteWaits                              tally.Histogram
}

// Stats tells how busy the reader is and what it did. Topics that served does not name are forgotten.
func (r *Reader) Stats(served func(topic string) bool) Stats {
	c := &r.counts
	s := Stats{Pool: r.pool.stats(), Topics: map[string]TopicStats{}, FetchesWaiting: c.fetching.Load(), OffsetsWaiting: c.asking.Load(),
		LateLeft: c.lateLeft.Load(), LateAnswered: c.lateAnswered.Load(), LateKept: r.late.len(), OffsetsExpired: c.offsetsLate.Load(),
		RemoteReads: c.remoteReads.Durations(), RemoteWaits: c.remoteWaits.Durations(), Throttled: r.quota.throttled.Durations(), ByteRate: r.quota.rate()}
	c.topics.Keep(served)
	c.topics.Each(func(topic string, t *topicCounts) {
		s.Topics[topic] = TopicStats{RemoteBytes: t.remoteBytes.Load(), RemoteRequests: t.requests.Load(), RemoteErrors: t.failures.Load(),
			LocalBytes: t.localBytes.Load(), Lookups: t.lookups.Load()}
	})
	return s
}

// topic gives a partition's counters.
func (c *counts) topic(p *Partition) *topicCounts { return c.topics.At(p.ID.Topic) }

// ran counts a remote read that has ended.
func (c *counts) ran(rd *read, err error) {
	t := c.topic(rd.part)
	if !rd.began.IsZero() {
		c.remoteReads.Observe(time.Since(rd.began))
	}
	if err == nil {
		t.remoteBytes.Add(rd.acc.remote)
		t.localBytes.Add(rd.acc.len() - rd.acc.remote)
	}
	if err != nil && !errors.Is(err, errNoSegment) && abi.KindOf(err) != abi.Cancelled {
		t.failures.Add(1)
	}
}

// answered counts what came from the local tier without a remote read.
func (c *counts) answered(rd *read) {
	if rd.part != nil && rd.out.Size() > 0 && !rd.out.Remote {
		c.topic(rd.part).localBytes.Add(rd.out.Size())
	}
}

// expired counts lookups of offsets whose time was over.
func (c *counts) expired(found []OffsetData) []OffsetData {
	for i := range found {
		if found[i].Code == RequestTimedOut {
			c.offsetsLate.Add(1)
		}
	}
	return found
}

// waited counts a request that has waited for its remote reads.
func (c *counts) waited(began time.Time) {
	c.fetching.Add(-1)
	c.remoteWaits.Observe(time.Since(began))
}

// len is how many reads are kept for a retry.
func (l *lateReads) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}

// rate is the rate of remote reads over the windows, in bytes a second.
func (q *quota) rate() float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.purgeLocked(now)
	if len(q.samples) == 0 {
		return 0
	}
	total := int64(0)
	for _, s := range q.samples {
		total += s.bytes
	}
	return max(0, float64(total)/max(now.Sub(q.samples[0].began), q.cfg.Window).Seconds())
}
