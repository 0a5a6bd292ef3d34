package coordinator

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bytes that an answer takes while kfake makes it and writes it, and while it is read, changed and written here.
const (
	listedBytes    = 1200 // a group in a list
	describedBytes = 1500 // a group that is described
	describedEach  = 900  // a member of it, beside what it said
	fetchedBytes   = 700  // a committed offset, beside its metadata
	assignedBytes  = 600  // a topic of a member of KIP-848, in both of its assignments
	assignedEach   = 60   // a partition of it
	copies         = 6    // of what members said
)

// AnswerBytes is about what the answer to a request that Serves lists takes in memory, beside what is in proportion to the
// request: what a short question about groups is answered with depends on what they keep. It is zero for all that change or wait.
func (c *Coordinator) AnswerBytes(req kmsg.Request) (n int64) {
	switch q := req.(type) {
	case *kmsg.ListGroupsRequest:
		c.mu.Lock()
		defer c.mu.Unlock()
		for name := range c.groups {
			n += listedBytes + copies*int64(len(name))
		}
	case *kmsg.DescribeGroupsRequest:
		n = c.memberAnswer(q.Groups, false)
	case *kmsg.ConsumerGroupDescribeRequest:
		n = c.memberAnswer(q.Groups, true)
	case *kmsg.OffsetFetchRequest:
		seen := map[string]bool{}
		for _, g := range asked(q) {
			if g.Topics == nil && !seen[g.Group] {
				n += c.offsets.answerBytes(g.Group)
				seen[g.Group] = true
			}
		}
	}
	return n
}

// memberAnswer is what descriptions of groups take, with what the members of KIP-848 are assigned where that is told.
func (c *Coordinator) memberAnswer(groups []string, assigned bool) int64 {
	kept := c.members.keptOf(groups)
	n := int64(0)
	for _, k := range kept {
		n += describedBytes + describedEach*k.members + copies*k.said
		if !assigned {
			continue
		}
		each := map[string]bool{}
		for _, w := range k.wishes {
			for _, name := range w.told {
				n += assignedBytes
				each[name] = true
			}
		}
		for name := range each {
			if t, ok := c.known.named(name); ok {
				n += assignedEach * int64(t.Partitions)
			}
		}
	}
	return n
}

// answerBytes is what an answer takes that tells all that a group committed.
func (s *store) answerBytes(group string) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.kept[group]
	if g == nil {
		return 0
	}
	return fetchedBytes*int64(len(g.at)) + 2*g.bytes
}

// kept is what a ledger has of a group.
type kept struct {
	members int64
	said    int64 // bytes
	wishes  []*wish
}

// keptOf is what members of some groups said, and their leaders assigned.
func (l *ledger) keptOf(groups []string) map[string]*kept {
	of := make(map[string]*kept, len(groups))
	for _, g := range groups {
		of[g] = &kept{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, h := range l.held {
		group, _, _ := strings.Cut(key[1:], "\x00")
		k := of[group]
		if k == nil || key[0] != memberKey("", "")[0] && key[0] != groupKey("")[0] {
			continue
		}
		k.members++
		k.said += max(0, h.bytes-memberBytes)
		if h.wish != nil {
			k.wishes = append(k.wishes, h.wish)
		}
	}
	return of
}
