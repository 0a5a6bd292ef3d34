package server

import (
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/host/access"
)

// denials are those that were said in the log: a client that tries again and again is no news.
type denials struct {
	now func() time.Time // nil: time.Now

	mu    sync.Mutex // guards what follows
	said  map[denial]struct{}
	since time.Time // said is those from then on
}

type denial struct {
	who    access.Principal
	client string
	op     access.Operation
	kind   access.Kind
	name   string
}

const (
	// deniedMax bounds what is said within deniedTime: names are whatever a client makes up.
	deniedMax  = 1000
	deniedTime = time.Minute
)

// first reports what was not said yet. Where there was too much for its time, nothing more is said; after that time all is
// said anew.
func (d *denials) first(what denial) bool {
	now := time.Now
	if d.now != nil {
		now = d.now
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.said[what]; ok {
		return false
	}
	if len(d.said) >= deniedMax {
		if now().Sub(d.since) < deniedTime {
			return false
		}
		d.said = nil
	}
	if d.said == nil {
		d.said, d.since = map[denial]struct{}{}, now()
	}
	d.said[what] = struct{}{}
	return true
}
