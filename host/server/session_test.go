package server

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionFetch is a Fetch of partitions of topic "a", by number.
func sessionFetch(id, epoch int32, partitions ...int32) *kmsg.FetchRequest {
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

func numbers(parts []wanted) []int32 {
	var out []int32
	for _, p := range parts {
		out = append(out, p.key.partition)
	}
	return out
}

func wantParts(t *testing.T, parts []wanted, want ...int32) {
	t.Helper()
	if got := numbers(parts); !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
}

func TestSession(t *testing.T) {
	ss := newSessions()
	parts, s, code := ss.begin(sessionFetch(0, 0, 1, 2, 3))
	if s == nil || s.id == 0 || code != 0 {
		t.Fatalf("%+v, %d", s, code)
	}
	wantParts(t, parts, 1, 2, 3)
	q := sessionFetch(s.id, 1, 4)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{2, 9}}}
	parts, again, code := ss.begin(q)
	if again != s || code != 0 {
		t.Fatalf("%+v, %d", again, code)
	}
	wantParts(t, parts, 1, 3, 4)
	parts, _, _ = ss.begin(sessionFetch(s.id, 2))
	wantParts(t, parts, 1, 3, 4)

	other := sessionFetch(s.id, 3)
	other.Version = 13
	for name, tt := range map[string]struct {
		q    *kmsg.FetchRequest
		code int16
	}{
		"an unknown session":        {sessionFetch(s.id+1, 3), fetchSessionIDNotFound},
		"an epoch twice":            {sessionFetch(s.id, 2), invalidFetchSessionEpoch},
		"an epoch left out":         {sessionFetch(s.id, 4), invalidFetchSessionEpoch},
		"ids in a session of names": {other, fetchSessionTopicIDError},
	} {
		if parts, sess, code := ss.begin(tt.q); code != tt.code || sess != nil || parts != nil {
			t.Errorf("%s: %v, %v, code %d, want %d", name, parts, sess, code, tt.code)
		}
	}
	if _, sess, _ := ss.begin(sessionFetch(s.id, -1, 7)); sess != nil || len(ss.byID) != 0 || ss.partitions != 0 {
		t.Errorf("after the end: %d sessions with %d partitions", len(ss.byID), ss.partitions)
	}
}

// TestSessionEnds: one whose last partition is forgotten, and one that a whole request replaces.
func TestSessionEnds(t *testing.T) {
	ss := newSessions()
	_, s, _ := ss.begin(sessionFetch(0, 0, 1))
	_, next, _ := ss.begin(sessionFetch(s.id, 0, 1))
	if next == s || len(ss.byID) != 1 {
		t.Errorf("%d sessions", len(ss.byID))
	}
	q := sessionFetch(next.id, 1)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "a", Partitions: []int32{1}}}
	if parts, sess, code := ss.begin(q); sess != nil || code != 0 || len(parts) != 0 || len(ss.byID) != 0 || ss.partitions != 0 {
		t.Errorf("%v, %v, %d; %d sessions", parts, sess, code, len(ss.byID))
	}
	if _, sess, _ := ss.begin(sessionFetch(0, 0)); sess != nil {
		t.Error("a session of nothing")
	}
}

// TestSessionTells: of an incremental answer the client hears what is new.
func TestSessionTells(t *testing.T) {
	ss := newSessions()
	parts, s, _ := ss.begin(sessionFetch(0, 0, 1, 2))
	same := answered{hw: 5, lso: 5}
	steps := []struct {
		incremental bool
		answers     []answered
		want        []bool
	}{
		{false, []answered{same, same}, []bool{true, true}},
		{true, []answered{same, same}, []bool{false, false}},
		{true, []answered{{hw: 6, lso: 5}, {hw: 5, lso: 4}}, []bool{true, true}},
		{true, []answered{{hw: 6, lso: 5, from: 1}, {hw: 5, lso: 4}}, []bool{true, false}},
		{true, []answered{{hw: 6, lso: 5, from: 1, news: true}, {news: true, failed: true, hw: -1}}, []bool{true, true}},
		{true, []answered{{hw: 6, lso: 5, from: 1}, {hw: -1}}, []bool{false, true}}, // after an error all is new
	}
	for i, tt := range steps {
		if got := ss.end(s, tt.incremental, parts, tt.answers); !slices.Equal(got, tt.want) {
			t.Errorf("step %d: told %v, want %v", i, got, tt.want)
		}
	}
}

