package host

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// identities says which incarnation of a topic each local log is of. A log's partition.metadata says it, and is a small file
// without a checksum: where the metadata and the other partitions say otherwise, and the log itself fits theirs, it is wrong.
type identities struct {
	of       map[*locallog.Log]abi.UUID // zero: not known
	byName   map[string]abi.UUID        // what most logs of a topic are of
	findings map[*locallog.Log][]finding.Finding
	shared   map[abi.UUID][]string // ids that the metadata gives to topics of several names
}

// identify works out the identities of the logs in dirs.
func identify(store *rlmm.Store, dirs []*locallog.Dir) *identities {
	ids := &identities{of: map[*locallog.Log]abi.UUID{}, byName: map[string]abi.UUID{}, findings: map[*locallog.Log][]finding.Finding{},
		shared: map[abi.UUID][]string{}}
	k := &knownTopics{local: map[string][]*locallog.Log{}, remote: map[string]map[abi.UUID][]*rlmm.Partition{}, names: map[abi.UUID][]string{}}
	k.collect(store, dirs)
	for id, names := range k.names {
		if len(names) > 1 {
			ids.shared[id] = names
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.local)) {
		for _, l := range k.local[name] {
			ids.of[l] = ids.claimed(k, l)
		}
		ids.settle(k, name)
	}
	return ids
}

// knownTopics is what the files say of topics and their ids.
type knownTopics struct {
	local  map[string][]*locallog.Log
	remote map[string]map[abi.UUID][]*rlmm.Partition // of the names that lie locally
	names  map[abi.UUID][]string                     // that the metadata gives an id
}

func (k *knownTopics) collect(store *rlmm.Store, dirs []*locallog.Dir) {
	for _, d := range dirs {
		for _, l := range d.Logs() {
			k.local[l.ID.Topic] = append(k.local[l.ID.Topic], l)
		}
	}
	for _, p := range store.Partitions() { // by name
		topic, id := p.ID.Topic, p.ID.TopicID
		if names := k.names[id]; len(names) == 0 || names[len(names)-1] != topic {
			k.names[id] = append(names, topic)
		}
		if k.local[topic] == nil {
			continue
		}
		if k.remote[topic] == nil {
			k.remote[topic] = map[abi.UUID][]*rlmm.Partition{}
		}
		k.remote[topic][id] = append(k.remote[topic][id], p)
	}
}

// claimed is the id that a log's partition.metadata says, or the one that it must be.
func (ids *identities) claimed(k *knownTopics, l *locallog.Log) abi.UUID {
	says := l.ID.TopicID
	if says.IsZero() || k.remote[l.ID.Topic][says] != nil {
		return says
	}
	for id, parts := range k.remote[l.ID.Topic] {
		for _, p := range parts {
			if p.ID.Partition == l.ID.Partition && !p.Deleted() && (k.sibling(l, id) || depends(l)) && fits(l, p) {
				ids.tell(l, "it says topic id %s, and the log goes on where the remote tier of %s ends, which has the id %s: it is taken for that one's",
					says, l.ID.Topic, id)
				return id
			}
		}
	}
	if name, ok := k.other(l); ok {
		ids.tell(l, "it says topic id %s, which is that of topic %s: the id of this one is not known", says, name)
		return abi.UUID{}
	}
	return says
}

// sibling reports that another partition of the topic lies locally and says this id.
func (k *knownTopics) sibling(l *locallog.Log, id abi.UUID) bool {
	return slices.ContainsFunc(k.local[l.ID.Topic], func(o *locallog.Log) bool { return o.ID.Partition != l.ID.Partition && o.ID.TopicID == id })
}

// other finds a topic of another name that has the id that a log says: in the metadata, else beside it.
func (k *knownTopics) other(l *locallog.Log) (string, bool) {
	for _, name := range k.names[l.ID.TopicID] {
		if name != l.ID.Topic {
			return name, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.local)) {
		if name != l.ID.Topic && slices.ContainsFunc(k.local[name], func(o *locallog.Log) bool { return o.ID.TopicID == l.ID.TopicID }) {
			return name, true
		}
	}
	return "", false
}

// fits reports that a log can be the local tier of a remote partition: their leader epochs are one lineage, and there is no gap
// between them.
func fits(l *locallog.Log, p *rlmm.Partition) bool {
	_, highest := p.HighestInLineage(l.Lineage, l.LogEnd)
	return highest >= 0 && highest+1 >= l.Begin()
}

// depends reports that a log needs a remote tier: it begins where one has what came before. A topic that was made anew does not.
func depends(l *locallog.Log) bool {
	if start, ok := l.LogStart(); ok {
		return start < l.Begin()
	}
	cut, ok := l.Lineage.Start()
	return ok && cut < l.Begin()
}

// settle gives logs without an id what their siblings have, else the newest incarnation that the metadata names, and tells
// where the siblings disagree.
func (ids *identities) settle(k *knownTopics, name string) {
	logs, count := k.local[name], map[abi.UUID]int{}
	for _, l := range logs {
		if id := ids.of[l]; !id.IsZero() {
			count[id]++
		}
	}
	most := ids.most(k, name, count)
	ids.byName[name] = most
	for _, l := range logs {
		switch id := ids.of[l]; {
		case id.IsZero():
			ids.of[l] = most
		case id != most:
			ids.tell(l, "it says topic id %s, and other partitions of %s have %s: they are read as two topics", id, name, most)
		}
	}
}

// most is the id of most logs of a topic, and of equal ones the one that was copied last.
func (ids *identities) most(k *knownTopics, name string, count map[abi.UUID]int) (most abi.UUID) {
	if len(count) == 0 {
		for id := range k.remote[name] {
			count[id] = 0
		}
	}
	newer := func(a, b abi.UUID) int {
		return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(k.lastCopy(name, a), k.lastCopy(name, b)), slices.Compare(a[:], b[:]))
	}
	if len(count) > 0 {
		most = slices.MaxFunc(slices.Collect(maps.Keys(count)), newer)
	}
	return most
}

func (k *knownTopics) lastCopy(name string, id abi.UUID) int64 {
	last := int64(-1)
	for _, p := range k.remote[name][id] {
		last = max(last, p.LastCopyMs())
	}
	return last
}

func (ids *identities) tell(l *locallog.Log, format string, args ...any) {
	f := finding.Of(l.ID, finding.Unknown, format, args...)
	f.Path = filepath.Join(l.Path, "partition.metadata")
	ids.findings[l] = append(ids.findings[l], f)
}
