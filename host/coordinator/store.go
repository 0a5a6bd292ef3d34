package coordinator

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// place is where an offset is committed: a partition of one incarnation of a topic.
type place struct {
	topic     string
	id        abi.UUID // zero where nobody knew it
	partition int32
}

// of reports whether a place is in the topic: the same id, or the same name where none was known.
func (p place) of(t Topic) bool { return p.topic == t.Name && (p.id == t.ID || p.id.IsZero()) }

// committed is a committed offset.
type committed struct {
	offset   int64
	epoch    int32
	metadata string
	at       int64 // milliseconds since 1970
}

// change is one change of what is committed, as it stands in the file.
type change struct {
	Group     string   `json:"group"`
	Topic     string   `json:"topic"`
	ID        abi.UUID `json:"-"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Epoch     int32    `json:"epoch"`
	Metadata  string   `json:"metadata,omitempty"`
	At        int64    `json:"at"`
	Deleted   bool     `json:"deleted,omitempty"` // there is no offset any more
}

func (c *change) place() place { return place{c.Topic, c.ID, c.Partition} }

// entryBytes is what an offset takes in memory beside its names and its metadata: two entries of maps, measured.
const entryBytes = 200

func size(group string, at place, c committed) int64 {
	return entryBytes + int64(len(group)+len(at.topic)+len(c.metadata))
}

// store is what is committed, in memory and, where it has a directory, in a file.
type store struct {
	file *file // nil: none
	log  *slog.Logger

	queue chan *save
	stop  chan struct{} // closed: write ends
	done  chan struct{} // closed when it has

	mu      sync.RWMutex // guards what follows
	kept    map[string]map[place]committed
	offsets int // of all groups
	bytes   int64
}

// save is changes that wait to be written.
type save struct {
	changes []change
	done    chan error
}

// openStore opens the store of a directory; empty: one in memory.
func openStore(dir string, log *slog.Logger) (*store, error) {
	s := &store{log: log, queue: make(chan *save), stop: make(chan struct{}), done: make(chan struct{}), kept: map[string]map[place]committed{}}
	if dir != "" {
		var err error
		if s.file, err = openFile(dir, log, s.apply, s.all); err != nil {
			return nil, err
		}
	}
	go s.write() // ends with stop; close waits for done
	return s, nil
}

// close ends the store. What was acknowledged is on disk already.
func (s *store) close() error {
	close(s.stop)
	<-s.done
	if s.file == nil {
		return nil
	}
	return s.file.close()
}

// save makes changes, and returns when they are on disk. An error is EXHAUSTED where there is no room, PHASE after close,
// else that of the file; nothing is changed then.
func (s *store) save(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := s.room(changes); err != nil {
		return err
	}
	w := &save{changes, make(chan error, 1)}
	select {
	case s.queue <- w:
		return <-w.done // who takes it answers it
	case <-s.stop:
		return abi.Errorf("commit", changes[0].Group, abi.Phase, "the coordinator is closed")
	}
}

// room refuses what would grow beyond the bound. Commits that come at once may pass it together, each by its own size.
func (s *store) room(changes []change) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	grows := int64(0)
	for i := range changes {
		ch := &changes[i]
		if ch.Deleted {
			continue
		}
		grows += size(ch.Group, ch.place(), ch.committed())
		if old, ok := s.kept[ch.Group][ch.place()]; ok {
			grows -= size(ch.Group, ch.place(), old)
		}
	}
	if grows > 0 && s.bytes+grows > maxOffsetData {
		return abi.Errorf("commit", changes[0].Group, abi.Exhausted, "committed offsets take %d bytes, and at most %d are kept: delete groups", s.bytes, maxOffsetData)
	}
	return nil
}

func (c *change) committed() committed { return committed{c.Offset, c.Epoch, c.Metadata, c.At} }

// write writes what is saved, all that waits with one sync.
func (s *store) write() {
	defer close(s.done)
	for {
		select {
		case <-s.stop:
			return
		case w := <-s.queue:
			s.writeAll(append([]*save{w}, s.waiting()...))
		}
	}
}

// waiting is what else waits now.
func (s *store) waiting() []*save {
	var out []*save
	for {
		select {
		case w := <-s.queue:
			out = append(out, w)
		default:
			return out
		}
	}
}

func (s *store) writeAll(saves []*save) {
	var changes []change
	for _, w := range saves {
		changes = append(changes, w.changes...)
	}
	var err error
	if s.file != nil {
		err = s.file.append(changes, s.count())
	}
	if err == nil {
		s.apply(changes)
	}
	for _, w := range saves {
		w.done <- err
	}
}

// apply makes changes in memory.
func (s *store) apply(changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		ch, at := &changes[i], changes[i].place()
		g := s.kept[ch.Group]
		if old, ok := g[at]; ok {
			s.bytes -= size(ch.Group, at, old)
			delete(g, at)
			s.offsets--
		}
		if ch.Deleted {
			if len(g) == 0 {
				delete(s.kept, ch.Group)
			}
			continue
		}
		if g == nil {
			g = map[place]committed{}
			s.kept[ch.Group] = g
		}
		g[at] = ch.committed()
		s.offsets++
		s.bytes += size(ch.Group, at, g[at])
	}
}

func (s *store) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.offsets
}

// all is what is kept, as changes from nothing.
func (s *store) all() []change {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []change
	for group, places := range s.kept {
		for at, is := range places {
			out = append(out, change{Group: group, Topic: at.topic, ID: at.id, Partition: at.partition,
				Offset: is.offset, Epoch: is.epoch, Metadata: is.metadata, At: is.at})
		}
	}
	return out
}

// groups are those that committed something, by name.
func (s *store) groups() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]string, 0, len(s.kept))
	for g := range s.kept {
		out = append(out, g)
	}
	slices.Sort(out)
	return out
}

// find gives what a group committed of a partition; nil: nothing.
func (s *store) find(group string, t Topic, partition int32) *committed {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, id := range []abi.UUID{t.ID, {}} {
		if is, ok := s.kept[group][place{t.Name, id, partition}]; ok {
			return &is
		}
	}
	return nil
}

// when is the time of a commit.
func (s *store) when(group string, at place) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.UnixMilli(s.kept[group][at].at)
}

// list is where a group committed, by topic and partition.
func (s *store) list(group string) []place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]place, 0, len(s.kept[group]))
	for at := range s.kept[group] {
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition), cmp.Compare(a.id.String(), b.id.String()))
	})
	return out
}

// deletions is the changes that delete what a group committed where which says so.
func (s *store) deletions(group string, which func(place) bool) []change {
	var out []change
	for _, at := range s.list(group) {
		if which(at) {
			out = append(out, change{Group: group, Topic: at.topic, ID: at.id, Partition: at.partition, Deleted: true})
		}
	}
	return out
}
