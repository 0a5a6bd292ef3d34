package server

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/server/fetchsession"
)

// mishaps are the errors that somebody must mend, as they were said in the log. A client asks for the same again at once, and for
// days: a partition's error is said once a minute, with how often it was not.
type mishaps struct {
	mu   sync.Mutex
	said map[mishap]*toldAt
}

type mishap struct {
	topicPartition
	code reader.Code
}

type toldAt struct {
	last   time.Time
	untold int // since
}

const (
	// mishapsMax bounds what is known of: behind it nothing more is said, until a minute is over for some.
	mishapsMax  = 1000
	mishapEvery = time.Minute
)

// turn says whether a mishap is said now, and how often it was not since it last was.
func (m *mishaps) turn(what mishap, now time.Time) (untold int, tell bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.said[what]; at != nil {
		if now.Sub(at.last) < mishapEvery {
			at.untold++
			return 0, false
		}
		untold, *at = at.untold, toldAt{last: now}
		return untold, true
	}
	if len(m.said) >= mishapsMax && !m.forget(now) {
		return 0, false
	}
	if m.said == nil {
		m.said = map[mishap]*toldAt{}
	}
	m.said[what] = &toldAt{last: now}
	return 0, true
}

// forget drops what is said anew when it comes again, and reports whether there was such.
func (m *mishaps) forget(now time.Time) bool {
	before := len(m.said)
	for what, at := range m.said {
		if now.Sub(at.last) >= mishapEvery {
			delete(m.said, what)
		}
	}
	return len(m.said) < before
}

// nameOf is a topic's name for people, who know no ids.
func (s *Server) nameOf(key *fetchsession.Key) string {
	if key.Topic != "" {
		return key.Topic
	}
	if t := s.identified(key.ID); t != nil {
		return t.Name
	}
	return key.ID.String()
}

// mend reports an error of the store or of the data, and not of the client: it is for who runs the server.
func mend(code reader.Code) bool {
	return code == reader.UnknownServerError || code == reader.CorruptMessage || code == reader.KafkaStorageError
}

// tell logs what a partition is answered with an error for: at, an offset, a timestamp or an epoch.
func (c *conn) tell(req *request, what, topic string, partition int32, at int64, code reader.Code, err error) {
	level, untold := slog.LevelInfo, 0
	if mend(code) {
		n, now := c.s.mishaps.turn(mishap{topicPartition{topic, partition}, code}, time.Now())
		if untold = n; now {
			level = slog.LevelWarn
		}
	}
	ctx := inKind(code.String())
	if !c.s.log.Enabled(ctx, level) { // it may be one of 60,000 partitions
		return
	}
	args := []any{"request", req.id, "client", short(req.client),
		"partition", fmt.Sprintf("%s-%d", short(topic), partition), "at", at, "code", code.String(), "error", err}
	if level == slog.LevelWarn {
		args = append(args, "untold", untold)
	}
	c.s.log.Log(ctx, level, what+" failed", args...)
}
