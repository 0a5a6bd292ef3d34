package fetchsession

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
	sessionsMax = 1000            // max.incremental.fetch.session.cache.slots
	ownerMax    = sessionsMax / 2 // of one owner
	evictAfter  = 2 * time.Minute

	// PlaceBytes is about what a session keeps in memory of one partition.
	PlaceBytes = 512
	// DefaultPlaces is of Options.
	DefaultPlaces = 400_000
	// DefaultPerSession is of Options.
	DefaultPerSession = 20_000
)

// Options of a Cache. A broker has none of these bounds: a session of a few requests would take all memory, and each request
// that names it by 45 bytes the time that its partitions take. A client that gets no session sends whole requests.
type Options struct {
	// Places bounds the partitions of all sessions; 0: DefaultPlaces. A partition takes one, and more where its topic has a
	// name that no topic can have. One owner's sessions have a half of them at most.
	Places int
	// PerSession bounds the places of one session; 0: DefaultPerSession.
	PerSession int
	// Reserve and Unreserve count bytes that sessions take, where something bounds them all together: false means that there
	// is no room. nil: nobody counts. They are called under the Cache's lock.
	Reserve   func(bytes int64) bool
	Unreserve func(bytes int64)
}

// Error codes of the protocol.
const (
	IDNotFound   int16 = 70  // FETCH_SESSION_ID_NOT_FOUND
	InvalidEpoch int16 = 71  // INVALID_FETCH_SESSION_EPOCH
	TopicIDError int16 = 106 // FETCH_SESSION_TOPIC_ID_ERROR
)

// Cache is the sessions of all connections: a client that comes again on another connection goes on. A client that gets
// none sends whole requests.
type Cache struct {
	o   Options
	now func() time.Time

	mu         sync.Mutex // guards what follows, and what is in each session
	byID       map[int32]*Session
	used       list.List // *Session, the one that waited longest first
	partitions int       // of all
	places     int       // that all take
	owners     map[string]*ownership
}

// ownership is what one owner's sessions take.
type ownership struct{ sessions, places int }

// Session is what a client asks for again and again. What is in it is the Cache's.
type Session struct {
	id       int32
	owner    string
	epoch    int32 // the next request's
	topicIDs bool  // partitions are named by topic id
	last     time.Time
	order    list.List // *kept; the next answer's bytes go to the first
	parts    map[Key]*list.Element
	place    *list.Element // in Cache.used
	places   int           // that its partitions take
}

// Key names a partition; the one or the other name is empty.
type Key struct {
	Topic     string
	ID        abi.UUID
	Partition int32
}

// places is how many of Options.Places a partition takes: as many as its name's length asks for. A topic that there
// is has at most 249 bytes, and takes one; others are asked for too.
func (k *Key) places() int { return 1 + len(k.Topic)/256 }

// placesOf is what all of them take.
func placesOf(asked []Partition) (n int) {
	for i := range asked {
		n += asked[i].Key.places()
	}
	return n
}

// kept is what was asked for of a partition, and what the client was told last.
type kept struct {
	key  Key
	ask  kmsg.FetchRequestTopicPartition
	told bool // the rest is what the client knows
	hw   int64
	lso  int64
	from int64 // log start
}

// New makes a cache without sessions.
func New(o Options) *Cache {
	if o.Places <= 0 {
		o.Places = DefaultPlaces
	}
	if o.PerSession <= 0 {
		o.PerSession = DefaultPerSession
	}
	if o.Reserve == nil {
		o.Reserve, o.Unreserve = func(int64) bool { return true }, func(int64) {}
	}
	return &Cache{o: o, now: time.Now, byID: map[int32]*Session{}, owners: map[string]*ownership{}}
}

// Partition is one partition of a fetch, in its order.
type Partition struct {
	Key Key
	Ask kmsg.FetchRequestTopicPartition
}

// Who is who sends a request.
type Who struct {
	// Owner is whose sessions are bounded together; nobody else can name one of them.
	Owner string
	// Keep: what the request names may be kept in a session. Without it there is none, or none any more: a client that is
	// refused something of what it asks for must hear of it each time.
	Keep bool
}

// Partitions counts what Begin would give for a request: what it names, and what its session holds.
func (c *Cache) Partitions(who Who, q *kmsg.FetchRequest) (n int) {
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	if q.SessionEpoch <= 0 || q.Version < 7 {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[q.SessionID]; s != nil && s.owner == who.Owner {
		n += len(s.parts)
	}
	return n
}

// Begin takes a request in and gives what is to be read. sess is nil without a session; a code other than 0 is an answer
// without partitions. Who has a session calls End once it has the answer.
func (c *Cache) Begin(who Who, q *kmsg.FetchRequest) (parts []Partition, sess *Session, code int16) {
	asked := partitionsOf(q)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[q.SessionID]
	if s != nil && s.owner != who.Owner {
		s = nil
	}
	if q.SessionEpoch <= 0 || q.Version < 7 { // a whole request: 0 wants a session for what follows, -1 ends one
		if s != nil && q.Version >= 7 && q.SessionID != 0 {
			c.dropLocked(s)
		}
		if q.Version >= 7 && q.SessionEpoch == 0 && len(asked) > 0 && who.Keep {
			sess = c.addLocked(who.Owner, asked, q.Version >= 13)
		}
		return asked, sess, 0
	}
	switch {
	case s == nil:
		return nil, nil, IDNotFound
	case s.topicIDs != (q.Version >= 13):
		return nil, nil, TopicIDError
	case s.epoch != q.SessionEpoch:
		return nil, nil, InvalidEpoch
	}
	if !who.Keep || !c.growLocked(s, asked) {
		c.dropLocked(s) // it comes again with a whole request
		return nil, nil, IDNotFound
	}
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1
	}
	c.touchLocked(s)
	c.forgetLocked(s, q)
	parts = make([]Partition, 0, s.order.Len())
	for e := s.order.Front(); e != nil; e = e.Next() {
		p := e.Value.(*kept)
		parts = append(parts, Partition{p.key, p.ask})
	}
	if len(parts) == 0 {
		c.dropLocked(s)
		return nil, nil, 0
	}
	return parts, s, 0
}

