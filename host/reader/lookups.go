package reader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
)

// lookup is one search for an offset on its way, apart from the requests that ask for it: it may outlive them.
type lookup struct {
	key    lookupKey
	done   chan struct{} // closed when out is there
	out    OffsetData
	cancel context.CancelFunc
	alone  bool // one request's: nobody else finds it

	askers int         // guarded by lookups.mu, as is what follows
	timer  *time.Timer // drops it, while it is kept
}

// lookupKey says what is asked for.
type lookupKey struct {
	topic     string
	topicID   abi.UUID
	partition int32
	timestamp int64
	epoch     int32
	replica   int32
	version   int16
	iso       locality.Isolation
	markers   bool
}

// lookups are the searches that run, and those that came too late for who asked: the retry is answered from them, so that
// what was read is not read again. The zero value is empty.
type lookups struct {
	mu     sync.Mutex
	closed bool
	all    map[lookupKey]*lookup
	wg     sync.WaitGroup // of all that run
}

// begin joins the search for what is asked for, or begins it.
func (s *lookups) begin(ctx context.Context, r *Reader, req *ListOffsetsRequest, p *ListOffsetsPartition) *lookup {
	key := lookupKey{topic: p.Topic, topicID: p.TopicID, partition: p.Partition, timestamp: p.Timestamp, epoch: p.CurrentLeaderEpoch,
		replica: req.ReplicaID, version: req.Version, iso: req.Isolation, markers: req.Markers}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.all[key]; ok {
		l.askers++
		return l
	}
	l := &lookup{key: key, done: make(chan struct{}), askers: 1, alone: s.closed || len(s.all) >= lateMax}
	own, part := *req, *p // the request may be gone
	own.Partitions = nil
	lctx := context.WithoutCancel(ctx)
	if end, ok := ctx.Deadline(); ok {
		lctx, l.cancel = context.WithTimeout(lctx, max(lateTimeout, time.Until(end)))
	} else {
		lctx, l.cancel = context.WithCancel(lctx)
	}
	if !l.alone {
		if s.all == nil {
			s.all = map[lookupKey]*lookup{}
		}
		s.all[key] = l
	}
	s.wg.Go(func() {
		defer s.ended(l)
		l.out = r.listOffset(lctx, &own, &part)
	})
	return l
}

// ended keeps what nobody waits for any more, if it is an answer.
func (s *lookups) ended(l *lookup) {
	close(l.done)
	l.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.alone || l.askers > 0 || s.all[l.key] != l:
	case l.out.Code != None:
		delete(s.all, l.key)
	default:
		l.timer = time.AfterFunc(lateKept, func() { s.drop(l) })
	}
}

// drop forgets a search that nobody asks for.
func (s *lookups) drop(l *lookup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.askers == 0 && s.all[l.key] == l {
		delete(s.all, l.key)
	}
}

// wait gives what a search found, or says that it is not ready: it goes on then, but for one whose last asker went away.
func (s *lookups) wait(ctx context.Context, l *lookup, p *ListOffsetsPartition) OffsetData {
	select {
	case <-l.done:
		return s.take(l)
	default:
	}
	select {
	case <-l.done:
		return s.take(l)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.askers--
	kind := abi.KindOf(ctx.Err())
	if l.askers == 0 && (l.alone || kind == abi.Cancelled) {
		l.cancel()
		s.removeLocked(l)
	}
	return OffsetData{Topic: p.Topic, Partition: p.Partition, Code: RequestTimedOut, Offset: -1, Timestamp: -1, LeaderEpoch: epoch.Undefined,
		Err: abi.Errorf("list offsets", fmt.Sprintf("%s-%d", p.Topic, p.Partition), kind,
			"%s (%d): the lookup is not done, and goes on for who asks again: %w", RequestTimedOut, RequestTimedOut, context.Cause(ctx))}
}

// take gives what was found. The last one who asked for it takes it away.
func (s *lookups) take(l *lookup) OffsetData {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.askers--; l.askers == 0 {
		s.removeLocked(l)
	}
	return l.out
}

func (s *lookups) removeLocked(l *lookup) {
	if s.all[l.key] == l {
		delete(s.all, l.key)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}

// close ends all searches and waits for them.
func (s *lookups) close() {
	s.mu.Lock()
	s.closed = true
	for _, l := range s.all {
		l.cancel()
		if l.timer != nil {
			l.timer.Stop()
		}
	}
	s.all = nil
	s.mu.Unlock()
	s.wg.Wait()
}