// TestSessionOrder: what took bytes of the budget, and what is not ready in time, goes behind the others. Kafka leaves
// what is not ready in front, where it takes the budget again.
func TestSessionOrder(t *testing.T) {
	ss := newSessions()
	parts, s, _ := ss.begin(sessionFetch(0, 0, 1, 2, 3))
	ss.end(s, false, parts, []answered{{taken: true}, {}, {}})
	parts, _, _ = ss.begin(sessionFetch(s.id, 1))
	wantParts(t, parts, 2, 3, 1)
	ss.end(s, true, parts, []answered{{}, {taken: true}, {taken: true}})
	parts, _, _ = ss.begin(sessionFetch(s.id, 2))
	wantParts(t, parts, 2, 3, 1)
}

// TestSessionsAreBounded: a session that is in use is not taken from its client; one that waited long is.
func TestSessionsAreBounded(t *testing.T) {
	ss := newSessions()
	now := time.Now()
	ss.now = func() time.Time { return now }
	_, first, _ := ss.begin(sessionFetch(0, 0, 1))
	for range sessionsMax - 1 {
		ss.begin(sessionFetch(0, 0, 1))
	}
	if _, s, _ := ss.begin(sessionFetch(0, 0, 1)); s != nil {
		t.Error("one above the bound")
	}
	now = now.Add(sessionEvict)
	ss.begin(sessionFetch(first.id, 1)) // in use
	if _, s, _ := ss.begin(sessionFetch(0, 0, 1)); s == nil || len(ss.byID) != sessionsMax || ss.byID[first.id] == nil {
		t.Errorf("%v; %d sessions", s, len(ss.byID))
	}
}

// TestSessionServed: a session over the wire.
func TestSessionServed(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	topic := v.host.Topics()[0]
	q := fetchOf(topic, topic.Partitions[0].Offsets.LogStart, 0)
	q.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](w, q, 18)
	if resp.SessionID == 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("%+v", resp)
	}
	q.Topics[0].Partitions[0].FetchOffset = topic.Partitions[0].Offsets.HighWatermark
	q.SessionID, q.SessionEpoch = resp.SessionID, 1
	if resp := ask[*kmsg.FetchResponse](v.dial(t), q, 18); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("at the end, on another connection: %+v", resp)
	}
	if resp := ask[*kmsg.FetchResponse](w, q, 18); resp.ErrorCode != invalidFetchSessionEpoch {
		t.Errorf("an epoch twice: %+v", resp)
	}
	q.SessionEpoch = 2
	q.Topics = []kmsg.FetchRequestTopic{{TopicID: [16]byte{7}, Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}},
		{Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	resp = ask[*kmsg.FetchResponse](w, q, 18)
	for _, got := range resp.Topics {
		if got.Partitions[0].ErrorCode != unknownTopicID {
			t.Errorf("an unknown topic: %+v", got)
		}
	}
	if len(resp.Topics) != 2 {
		t.Errorf("%d topics", len(resp.Topics))
	}
}

// TestSessionOfLongNames: names of topics that can't be take as many places as their length asks for: sessions must not
// keep gigabytes of them.
func TestSessionOfLongNames(t *testing.T) {
	ss := newSessions()
	_, s, _ := ss.begin(sessionFetch(0, 0, 1))
	if ss.places != 1 {
		t.Errorf("%d places", ss.places)
	}
	long := func(epoch int32) *kmsg.FetchRequest {
		q := sessionFetch(s.id, epoch, 1)
		q.Topics[0].Topic = strings.Repeat("x", 32_000) + strconv.Itoa(int(epoch))
		return q
	}
	kept := int32(1)
	for ss.byID[s.id] != nil {
		ss.begin(long(kept))
		kept++
	}
	if want := int32(sessionPartitionsMax / 126); kept < want || kept > want+2 {
		t.Errorf("%d names were kept, want %d", kept, want)
	}
	if ss.places != 0 || ss.partitions != 0 {
		t.Errorf("afterwards: %d places, %d partitions", ss.places, ss.partitions)
	}
	_, s, _ = ss.begin(long(0)) // a whole request, with a session of its own
	q := sessionFetch(s.id, 1, 2)
	q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: long(0).Topics[0].Topic, Partitions: []int32{1}}}
	if ss.begin(q); ss.places != 1 {
		t.Errorf("after it was forgotten: %d places", ss.places)
	}
}