// ID is what the client names the session by; above 0.
func (s *Session) ID() int32 { return s.id }

func partitionsOf(q *kmsg.FetchRequest) []Partition {
	n := 0
	for i := range q.Topics {
		n += len(q.Topics[i].Partitions)
	}
	out := make([]Partition, 0, n)
	for i := range q.Topics {
		t := &q.Topics[i]
		for _, p := range t.Partitions {
			if q.Version < 9 {
				p.CurrentLeaderEpoch = -1
			}
			if q.Version < 12 {
				p.LastFetchedEpoch = -1
			}
			out = append(out, Partition{Key{t.Topic, t.TopicID, p.Partition}, p})
		}
	}
	return out
}

func (c *Cache) addLocked(owner string, asked []Partition, topicIDs bool) *Session {
	wants := placesOf(asked)
	own := c.owners[owner]
	if own == nil {
		own = &ownership{}
	}
	if wants > c.o.PerSession || own.sessions >= ownerMax || own.places+wants > c.o.Places/2 {
		return nil
	}
	for len(c.byID) >= sessionsMax || c.places+wants > c.o.Places {
		oldest := c.used.Front()
		if oldest == nil || c.now().Sub(oldest.Value.(*Session).last) < evictAfter {
			return nil
		}
		c.dropLocked(oldest.Value.(*Session))
	}
	s := &Session{owner: owner, epoch: 1, topicIDs: topicIDs, parts: map[Key]*list.Element{}}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	if c.owners[owner] == nil { // it may have lost its last session just now
		c.owners[owner] = &ownership{}
	}
	c.owners[owner].sessions++
	s.place = c.used.PushBack(s)
	c.byID[s.id] = s
	c.touchLocked(s)
	if !c.growLocked(s, asked) {
		c.dropLocked(s)
		return nil
	}
	return s
}

// growLocked adds partitions to a session, and takes what is asked for anew of those that it has. False means that there is no
// room for all of them; some may have been added then.
func (c *Cache) growLocked(s *Session, asked []Partition) bool {
	for _, w := range asked {
		if e, ok := s.parts[w.Key]; ok {
			e.Value.(*kept).ask = w.Ask
			continue
		}
		n := w.Key.places()
		if s.places+n > c.o.PerSession || c.owners[s.owner].places+n > c.o.Places/2 || c.places+n > c.o.Places || !c.o.Reserve(int64(n)*PlaceBytes) {
			return false
		}
		s.parts[w.Key] = s.order.PushBack(&kept{key: w.Key, ask: w.Ask})
		c.partitions++
		c.countLocked(s, n)
	}
	return true
}

// countLocked counts places that a session takes.
func (c *Cache) countLocked(s *Session, n int) {
	s.places += n
	c.places += n
	c.owners[s.owner].places += n
}

// freeLocked gives back places that a session took.
func (c *Cache) freeLocked(s *Session, n int) {
	c.countLocked(s, -n)
	c.o.Unreserve(int64(n) * PlaceBytes)
}

func (c *Cache) forgetLocked(s *Session, q *kmsg.FetchRequest) {
	for _, t := range q.ForgottenTopics {
		for _, p := range t.Partitions {
			key := Key{t.Topic, t.TopicID, p}
			if e, ok := s.parts[key]; ok {
				s.order.Remove(e)
				delete(s.parts, key)
				c.partitions--
				c.freeLocked(s, key.places())
			}
		}
	}
}

func (c *Cache) touchLocked(s *Session) {
	s.last = c.now()
	c.used.MoveToBack(s.place)
}

func (c *Cache) dropLocked(s *Session) {
	if c.byID[s.id] != s {
		return
	}
	delete(c.byID, s.id)
	c.used.Remove(s.place)
	c.partitions -= len(s.parts)
	c.freeLocked(s, s.places)
	if own := c.owners[s.owner]; own.sessions > 1 {
		own.sessions--
	} else {
		delete(c.owners, s.owner)
	}
}

// End notes what a client is told, and gives which partitions of the answer it must hear of: of an incremental one those
// with something new. A partition that took bytes of the budget, or that is not ready, goes to the end of the order: one
// whose remote read never comes in time, or finds nothing, must not starve those behind it. One that was held back stays.
func (c *Cache) End(s *Session, incremental bool, parts []Partition, answers []Answered) (told []bool) {
	told = make([]bool, len(parts))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range parts {
		e, ok := s.parts[parts[i].Key]
		if !ok {
			told[i] = true
			continue
		}
		p, a := e.Value.(*kept), &answers[i]
		told[i] = !incremental || a.News || !p.told || a.HighWatermark != p.hw || a.LastStable != p.lso || a.LogStart != p.from
		p.told, p.hw, p.lso, p.from = !a.Failed, a.HighWatermark, a.LastStable, a.LogStart
		if a.Taken {
			s.order.MoveToBack(e)
		}
	}
	return told
}

// Answered is what a session keeps of a partition's answer.
type Answered struct {
	News          bool // records, an error, a diverging epoch
	Failed        bool
	Taken         bool // bytes of the budget, if only until it was known that there are none, or it is not ready
	HighWatermark int64
	LastStable    int64 // offset
	LogStart      int64 // offset
}

// Size counts the sessions and their partitions.
func (c *Cache) Size() (sessions, partitions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID), c.partitions
}
