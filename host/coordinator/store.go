package coordinator

import (
	"cmp"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
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
	taken    bool  // it was taken up from another coordinator
	line     int   // bytes in the file
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
	Taken     bool     `json:"taken,omitempty"`   // another coordinator kept it
	// Source makes it another kind of change: what this source has was taken up, as far as Offset. It has no group.
	Source string `json:"source,omitempty"`
}

func (c *change) place() place { return place{c.Topic, c.ID, c.Partition} }

// entryBytes is what an offset takes in memory beside the bytes of its line, which has its names, its metadata and as much
// again as two entries of maps take beyond this, measured.
const entryBytes = 80

func (c committed) size() int64 { return entryBytes + int64(c.line) }

// group is what a group committed.
type group struct {
	at    map[place]committed
	bytes int64
}

// store is what is committed, in memory and, where it has a directory, in a file.
type store struct {
	file *file // nil: none
	log  *slog.Logger

	queue chan *save
	stop  chan struct{} // closed: write ends
	done  chan struct{} // closed when it has

	mu      sync.RWMutex // guards what follows
	kept    map[string]*group
	sources map[string]int64 // that were taken up, and how far
	offsets int              // of all groups
	bytes   int64
}

// save is changes that wait to be written.
type save struct {
	changes []change
	lines   []byte
	lengths []int // of each change's line
	done    chan error
}

func newSave(changes []change) *save {
	w := &save{changes: changes, lengths: make([]int, len(changes)), done: make(chan error, 1)}
	for i, ch := range changes {
		before := len(w.lines)
		w.lines = appendLine(w.lines, ch)
		w.lengths[i] = len(w.lines) - before
	}
	return w
}

// openStore opens the store of a directory; empty: one in memory.
func openStore(dir string, log *slog.Logger) (*store, error) {
	return openStoreOn(ownfile.Create, dir, log)
}

// openStoreOn is openStore where a new file is made by create.
func openStoreOn(create func(op, path string) (*os.File, error), dir string, log *slog.Logger) (*store, error) {
	s := &store{log: log, queue: make(chan *save), stop: make(chan struct{}), done: make(chan struct{}), kept: map[string]*group{}, sources: map[string]int64{}}
	if dir != "" {
		var err error
		if s.file, err = openFile(dir, create, log, s.load, s.each); err != nil {
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
	w := newSave(changes)
	select {
	case s.queue <- w:
		return <-w.done // who takes it answers it
	case <-s.stop:
		return abi.Errorf("commit", changes[0].Group, abi.Phase, "the coordinator is closed")
	}
}

// growth is by how many bytes saves let what is kept grow, that are not applied yet.
type growth struct {
	all int64
	of  map[string]int64 // by group
}

// room adds a save to what grows, or refuses it where it would grow beyond a bound.
func (s *store) room(w *save, so *growth) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all, of := int64(0), map[string]int64{}
	for i := range w.changes {
		ch := &w.changes[i]
		if ch.Source != "" { // of which there are as many as a topic has partitions
			continue
		}
		by := -s.sizeLocked(ch.Group, ch.place())
		if !ch.Deleted {
			by += ch.committed(w.lengths[i]).size()
		}
		all, of[ch.Group] = all+by, of[ch.Group]+by
	}
	if has := s.bytes + so.all; all > 0 && has+all > maxOffsetData {
		return abi.Errorf("commit", w.changes[0].Group, abi.Exhausted, "committed offsets take %d bytes, and at most %d are kept: delete groups", has, maxOffsetData)
	}
	for name, by := range of {
		if has := s.bytesLocked(name) + so.of[name]; by > 0 && has+by > maxGroupData {
			return abi.Errorf("commit", name, abi.Exhausted, "the group's committed offsets take %d bytes, and at most %d are kept of one: delete some", has, maxGroupData)
		}
	}
	so.all += all
	for name, by := range of {
		so.of[name] += by
	}
	return nil
}

func (s *store) sizeLocked(name string, at place) int64 {
	if g := s.kept[name]; g != nil {
		if is, ok := g.at[at]; ok {
			return is.size()
		}
	}
	return 0
}

func (s *store) bytesLocked(name string) int64 {
	if g := s.kept[name]; g != nil {
		return g.bytes
	}
	return 0
}

func (c *change) committed(line int) committed {
	return committed{c.Offset, c.Epoch, c.Metadata, c.At, c.Taken, line}
}

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

// writeAll writes what there is room for, and answers each.
func (s *store) writeAll(saves []*save) {
	so := &growth{of: map[string]int64{}}
	var lines []byte
	saves = slices.DeleteFunc(saves, func(w *save) bool {
		err := s.room(w, so)
		if err != nil {
			w.done <- err
			return true
		}
		lines = append(lines, w.lines...)
		return false
	})
	var err error
	if s.file != nil && len(lines) > 0 {
		err = s.file.append(lines)
	}
	for _, w := range saves {
		if err == nil {
			s.apply(w)
		}
		w.done <- err
	}
}

// loadSlack is what a file may have beyond maxOffsetData: earlier versions counted less of a line.
const loadSlack = 2

// load takes a change of the file, and refuses what no file of this program has.
func (s *store) load(ch change) bool {
	w := newSave([]change{ch})
	if s.bytes > loadSlack*maxOffsetData && !ch.Deleted {
		return false
	}
	s.apply(w)
	return true
}

// apply makes changes in memory.
func (s *store) apply(w *save) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range w.changes {
		s.applyLocked(&w.changes[i], w.lengths[i])
	}
}

