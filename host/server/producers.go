package server

import (
	"sync"
	"time"
)

const (
	// producersMax bounds the producers that are known of, and producerTime is how long one is that asks nothing.
	producersMax = 1000
	producerTime = time.Hour
)

// producers are the clients that asked for a producer id: they are told of topics what a producer needs to hear. A client asks on
// one connection, and for metadata on others. The zero value knows none.
type producers struct {
	mu   sync.Mutex
	seen map[producer]time.Time // when it was asked about last
}

type producer struct{ owner, client string }

// add notes a client. Where there are too many, one that asked nothing for long makes room, else it stays unknown.
func (p *producers) add(who producer, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[producer]time.Time{}
	}
	if len(p.seen) >= producersMax {
		for old, at := range p.seen {
			if now.Sub(at) > producerTime {
				delete(p.seen, old)
			}
		}
	}
	if _, ok := p.seen[who]; ok || len(p.seen) < producersMax {
		p.seen[who] = now
	}
}

// has reports a client that asked for a producer id.
func (p *producers) has(who producer, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.seen[who]
	if ok {
		p.seen[who] = now
	}
	return ok
}

// producer is who a request's client is among producers.
func (c *conn) producer(req *request) producer {
	return producer{c.owner(), clientID(req.client)}
}
