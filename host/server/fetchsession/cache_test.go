package fetchsession

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionFetch is a Fetch of partitions of topic "a", by number.
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
	c := New()
	parts, s, code := c.Begin(request(0, 0, 1, 2, 3))
	if s == nil || s.id == 0 || code != 0 {
		t.Fatalf("%+v, %d", s, code)
	}
	wantParts(t, parts, 1, 2, 3)
	q := request(s.id, 1, 4)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{2, 9}}}
	parts, again, code := c.Begin(q)
	if again != s || code != 0 {
		t.Fatalf("%+v, %d", again, code)
	}
	wantParts(t, parts, 1, 3, 4)
	parts, _, _ = c.Begin(request(s.id, 2))
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
		if parts, sess, code := c.Begin(tt.q); code != tt.code || sess != nil || parts != nil {
			t.Errorf("%s: %v, %v, code %d, want %d", name, parts, sess, code, tt.code)
		}
	}
	if _, sess, _ := c.Begin(request(s.id, -1, 7)); sess != nil || len(c.byID) != 0 || c.partitions != 0 {
		t.Errorf("after the end: %d sessions with %d partitions", len(c.byID), c.partitions)
	}
}

// TestSessionEnds: one whose last partition is forgotten, and one that a whole request replaces.
func TestSessionEnds(t *testing.T) {
	c := New()
	_, s, _ := c.Begin(request(0, 0, 1))
	_, next, _ := c.Begin(request(s.id, 0, 1))
	if next == s || len(c.byID) != 1 {
		t.Errorf("%d sessions", len(c.byID))
	}
	q := request(next.id, 1)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{1}}}
	if parts, sess, code := c.Begin(q); sess != nil || code != 0 || len(parts) != 0 || len(c.byID) != 0 || c.partitions != 0 {
		t.Errorf("%v, %v, %d; %d sessions", parts, sess, code, len(c.byID))
	}
	if _, sess, _ := c.Begin(request(0, 0)); sess != nil {
		t.Error("a session of nothing")
	}
}

// TestSessionTells: of an incremental answer the client hears what is new.
func TestSessionTells(t *testing.T) {
	c := New()
	parts, s, _ := c.Begin(request(0, 0, 1, 2))
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
	c := New()
	parts, s, _ := c.Begin(request(0, 0, 1, 2, 3))
	c.End(s, false, parts, []Answered{{Taken: true}, {}, {}})
	parts, _, _ = c.Begin(request(s.id, 1))
	wantParts(t, parts, 2, 3, 1)
	c.End(s, true, parts, []Answered{{}, {Taken: true}, {Taken: true}})
	parts, _, _ = c.Begin(request(s.id, 2))
	wantParts(t, parts, 2, 3, 1)
}

// TestSessionsAreBounded: a session that is in use is not taken from its client; one that waited long is.
func TestSessionsAreBounded(t *testing.T) {
	c := New()
	now := time.Now()
	c.now = func() time.Time { return now }
	_, first, _ := c.Begin(request(0, 0, 1))
	for range sessionsMax - 1 {
		c.Begin(request(0, 0, 1))
	}
	if _, s, _ := c.Begin(request(0, 0, 1)); s != nil {
		t.Error("one above the bound")
	}
	now = now.Add(evictAfter)
	c.Begin(request(first.id, 1)) // in use
	if _, s, _ := c.Begin(request(0, 0, 1)); s == nil || len(c.byID) != sessionsMax || c.byID[first.id] == nil {
		t.Errorf("%v; %d sessions", s, len(c.byID))
	}
}

// TestSessionOfLongNames: names of topics that can't be take as many places as their length asks for: sessions must not
// keep gigabytes of them.
func TestSessionOfLongNames(t *testing.T) {
	c := New()
	_, s, _ := c.Begin(request(0, 0, 1))
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
		c.Begin(long(kept))
		kept++
	}
	if want := int32(partitionsMax / 126); kept < want || kept > want+2 {
		t.Errorf("%d names were kept, want %d", kept, want)
	}
	if c.places != 0 || c.partitions != 0 {
		t.Errorf("afterwards: %d places, %d partitions", c.places, c.partitions)
	}
	_, s, _ = c.Begin(long(0)) // a whole request, with a session of its own
	q := request(s.id, 1, 2)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: long(0).Topics[0].Topic, Partitions: []int32{1}}}
	if c.Begin(q); c.places != 1 {
		t.Errorf("after it was forgotten: %d places", c.places)
	}
}