func (s *store) applyLocked(ch *change, line int) {
	if ch.Source != "" {
		s.sources[ch.Source] = ch.Offset
		return
	}
	at := ch.place()
	if old := s.sizeLocked(ch.Group, at); old > 0 {
		g := s.kept[ch.Group]
		s.bytes, g.bytes = s.bytes-old, g.bytes-old
		delete(g.at, at)
		s.offsets--
		if len(g.at) == 0 {
			delete(s.kept, ch.Group)
		}
	}
	if ch.Deleted {
		return
	}
	g := s.kept[ch.Group]
	if g == nil {
		g = &group{at: map[place]committed{}}
		s.kept[ch.Group] = g
	}
	is := ch.committed(line)
	g.at[at] = is
	s.bytes, g.bytes = s.bytes+is.size(), g.bytes+is.size()
	s.offsets++
}

func (s *store) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.offsets
}

// each visits what is kept, as changes from nothing, a group at a time.
func (s *store) each(visit func(change) error) error {
	for source, end := range s.takenUpAll() {
		if err := visit(change{Source: source, Offset: end}); err != nil {
			return err
		}
	}
	for _, name := range s.groups() {
		for _, ch := range s.all(name) {
			if err := visit(ch); err != nil {
				return err
			}
		}
	}
	return nil
}

// takenUpAll is the sources that were taken up.
func (s *store) takenUpAll() map[string]int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.sources)
}

// all is what a group committed, as changes from nothing.
func (s *store) all(name string) []change {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []change
	for at, is := range s.places(name) {
		out = append(out, change{Group: name, Topic: at.topic, ID: at.id, Partition: at.partition,
			Offset: is.offset, Epoch: is.epoch, Metadata: is.metadata, At: is.at, Taken: is.taken})
	}
	return out
}

// places is what a group committed; the lock is held.
func (s *store) places(name string) map[place]committed {
	if g := s.kept[name]; g != nil {
		return g.at
	}
	return nil
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
		if is, ok := s.places(group)[place{t.Name, id, partition}]; ok {
			return &is
		}
	}
	return nil
}

// when is the time of a commit.
func (s *store) when(group string, at place) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return time.UnixMilli(s.places(group)[at].at)
}

// list is where a group committed, by topic and partition.
func (s *store) list(group string) []place {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]place, 0, len(s.places(group)))
	for at := range s.places(group) {
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
