package fetchsession

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// somebody is who sends the requests.
var somebody = Who{Owner: "somebody", Keep: true}

// request is a Fetch of partitions of topic "a", by number.
func request(id, epoch int32, partitions ...int32) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.SessionID, q.SessionEpoch = 12, id, epoch
	t := kmsg.FetchRequestTopic{Topic: "a"}
	for _, n := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = n
		t.Partitions = append(t.Partitions, p)
	}
	if len(partitions) > 0 {
		q.Topics = []kmsg.FetchRequestTopic{t}
	}
	return q
}

func numbers(parts []Partition) []int32 {
	var out []int32
	for _, p := range parts {
		out = append(out, p.Key.Partition)
	}
	return out
}

func wantParts(t *testing.T, parts []Partition, want ...int32) {
	t.Helper()
	if got := numbers(parts); !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
}

func TestSession(t *testing.T) {
	c := New(Options{})
	parts, s, code := c.Begin(somebody, request(0, 0, 1, 2, 3))
	if s == nil || s.id == 0 || code != 0 {
		t.Fatalf("%+v, %d", s, code)
	}
	wantParts(t, parts, 1, 2, 3)
	q := request(s.id, 1, 4)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{2, 9}}}
	parts, again, code := c.Begin(somebody, q)
	if again != s || code != 0 {
		t.Fatalf("%+v, %d", again, code)
	}
	wantParts(t, parts, 1, 3, 4)
	parts, _, _ = c.Begin(somebody, request(s.id, 2))
	wantParts(t, parts, 1, 3, 4)

	other := request(s.id, 3)
	other.Version = 13
	for name, tt := range map[string]struct {
		q    *kmsg.FetchRequest
		code int16
	}{
		"an unknown session":        {request(s.id+1, 3), IDNotFound},
		"an epoch twice":            {request(s.id, 2), InvalidEpoch},
		"an epoch left out":         {request(s.id, 4), InvalidEpoch},
		"ids in a session of names": {other, TopicIDError},
	} {
		if parts, sess, code := c.Begin(somebody, tt.q); code != tt.code || sess != nil || parts != nil {
			t.Errorf("%s: %v, %v, code %d, want %d", name, parts, sess, code, tt.code)
		}
	}
	if _, sess, _ := c.Begin(somebody, request(s.id, -1, 7)); sess != nil || len(c.byID) != 0 || c.partitions != 0 {
		t.Errorf("after the end: %d sessions with %d partitions", len(c.byID), c.partitions)
	}
}

// TestSessionEnds: one whose last partition is forgotten, and one that a whole request replaces.
func TestSessionEnds(t *testing.T) {
	c := New(Options{})
	_, s, _ := c.Begin(somebody, request(0, 0, 1))
	_, next, _ := c.Begin(somebody, request(s.id, 0, 1))
	if next == s || len(c.byID) != 1 {
		t.Errorf("%d sessions", len(c.byID))
	}
	q := request(next.id, 1)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{1}}}
	if parts, sess, code := c.Begin(somebody, q); sess != nil || code != 0 || len(parts) != 0 || len(c.byID) != 0 || c.partitions != 0 {
		t.Errorf("%v, %v, %d; %d sessions", parts, sess, code, len(c.byID))
	}
	if _, sess, _ := c.Begin(somebody, request(0, 0)); sess != nil {
		t.Error("a session of nothing")
	}
}

// TestSessionTells: of an incremental answer the client hears what is new.
func TestSessionTells(t *testing.T) {
	c := New(Options{})
	parts, s, _ := c.Begin(somebody, request(0, 0, 1, 2))
	same := Answered{HighWatermark: 5, LastStable: 5}
	steps := []struct {
		incremental bool
		answers     []Answered
		want        []bool
	}{
		{false, []Answered{same, same}, []bool{true, true}},
		{true, []Answered{same, same}, []bool{false, false}},
		{true, []Answered{{HighWatermark: 6, LastStable: 5}, {HighWatermark: 5, LastStable: 4}}, []bool{true, true}},
		{true, []Answered{{HighWatermark: 6, LastStable: 5, LogStart: 1}, {HighWatermark: 5, LastStable: 4}}, []bool{true, false}},
		{true, []Answered{{HighWatermark: 6, LastStable: 5, LogStart: 1, News: true}, {News: true, Failed: true, HighWatermark: -1}}, []bool{true, true}},
		{true, []Answered{{HighWatermark: 6, LastStable: 5, LogStart: 1}, {HighWatermark: -1}}, []bool{false, true}}, // after an error all is new
	}
	for i, tt := range steps {
		if got := c.End(s, tt.incremental, parts, tt.answers); !slices.Equal(got, tt.want) {
			t.Errorf("step %d: told %v, want %v", i, got, tt.want)
		}
	}
}

