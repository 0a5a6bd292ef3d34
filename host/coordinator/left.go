package coordinator

import (
	"net"
	"sync"
	"time"
)

const (
	// maxLeft is how many waits go on without their clients, as many as max.connections by default. One more ends at once.
	maxLeft = 1000
	// stayFor ends one at the latest: kfake never answers a member that is gone there. A rebalance lasts as long as the most patient
	// member of its group wants, which may be more than the one that waits; one of more than this leaves that one in for ever.
	stayFor = sessionMax
)

// left are the waits in JoinGroup and SyncGroup whose clients went. kfake does not look for those: a member whose
// connection ended is taken into the next generation all the same, but its session begins when its answer is taken, so that it
// would never end, nor would anybody else be assigned what it was. And one whose session ends while it waits in SyncGroup is
// counted out of those that join, of whom it is none: the next rebalance would last as long as it may. So each such wait goes
// on, over its connection, until it is answered.
type left struct {
	wg sync.WaitGroup

	mu    sync.Mutex               // guards what follows
	waits map[string]chan struct{} // by the ledger's key of the member: closed when nobody needs it any more
}

// stay takes over the wait of a member whose client went, with its connection, and reports whether it does. stop is called when
// it is over.
func (l *left) stay(key string, nc net.Conn, answered <-chan error, draining <-chan struct{}, stop func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waits) >= maxLeft {
		return false
	}
	if l.waits == nil {
		l.waits = map[string]chan struct{}{}
	}
	l.endLocked(key)
	ended := make(chan struct{})
	l.waits[key] = ended
	l.wg.Go(func() { // ends after a time, and on draining; close waits for wg
		defer stop()
		timer := time.NewTimer(stayFor)
		defer timer.Stop()
		select {
		case <-answered:
			answered = nil
		case <-ended:
		case <-draining:
		case <-timer.C:
		}
		nc.Close()
		if answered != nil {
			<-answered
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waits[key] == ended {
			delete(l.waits, key)
		}
	})
	return true
}

// end ends the wait of a member whose client is there again.
func (l *left) end(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(key)
}

func (l *left) endLocked(key string) {
	if ended, ok := l.waits[key]; ok {
		close(ended)
		delete(l.waits, key)
	}
}
