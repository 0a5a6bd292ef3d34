package reader

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
)

// lateKept is how long the result of a read that came too late waits for the client to ask again. Clients ask at once; a
// minute covers one that was paused by its application.
const lateKept = time.Minute

// lateMax bounds how many such reads are kept.
const lateMax = 1024

// errNotReady ends the wait for a read that goes on in the background: no error to the client, who asks again.
var errNotReady = errors.New("not ready within the wait")

// job is one remote read on its way, apart from the request that began it: it may outlive it.
type job struct {
	read   read // its own: out, acc and tr are not the request's
	out    PartitionData
	err    error
	done   chan struct{} // closed when out, acc and err are there
	began  time.Time
	cancel context.CancelCauseFunc
	detach func() bool // lets it outlive its request
	timer  *time.Timer // drops it, while it is kept
	over   atomic.Bool // a request has been answered without it: it ends with what it has as soon as it has something
}

// lateKey says which read a retry asks for.
type lateKey struct {
	topicID   abi.UUID
	partition int32
	offset    int64
	iso       locality.Isolation
}

func (rd *read) lateKey() lateKey {
	return lateKey{rd.part.ID.TopicID, rd.part.ID.Partition, rd.req.Offset, rd.iso}
}

// lateReads are reads that were not ready when their request had to be answered: they go on, and the retry is answered
// from them, so that bytes are downloaded once (KAFKA-15776).
type lateReads struct {
	mu     sync.Mutex
	closed bool
	jobs   map[lateKey]*job
	wg     sync.WaitGroup // of all jobs that run
}

// take gives the job that a retry is answered from, if there is one.
func (l *lateReads) take(k lateKey) *job {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := l.jobs[k]
	if !ok {
		return nil
	}
	delete(l.jobs, k)
	j.timer.Stop()
	return j
}

// keep keeps a job for the retry. Where it can't be kept it is dropped.
func (l *lateReads) keep(k lateKey, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.jobs[k]; taken || l.closed || len(l.jobs) >= lateMax {
		l.wg.Go(j.drop)
		return
	}
	if l.jobs == nil {
		l.jobs = map[lateKey]*job{}
	}
	l.jobs[k] = j
	j.timer = time.AfterFunc(lateKept, func() {
		if l.forget(k, j) {
			j.drop()
		}
	})
}

func (l *lateReads) forget(k lateKey, j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs[k] != j {
		return false
	}
	delete(l.jobs, k)
	return true
}

// shed drops jobs that are done until n bytes are free: a request that waits for memory comes before a retry that may.
func (l *lateReads) shed(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, j := range l.jobs {
		if n <= 0 {
			return
		}
		select {
		case <-j.done:
			if j.read.acc.buf == nil { // which frees nothing, and tells the retry something
				continue
			}
			n -= j.read.acc.n
			delete(l.jobs, k)
			j.timer.Stop()
			j.drop()
		default:
		}
	}
}

// drop ends a job that nobody will ask for and lets go of its bytes.
func (j *job) drop() {
	j.cancel(errNotReady)
	<-j.done
	j.read.acc.release()
}

// close ends all jobs and waits for them.
func (l *lateReads) close() {
	l.mu.Lock()
	l.closed = true
	jobs := l.jobs
	l.jobs = nil
	l.mu.Unlock()
	for _, j := range jobs {
		j.timer.Stop()
		j.drop()
	}
	l.wg.Wait()
}
