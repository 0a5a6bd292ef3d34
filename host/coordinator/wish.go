package coordinator

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Rights are what a client may do. The zero value is everything. They are asked by one goroutine at a time.
type Rights struct {
	// See says whether the client may know of a topic, and Read whether it may read it. nil: it may.
	See, Read func(topic string) bool
	// Since gives a value that is another one, compared by ==, when See or Read may say something else than before; nil: they
	// never do.
	Since func() any
}

func (r *Rights) see(topic string) bool  { return r.See == nil || r.See(topic) }
func (r *Rights) read(topic string) bool { return r.Read == nil || r.Read(topic) }

func (r *Rights) since() any {
	if r.Since == nil {
		return nil
	}
	return r.Since()
}

// wish is what a member of KIP-848 subscribes to, in its own words. kfake is told the names alone that these mean for this
// member: it would match a pattern with topics that the member may not read, assign it those, and nobody would read them.
//
// A wish does not change after it is made: another one takes its place.
type wish struct {
	names   []string
	source  string         // the pattern; empty: none
	pattern *regexp.Regexp // nil: none

	told   []string // what kfake was told that it means
	topics int64    // the registry's version that this was worked out with
	rights any      // the client's, likewise
}

// next is the wish of a member after a heartbeat, without what it means; nil where it never said one. The pattern was checked.
func (w *wish) next(q *kmsg.ConsumerGroupHeartbeatRequest) (*wish, error) {
	if q.SubscribedTopicNames == nil && q.SubscribedTopicRegex == nil {
		return w, nil
	}
	out := &wish{}
	if w != nil {
		*out = *w
	}
	if q.SubscribedTopicNames != nil {
		out.names = q.SubscribedTopicNames
	}
	if q.SubscribedTopicRegex != nil {
		out.source, out.pattern = *q.SubscribedTopicRegex, nil
	}
	if out.source != "" && out.pattern == nil {
		var err error
		if out.pattern, err = regexp.Compile("^(?:" + out.source + ")$"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// means is the topics that a wish means for a client: those that it names and may see, and those that its pattern matches and
// it may read. One whose id nobody knows can't be assigned: idless has those. A name that is not served stays, and means
// something when it is.
func (w *wish) means(r *registry, rights *Rights) (names, idless []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	known := func(name string) bool { return r.byName[name] != nil && r.byName[name].ID.IsZero() }
	names = []string{}
	for _, name := range w.names {
		switch {
		case known(name):
			idless = append(idless, name)
		case rights.see(name):
			names = append(names, name)
		}
	}
	if w.pattern != nil {
		for name := range r.byName {
			switch {
			case !w.pattern.MatchString(name) || !rights.read(name):
			case known(name):
				idless = append(idless, name)
			default:
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	slices.Sort(idless)
	return slices.Compact(names), slices.Compact(idless)
}

// subscribe has a heartbeat say the names that the member's wish means, where kfake was not told them yet, and gives the wish
// with them; nil: the member has none. The pattern stays in the heartbeat, for who counts it.
func (s *Session) subscribe(q *kmsg.ConsumerGroupHeartbeatRequest) (*wish, error) {
	before := s.c.members.wish(memberKey(q.Group, q.MemberID))
	w, err := before.next(q)
	if w == nil || err != nil || q.MemberEpoch < epochJoins {
		return nil, err
	}
	topics, rights := s.c.known.current(), s.rights.since()
	if w == before && w.topics == topics && w.rights == rights {
		return w, nil
	}
	names, idless := w.means(&s.c.known, &s.rights)
	if len(idless) > 0 {
		s.c.log.Warn("topics can't be assigned to members of a KIP-848 group: no file tells their ids", "group", q.Group, "topics", idless)
	}
	if w != before || !slices.Equal(names, w.told) {
		q.SubscribedTopicNames = names
	}
	out := *w
	out.told, out.topics, out.rights = names, topics, rights
	return &out, nil
}
