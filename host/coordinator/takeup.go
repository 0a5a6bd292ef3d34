package coordinator

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/abi"
)

// Offsets are committed offsets that another coordinator kept, as one source of them has it.
type Offsets struct {
	Source string // names it, the same at each start
	End    int64  // how far it was read: what is taken up is not taken up again below it
	Each   []Offset
}

// Offset is an offset that a group committed.
type Offset struct {
	Group, Topic string
	TopicID      abi.UUID // zero: not known; it is then the topic's that is served by this name, where one is
	Partition    int32
	Offset       int64
	LeaderEpoch  int32 // -1: not known
	Metadata     string
	At           int64 // when it was committed: milliseconds since 1970
	Here         bool  // of what is kept: a client committed it here, and nothing that is taken up takes its place
}

// Others gives the committed offsets of other coordinators, a source after the other. taken gives the End with which a source
// was taken up before, 0: never. It ends with visit's error.
type Others func(taken func(source string) int64, visit func(*Offsets) error) error

// takeUpAtOnce is how many offsets are written with one sync.
const takeUpAtOnce = 5000

// takeUp takes up what other coordinators kept: each source once, as far as it went. An offset that a client committed here
// stays, however old it is: what lies between the two was read elsewhere at best, and nobody has read it here. Groups of offsets
// that were taken up have no members.
func (c *Coordinator) takeUp(others Others) error {
	served := map[string]Topic{}
	for _, t := range c.topics.Topics() {
		served[t.Name] = t
	}
	return others(c.offsets.takenUp, func(o *Offsets) error {
		changes, t := c.offsets.newer(o.Each, served)
		if err := c.saveAll(changes, &t); err != nil {
			return err
		}
		if err := c.offsets.save([]change{{Source: o.Source, Offset: o.End}}); err != nil {
			return err
		}
		c.log.Warn("committed offsets of another cluster's groups are taken up; said once", "from", o.Source, "up_to", o.End, "groups", len(t.groups), "offsets", t.taken,
			"that_have_one_here", t.stay, "of_topics_not_served", t.unserved, "refused", t.refused)
		return nil
	})
}

// tally counts what became of the offsets of a source.
type tally struct {
	groups                         map[string]bool
	taken, stay, unserved, refused int
}

// newer is the changes that take up what is not here yet, or was committed later than what was taken up before.
func (s *store) newer(all []Offset, served map[string]Topic) ([]change, tally) {
	t := tally{groups: map[string]bool{}}
	var out []change
	for i := range all {
		o := &all[i]
		is, ok := served[o.Topic]
		id := o.TopicID
		if id.IsZero() {
			id = is.ID
		}
		ch := change{Group: o.Group, Topic: o.Topic, ID: id, Partition: o.Partition, Offset: o.Offset, Epoch: o.LeaderEpoch, Metadata: o.Metadata, At: o.At, Taken: true}
		switch old := s.find(o.Group, Topic{Name: o.Topic, ID: id}, o.Partition); {
		case len(o.Group) > maxGroupName || !utf8.ValidString(o.Group) || !utf8.ValidString(o.Topic):
			t.refused++
			continue
		case old != nil && (!old.taken || old.at >= o.At):
			t.stay++
			continue
		case !ok || is.ID != id:
			t.unserved++
		}
		if len(ch.Metadata) > maxMetadata { // which a broker may be told to allow
			ch.Metadata = strings.ToValidUTF8(ch.Metadata[:maxMetadata], "")
		}
		out = append(out, ch)
	}
	return out, t
}

// saveAll saves changes, many at once, and where there is no room for all of them those of each group for which there is.
func (c *Coordinator) saveAll(changes []change, t *tally) error {
	for len(changes) > 0 {
		n := min(len(changes), takeUpAtOnce)
		for n < len(changes) && changes[n].Group == changes[n-1].Group { // they come group by group
			n++
		}
		if err := c.saveGroups(changes[:n], t); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

func (c *Coordinator) saveGroups(changes []change, t *tally) error {
	err := c.offsets.save(changes)
	if err == nil {
		t.taken += len(changes)
		for i := range changes {
			t.groups[changes[i].Group] = true
		}
		return nil
	}
	if abi.KindOf(err) != abi.Exhausted {
		return err
	}
	first := changes[0].Group
	n := 1
	for n < len(changes) && changes[n].Group == first {
		n++
	}
	if n == len(changes) {
		t.refused += n
		c.log.Error("a group's committed offsets can't be taken up", "group", first, "offsets", n, "error", err)
		return nil
	}
	for from := 0; from < len(changes); from += n { // each group by itself
		for n = 1; from+n < len(changes) && changes[from+n].Group == changes[from].Group; n++ {
		}
		if err := c.saveGroups(changes[from:from+n], t); err != nil {
			return err
		}
	}
	return nil
}

// takenUp is how far a source was taken up.
func (s *store) takenUp(source string) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sources[source]
}

// Kept is what a directory of committed offsets holds.
type Kept struct {
	Each    []Offset         // by group, topic and partition
	Sources map[string]int64 // what was taken up, and how far
	Damage  string           // what is wrong with the file; empty: nothing
}

// ReadKept reads the committed offsets of a directory, also while a Coordinator has it open, and changes nothing. Where there
// are none it gives none. Errors are those of Open.
func ReadKept(dir string) (*Kept, error) {
	s := &store{kept: map[string]*group{}, sources: map[string]int64{}}
	held, err := (&file{path: pathIn(dir)}).read(s.load)
	if err != nil {
		return nil, err
	}
	out := &Kept{Sources: s.sources}
	if held.damaged() {
		out.Damage = fmt.Sprintf("%s: %d lines are damaged, and %d bytes that were written are missing: what they said is lost", pathIn(dir), held.lost, held.short)
	}
	for _, name := range s.groups() {
		for _, at := range s.list(name) {
			is := s.places(name)[at]
			out.Each = append(out.Each, Offset{name, at.topic, at.id, at.partition, is.offset, is.epoch, is.metadata, is.at, !is.taken})
		}
	}
	return out, nil
}