// TestSessionOrder: what took bytes of the budget, and what is not ready in time, goes behind the others. Kafka leaves
// what is not ready in front, where it takes the budget again.
func TestSessionOrder(t *testing.T) {
	c := New(Options{})
	parts, s, _ := c.Begin(somebody, request(0, 0, 1, 2, 3))
	c.End(s, false, parts, []Answered{{Taken: true}, {}, {}})
	parts, _, _ = c.Begin(somebody, request(s.id, 1))
	wantParts(t, parts, 2, 3, 1)
	c.End(s, true, parts, []Answered{{}, {Taken: true}, {Taken: true}})
	parts, _, _ = c.Begin(somebody, request(s.id, 2))
	wantParts(t, parts, 2, 3, 1)
}

// TestSessionsAreBounded: a session that is in use is not taken from its client; one that waited long is.
func TestSessionsAreBounded(t *testing.T) {
	c := New(Options{})
	now := time.Now()
	c.now = func() time.Time { return now }
	_, first, _ := c.Begin(somebody, request(0, 0, 1))
	for range ownerMax - 1 {
		c.Begin(somebody, request(0, 0, 1))
	}
	if _, s, _ := c.Begin(somebody, request(0, 0, 1)); s != nil {
		t.Error("one above an owner's bound")
	}
	other := Who{Owner: "another", Keep: true}
	for range sessionsMax - ownerMax {
		c.Begin(other, request(0, 0, 1))
	}
	third := Who{Owner: "a third", Keep: true}
	if _, s, _ := c.Begin(third, request(0, 0, 1)); s != nil {
		t.Error("one above the bound")
	}
	now = now.Add(evictAfter)
	c.Begin(somebody, request(first.id, 1)) // in use
	if _, s, _ := c.Begin(third, request(0, 0, 1)); s == nil || len(c.byID) != sessionsMax || c.byID[first.id] == nil {
		t.Errorf("%v; %d sessions", s, len(c.byID))
	}
}

// TestSessionOfLongNames: names of topics that can't be take as many places as their length asks for: sessions must not
// keep gigabytes of them.
func TestSessionOfLongNames(t *testing.T) {
	c := New(Options{})
	_, s, _ := c.Begin(somebody, request(0, 0, 1))
	if c.places != 1 {
		t.Errorf("%d places", c.places)
	}
	long := func(epoch int32) *kmsg.FetchRequest {
		q := request(s.id, epoch, 1)
		q.Topics[0].Topic = strings.Repeat("x", 32_000) + strconv.Itoa(int(epoch))
		return q
	}
	kept := int32(1)
	for c.byID[s.id] != nil {
		c.Begin(somebody, long(kept))
		kept++
	}
	if want := int32(DefaultPerSession / 126); kept < want || kept > want+2 {
		t.Errorf("%d names were kept, want %d", kept, want)
	}
	if c.places != 0 || c.partitions != 0 {
		t.Errorf("afterwards: %d places, %d partitions", c.places, c.partitions)
	}
	_, s, _ = c.Begin(somebody, long(0)) // a whole request, with a session of its own
	q := request(s.id, 1, 2)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: long(0).Topics[0].Topic, Partitions: []int32{1}}}
	if c.Begin(somebody, q); c.places != 1 {
		t.Errorf("after it was forgotten: %d places", c.places)
	}
}

// numbered are partitions from..to-1.
func numbered(from, to int32) (out []int32) {
	for n := from; n < to; n++ {
		out = append(out, n)
	}
	return out
}

