package reader

import "time"

const (
	// paceSlack is how far the beginnings of reads may run ahead of their pace: a timer that is finer than this is no use.
	paceSlack = time.Millisecond
	// paceMost bounds the time between two of them: it is enough to be apart.
	paceMost = 5 * time.Millisecond
)

// pace spreads the beginnings of the reads that waited in the queue. A store that takes the same time for each ends at one
// moment all reads that began at one moment, and the reads that take their places would again begin at one moment, for ever:
// all cores are idle until all readers, the plugin and the clients want them for a millisecond or two, in which a local read
// waits. Beginnings that are apart by nine tenths of a reader's share of a read's time stay apart by themselves, since no more reads
// a second end than may begin, and hold nobody up after the first rounds.
//
// The zero value is good. It is guarded by pool.mu.
type pace struct {
	took time.Duration // of a read: a moving mean
	next time.Time     // when the next one may begin
}

// gap is the time between two beginnings.
func (p *pace) gap(threads int) time.Duration {
	return min(p.took*9/time.Duration(10*threads), paceMost)
}

// wait is how long from now the next read must not begin yet; 0: it may begin.
func (p *pace) wait(now time.Time) time.Duration {
	return max(0, p.next.Sub(now.Add(paceSlack)))
}

// began takes note of a read that begins.
func (p *pace) began(now time.Time, threads int) {
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(p.gap(threads))
}

// ended takes note of how long a read took.
func (p *pace) ended(took time.Duration) {
	if p.took == 0 {
		p.took = took
		return
	}
	p.took += (took - p.took) / 8
}
