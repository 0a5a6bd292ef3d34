package server

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

const (
	sessionsMax          = 1000    // max.incremental.fetch.session.cache.slots
	sessionPartitionsMax = 500_000 // of all sessions; a broker has no such bound. See places
	sessionEvict         = 2 * time.Minute
)

// sessions are the fetch sessions (KIP-227) of all connections: a client that comes again on another connection goes on.
// A client that gets none sends whole requests.
type sessions struct {
	now func() time.Time

	mu         sync.Mutex // guards what follows, and what is in each session
	byID       map[int32]*session
	used       list.List // *session, the one that waited longest first
	partitions int       // of all
	places     int       // that all take
}

// session is what a client asks for again and again.
type session struct {
	id       int32
	epoch    int32 // the next request's
	topicIDs bool  // partitions are named by topic id
	last     time.Time
	order    list.List // *sessionPartition; the next answer's bytes go to the first
	parts    map[sessionKey]*list.Element
	place    *list.Element // in sessions.used
	places   int           // that its partitions take
}

// sessionKey names a partition; the one or the other name is empty.
type sessionKey struct {
	topic     string
	id        abi.UUID
	partition int32
}

// places is how many of sessionPartitionsMax a partition takes: as many as its name's length asks for. A topic that there
// is has at most 249 bytes, and takes one; others are asked for too.
func (k *sessionKey) places() int { return 1 + len(k.topic)/256 }

// placesOf is what all of them take.
func placesOf(asked []wanted) (n int) {
	for i := range asked {
		n += asked[i].key.places()
	}
	return n
}

// sessionPartition is what was asked for of a partition, and what the client was told last.
type sessionPartition struct {
	key  sessionKey
	ask  kmsg.FetchRequestTopicPartition
	told bool // the rest is what the client knows
	hw   int64
	lso  int64
	from int64 // log start
}

func newSessions() *sessions { return &sessions{now: time.Now, byID: map[int32]*session{}} }

// wanted is one partition of a fetch, in its order.
type wanted struct {
	key sessionKey
	ask kmsg.FetchRequestTopicPartition
}

// begin takes a request in and gives what is to be read. sess is nil without a session; a code is an answer without
// partitions.
func (ss *sessions) begin(q *kmsg.FetchRequest) (parts []wanted, sess *session, code int16) {
	asked := wantedOf(q)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if q.SessionEpoch <= 0 || q.Version < 7 { // a whole request: 0 wants a session for what follows, -1 ends one
		if s := ss.byID[q.SessionID]; s != nil && q.Version >= 7 && q.SessionID != 0 {
			ss.dropLocked(s)
		}
		if q.Version >= 7 && q.SessionEpoch == 0 && len(asked) > 0 {
			sess = ss.addLocked(asked, q.Version >= 13)
		}
		return asked, sess, 0
	}
	s := ss.byID[q.SessionID]
	switch {
	case s == nil:
		return nil, nil, fetchSessionIDNotFound
	case s.topicIDs != (q.Version >= 13):
		return nil, nil, fetchSessionTopicIDError
	case s.epoch != q.SessionEpoch:
		return nil, nil, invalidFetchSessionEpoch
	}
	if ss.places+placesOf(asked) > sessionPartitionsMax {
		ss.dropLocked(s) // it comes again with a whole request
		return nil, nil, fetchSessionIDNotFound
	}
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	ss.touchLocked(s)
	for _, w := range asked {
		ss.putLocked(s, w)
	}
	ss.forgetLocked(s, q)
	for e := s.order.Front(); e != nil; e = e.Next() {
		p := e.Value.(*sessionPartition)
		parts = append(parts, wanted{p.key, p.ask})
	}
	if len(parts) == 0 {
		ss.dropLocked(s)
		return nil, nil, 0
	}
	return parts, s, 0
}

func wantedOf(q *kmsg.FetchRequest) []wanted {
	var out []wanted
	for i := range q.Topics {
		t := &q.Topics[i]
		for _, p := range t.Partitions {
			if q.Version < 9 {
				p.CurrentLeaderEpoch = -1
			}
			if q.Version < 12 {
				p.LastFetchedEpoch = -1
			}
			out = append(out, wanted{sessionKey{t.Topic, t.TopicID, p.Partition}, p})
		}
	}
	return out
}

func (ss *sessions) addLocked(asked []wanted, topicIDs bool) *session {
	wants := placesOf(asked)
	for len(ss.byID) >= sessionsMax || ss.places+wants > sessionPartitionsMax {
		oldest := ss.used.Front()
		if oldest == nil || ss.now().Sub(oldest.Value.(*session).last) < sessionEvict {
			return nil
		}
		ss.dropLocked(oldest.Value.(*session))
	}
	s := &session{epoch: 1, topicIDs: topicIDs, parts: map[sessionKey]*list.Element{}}
	for s.id == 0 || ss.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	s.place = ss.used.PushBack(s)
	ss.byID[s.id] = s
	ss.touchLocked(s)
	for _, w := range asked {
		ss.putLocked(s, w)
	}
	return s
}

// putLocked adds a partition, or takes what is asked for anew.
func (ss *sessions) putLocked(s *session, w wanted) {
	if e, ok := s.parts[w.key]; ok {
		e.Value.(*sessionPartition).ask = w.ask
		return
	}
	s.parts[w.key] = s.order.PushBack(&sessionPartition{key: w.key, ask: w.ask})
	s.places += w.key.places()
	ss.places += w.key.places()
	ss.partitions++
}

func (ss *sessions) forgetLocked(s *session, q *kmsg.FetchRequest) {
	for _, t := range q.ForgottenTopics {
		for _, p := range t.Partitions {
			key := sessionKey{t.Topic, t.TopicID, p}
			if e, ok := s.parts[key]; ok {
				s.order.Remove(e)
				delete(s.parts, key)
				s.places -= key.places()
				ss.places -= key.places()
				ss.partitions--
			}
		}
	}
}

func (ss *sessions) touchLocked(s *session) {
	s.last = ss.now()
	ss.used.MoveToBack(s.place)
}

func (ss *sessions) dropLocked(s *session) {
	if ss.byID[s.id] != s {
		return
	}
	delete(ss.byID, s.id)
	ss.used.Remove(s.place)
	ss.places -= s.places
	ss.partitions -= len(s.parts)
}

// end notes what a client is told, and gives which partitions of the answer it must hear of: of an incremental one those
// with something new. A partition that took bytes of the budget, or that is not ready, goes to the end of the order: one
// whose remote read never comes in time must not starve those behind it.
func (ss *sessions) end(s *session, incremental bool, parts []wanted, answers []answered) (told []bool) {
	told = make([]bool, len(parts))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for i := range parts {
		e, ok := s.parts[parts[i].key]
		if !ok {
			told[i] = true
			continue
		}
		p, a := e.Value.(*sessionPartition), &answers[i]
		told[i] = !incremental || a.news || !p.told || a.hw != p.hw || a.lso != p.lso || a.from != p.from
		p.told, p.hw, p.lso, p.from = !a.failed, a.hw, a.lso, a.from
		if a.taken {
			s.order.MoveToBack(e)
		}
	}
	return told
}

// answered is what a session keeps of a partition's answer.
type answered struct {
	news          bool // records, an error, a diverging epoch
	failed        bool
	taken         bool // of the budget
	hw, lso, from int64
}

// size counts the sessions and their partitions.
func (ss *sessions) size() (sessions, partitions int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.byID), ss.partitions
}