// TestPartitionsOfSessionsAreBounded: those of one, of one owner's, of all, and by who counts their memory. A whole request gets
// no session then, and one that would grow is over: in both cases the client goes on with whole requests.
func TestPartitionsOfSessionsAreBounded(t *testing.T) {
	var bytes int64
	room := int64(1 << 30)
	c := New(Options{Places: 100, PerSession: 30,
		Reserve: func(n int64) bool {
			if bytes+n > room {
				return false
			}
			bytes += n
			return true
		},
		Unreserve: func(n int64) { bytes -= n }})
	begin := func(owner string, id, epoch, from, to int32) (*Session, int16) {
		parts, s, code := c.Begin(Who{Owner: owner, Keep: true}, request(id, epoch, numbered(from, to)...))
		if epoch == 0 && len(parts) != int(to-from) {
			t.Errorf("%d partitions are read of %d", len(parts), to-from)
		}
		return s, code
	}
	if s, _ := begin("a", 0, 0, 0, 31); s != nil {
		t.Error("a session of more than it may have")
	}
	first, _ := begin("a", 0, 0, 0, 30)
	if n := c.Partitions(Who{Owner: "a"}, request(first.id, 1, 7, 8)); n != 32 {
		t.Errorf("a request and its session have %d partitions", n)
	}
	if n := c.Partitions(Who{Owner: "b"}, request(first.id, 1, 7)); n != 1 {
		t.Errorf("somebody else's request has %d partitions", n)
	}
	if s, _ := begin("a", 0, 0, 0, 21); s != nil {
		t.Error("an owner has more than a half")
	}
	second, _ := begin("a", 0, 0, 0, 20)
	begin("b", 0, 0, 0, 30)
	begin("b", 0, 0, 0, 15)
	if s, _ := begin("c", 0, 0, 0, 6); s != nil || c.places != 95 {
		t.Errorf("more than all: %d", c.places)
	}
	if bytes != 95*PlaceBytes {
		t.Errorf("%d bytes are counted", bytes)
	}
	if s, code := begin("a", second.id, 1, 20, 21); s != nil || code != IDNotFound || c.byID[second.id] != nil {
		t.Errorf("it grows above its owner's half: code %d", code)
	}
	if s, code := begin("a", first.id, 1, 30, 31); s != nil || code != IDNotFound || c.byID[first.id] != nil {
		t.Errorf("it grows above what one may have: code %d", code)
	}
	room = bytes + 2*PlaceBytes
	if s, _ := begin("c", 0, 0, 0, 3); s != nil {
		t.Error("no memory is left, and it has a session")
	}
	if s, _ := begin("c", 0, 0, 0, 2); s == nil {
		t.Error("there is room, and it has no session")
	}
	for _, s := range c.byID {
		c.dropLocked(s)
	}
	if bytes != 0 || c.places != 0 || c.partitions != 0 || len(c.owners) != 0 {
		t.Errorf("afterwards: %d bytes, %d places, %d partitions, %d owners", bytes, c.places, c.partitions, len(c.owners))
	}
}

// TestSessionOfAnotherOwner: nobody reads on, ends or replaces somebody else's session.
func TestSessionOfAnotherOwner(t *testing.T) {
	c := New(Options{})
	_, s, _ := c.Begin(somebody, request(0, 0, 1))
	other := Who{Owner: "another", Keep: true}
	for name, q := range map[string]*kmsg.FetchRequest{"reads on": request(s.id, 1), "ends": request(s.id, -1, 1), "replaces": request(s.id, 0, 1)} {
		if _, got, code := c.Begin(other, q); got == s || q.SessionEpoch > 0 && code != IDNotFound || c.byID[s.id] == nil {
			t.Errorf("it %s: code %d", name, code)
		}
	}
}

// TestSessionOfWhatIsRefused: a client hears of what it is refused with each request.
func TestSessionOfWhatIsRefused(t *testing.T) {
	c := New(Options{})
	refused := Who{Owner: somebody.Owner}
	if parts, s, code := c.Begin(refused, request(0, 0, 1, 2)); s != nil || code != 0 || len(parts) != 2 {
		t.Errorf("%v, %v, %d", parts, s, code)
	}
	_, s, _ := c.Begin(somebody, request(0, 0, 1))
	if _, again, code := c.Begin(refused, request(s.id, 1, 2)); again != nil || code != IDNotFound || len(c.byID) != 0 {
		t.Errorf("it goes on: %v, %d", again, code)
	}
}
