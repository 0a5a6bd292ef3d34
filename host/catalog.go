package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// catalog is the partitions that a Host knows: what the metadata tells of, what the log directories hold, and how the
// two belong together. It does not change after it is made, but for lineages that are completed from the store.
type catalog struct {
	topics map[string]*Topic // by name: the newest incarnation
	all    map[incarnation]*Topic
	byID   map[abi.UUID]*Topic // those whose id is known
	epochs *epochReader
	nodeID int32
}

// incarnation is a topic's name and id; topics whose id no file tells have the zero id, and only their name.
type incarnation struct {
	name string
	id   abi.UUID
}

// Topic is one incarnation of a topic.
type Topic struct {
	Name       string
	ID         abi.UUID // zero where no file tells it
	Newest     bool     // the name means this incarnation
	Deleted    bool     // the metadata says that it was deleted, or is being deleted
	Partitions []*TopicPartition
}

// clusterMetadata is KRaft's own log, which lies beside topics.
const clusterMetadata = "__cluster_metadata"

// Visible reports whether the topic is what its name means to a client. A broker shows nobody the log that it keeps for
// itself (KRaft's __cluster_metadata).
func (t *Topic) Visible() bool { return t.Newest && !t.Deleted && t.Name != clusterMetadata }

// TopicPartition is one partition of a Topic.
type TopicPartition struct {
	ID      abi.TopicIDPartition
	Offsets locality.Offsets
	Local   *locallog.Log   // nil: no log directory holds it
	Remote  *rlmm.Partition // nil: the metadata does not name it
	// Findings is what the two tiers and the checkpoints say against each other. It does not change.
	Findings []finding.Finding

	mu      sync.Mutex // guards what follows
	lineage epoch.Lineage
	known   bool          // lineage is complete
	read    epoch.Lineage // as it was read from the store, also for an earlier catalog; not cut; empty: it was not
	stable  int64         // told.stable of the segment toldBy
	toldBy  abi.UUID      // zero: none was read
	load    *epochLoad    // that reads it now; nil: none
}

// newCatalog makes a catalog. What an earlier one read from the store is taken over from old; it may be nil.
func newCatalog(store *rlmm.Store, dirs []*locallog.Dir, nodeID int32, epochs *epochReader, old *catalog) *catalog {
	c := &catalog{topics: map[string]*Topic{}, all: map[incarnation]*Topic{}, byID: map[abi.UUID]*Topic{}, nodeID: nodeID, epochs: epochs}
	ids := localIDs(store, dirs)
	for _, d := range dirs {
		for _, l := range d.Logs() {
			id := l.ID
			if id.TopicID.IsZero() {
				id.TopicID = ids[id.Topic]
			}
			c.partition(id).Local = l
		}
	}
	for _, p := range store.Partitions() {
		c.partition(p.ID).Remote = p
	}
	for _, t := range c.list() { // in an order, so that what the names mean does not depend on chance
		c.complete(t)
		c.elect(t, ids)
	}
	for _, t := range c.topics {
		t.Newest = true
	}
	if old != nil {
		c.inherit(old)
	}
	return c
}

// inherit takes over the lineages that an earlier catalog read from the store.
func (c *catalog) inherit(old *catalog) {
	for key, t := range old.all {
		if c.all[key] == nil {
			continue
		}
		for _, was := range t.Partitions {
			if is := c.all[key].find(was.ID.Partition); is != nil {
				was.mu.Lock()
				is.read, is.stable, is.toldBy = was.read, was.stable, was.toldBy
				was.mu.Unlock()
			}
		}
	}
}

// find gives the partition of this number, nil where there is none.
func (t *Topic) find(partition int32) *TopicPartition {
	for _, p := range t.Partitions {
		if p.ID.Partition == partition {
			return p
		}
	}
	return nil
}

// localIDs is, by name, the incarnation of each topic that lies locally. Logs without partition.metadata belong to what
// their siblings have, else to the newest incarnation that the metadata names.
func localIDs(store *rlmm.Store, dirs []*locallog.Dir) map[string]abi.UUID {
	ids := map[string]abi.UUID{}
	for _, d := range dirs {
		for _, l := range d.Logs() {
			if _, ok := ids[l.ID.Topic]; !ok || !l.ID.TopicID.IsZero() {
				ids[l.ID.Topic] = l.ID.TopicID
			}
		}
	}
	newest := map[string]int64{}
	for _, p := range store.Partitions() {
		id, ok := ids[p.ID.Topic]
		_, guessed := newest[p.ID.Topic]
		if ms := p.LastCopyMs(); ok && (id.IsZero() || guessed && ms > newest[p.ID.Topic]) {
			ids[p.ID.Topic], newest[p.ID.Topic] = p.ID.TopicID, ms
		}
	}
	return ids
}

// partition finds or makes a partition while the catalog is built.
func (c *catalog) partition(id abi.TopicIDPartition) *TopicPartition {
	key := incarnation{id.Topic, id.TopicID}
	t, ok := c.all[key]
	if !ok {
		t = &Topic{Name: id.Topic, ID: id.TopicID}
		c.all[key] = t
		if !id.TopicID.IsZero() {
			c.byID[id.TopicID] = t
		}
	}
	if p := t.find(id.Partition); p != nil {
		return p
	}
	p := &TopicPartition{ID: id}
	t.Partitions = append(t.Partitions, p)
	return p
}

func (c *catalog) complete(t *Topic) {
	slices.SortFunc(t.Partitions, func(a, b *TopicPartition) int { return cmp.Compare(a.ID.Partition, b.ID.Partition) })
	t.Deleted = true
	for _, p := range t.Partitions {
		p.complete()
		t.Deleted = t.Deleted && p.Local == nil && p.Remote.Deleted()
	}
}

// elect lets the topic's name mean t if it is newer than what it meant: what lies locally, else what was copied last.
func (c *catalog) elect(t *Topic, local map[string]abi.UUID) {
	old, ok := c.topics[t.Name]
	id, isLocal := local[t.Name]
	if !ok || isLocal && t.ID == id || !(isLocal && old.ID == id) && t.lastCopy() > old.lastCopy() {
		c.topics[t.Name] = t
	}
}

func (t *Topic) lastCopy() int64 {
	last := int64(-1)
	for _, p := range t.Partitions {
		if p.Remote != nil {
			last = max(last, p.Remote.LastCopyMs())
		}
	}
	return last
}

// complete works out the offsets from what is known of both tiers.
func (p *TopicPartition) complete() {
	first, last := p.remoteRange()
	if p.Local == nil || p.Local.Begin() < 0 {
		end := last + 1
		p.Offsets = locality.Offsets{LogStart: first, LocalStart: end, LocalBase: -1, HighWatermark: end, LastStableOffset: end,
			LogEnd: end, Remote: p.Remote != nil}
		return
	}
	l := p.Local
	base := l.Begin()
	o := locality.Offsets{LocalBase: base, HighWatermark: l.HighWatermark, LogEnd: l.LogEnd, Remote: p.Remote != nil}
	checkpoint, ok := l.LogStart()
	switch {
	case !o.Remote:
		o.LogStart = max(checkpoint, base)
	case ok:
		o.LogStart = max(checkpoint, p.retained(first, last, base))
	case last >= 0: // the checkpoint was lost: what is in the remote tier tells
		o.LogStart = min(p.remoteStart(first, base), base)
	default:
		o.LogStart = base
	}
	o.LocalStart = max(o.LogStart, base)
	o.HighWatermark = max(o.HighWatermark, p.committed(o.LocalStart))
	o.LastStableOffset = l.StableBelow(o.HighWatermark)
	p.Offsets = o
	p.lineage, p.known = l.Lineage, !l.Lineage.Empty()
}

// committed is the end of what was committed by what else is known, before the checkpoint of high watermarks says so, which a
// broker writes every five seconds, and not when it is killed: it copies and deletes only what lies below its last stable
// offset. Else what lies between the two would be in neither tier for a reader: the remote one ends where the local one begins.
func (p *TopicPartition) committed(localStart int64) int64 {
	end := localStart
	if p.Remote != nil {
		_, highest := p.Remote.HighestInLineage(p.Local.Lineage, p.Local.LogEnd)
		end = max(end, highest+1)
	}
	return min(end, p.Local.LogEnd)
}

// retained is the offset that retention has come to, before the broker's checkpoint says so, which it writes once a minute:
// until then a client that starts at the log's begin would ask for what is gone. It counts where the broker cut its leader
// epochs there, which it does before it deletes a segment, or where the metadata has all below it deleted; else it is 0: what
// is not known to be gone is not skipped.
func (p *TopicPartition) retained(first, last, base int64) int64 {
	begin := base
	if last >= 0 {
		begin = min(p.remoteStart(first, base), base)
	}
	if cut, ok := p.Local.Lineage.Start(); ok && begin == cut || p.Remote.DeletedTo() >= begin {
		return begin
	}
	return 0
}

// remoteStart is where the remote tier begins, as far as it belongs to the local lineage; where that is lost too, at first.
func (p *TopicPartition) remoteStart(first, base int64) int64 {
	cut, ok := p.Local.Lineage.Start()
	if !ok {
		return first
	}
	if start, ok := p.Remote.LogStartInLineage(p.Local.Lineage); ok {
		return max(start, cut)
	}
	return base
}

// remoteRange is the first and last offset of the finished segments, inclusive; last is -1 where there are none.
func (p *TopicPartition) remoteRange() (first, last int64) {
	if p.Remote != nil {
		if first, last, ok := p.Remote.Range(); ok {
			return first, last
		}
	}
	return 0, -1
}

// lineageOf gives the partition's leader epochs, and where its stable part ends: the local tier's, else what the store has.
func (c *catalog) lineageOf(ctx context.Context, p *TopicPartition) (_ epoch.Lineage, stable int64, err error) {
	lineage, stable, load := c.knownLineage(p)
	if load == nil {
		return lineage, stable, nil
	}
	return load.wait(ctx, p.ID.String())
}

// knownLineage is both, or the read that they come from. The lock is not held while the store is asked.
func (c *catalog) knownLineage(p *TopicPartition) (_ epoch.Lineage, stable int64, load *epochLoad) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known || p.Remote == nil {
		return p.lineage, p.stableLocked(), nil
	}
	newest, ok := p.Remote.Newest()
	if !ok {
		p.known = true
		return p.lineage, p.stableLocked(), nil
	}
	epochs := p.read.Empty() || p.read.Latest() != lastEpoch(newest) // a later segment of the same epoch tells no new ones
	if !epochs && p.toldBy == newest.SegmentID {
		p.settleLocked(p.read)
		return p.lineage, p.stableLocked(), nil
	}
	if p.load == nil {
		p.load = c.epochs.begin(newest, epochs, p.loaded)
	}
	return epoch.Lineage{}, 0, p.load
}

// loaded takes the lineage that a segment was uploaded with, else one of what the metadata has.
func (p *TopicPartition) loaded(seg *rlmm.Segment, t told, err error) (epoch.Lineage, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load = nil
	if err != nil {
		return epoch.Lineage{}, 0, err
	}
	p.stable, p.toldBy = t.stable, seg.SegmentID
	if len(t.epochs) > 0 {
		p.read = epoch.Of(t.epochs)
	}
	whole := p.read
	if whole.Empty() || whole.Latest() != lastEpoch(seg) { // the metadata knows enough
		whole = epoch.Of(p.Remote.Epochs())
	}
	p.settleLocked(whole)
	return p.lineage, p.stableLocked(), nil
}

func (p *TopicPartition) settleLocked(whole epoch.Lineage) {
	p.lineage, p.known = whole.CutFront(p.Offsets.LogStart), true
}

// stableLocked is the last stable offset: without a local tier the remote one may end before the marker of a transaction, of
// which nothing tells yet whether it will be aborted.
func (p *TopicPartition) stableLocked() int64 {
	if p.Offsets.LocalBase >= 0 || p.toldBy.IsZero() {
		return p.Offsets.LastStableOffset
	}
	return min(p.stable, p.Offsets.LastStableOffset)
}

func lastEpoch(s *rlmm.Segment) int32 { return s.LeaderEpochs[len(s.LeaderEpochs)-1].Epoch }

// Find implements reader.Catalog.
func (c *catalog) Find(ctx context.Context, topic string, id abi.UUID, partition int32) (*reader.Partition, reader.Code, error) {
	t, code, err := c.topic(topic, id)
	if err != nil {
		return nil, code, err
	}
	p := t.find(partition)
	if p == nil {
		code := reader.UnknownTopicOrPartition
		return nil, code, abi.Errorf("fetch", fmt.Sprintf("%s-%d", t.Name, partition), abi.NotFound,
			"%s (%d): the topic has the partitions %s", code, code, t.numbers())
	}
	lineage, stable, err := c.lineageOf(ctx, p)
	switch {
	case err != nil && ctx.Err() != nil: // it is still read, as Kafka says of metadata that is still loaded
		return nil, reader.ReplicaNotAvailable, err
	case err != nil:
		return nil, reader.KafkaStorageError, err
	}
	offsets := p.Offsets
	offsets.LastStableOffset = stable
	return &reader.Partition{ID: p.ID, LeaderID: c.nodeID, Offsets: offsets, Lineage: lineage, Local: p.Local, Remote: p.Remote}, reader.None, nil
}

func (c *catalog) topic(name string, id abi.UUID) (*Topic, reader.Code, error) {
	if !id.IsZero() {
		t, ok := c.byID[id]
		if !ok || name != "" && t.Name != name {
			code := reader.UnknownTopicID
			return nil, code, abi.Errorf("fetch", name, abi.NotFound, "%s (%d): no topic of this name has the id %s", code, code, id)
		}
		return t, reader.None, nil
	}
	t, ok := c.topics[name]
	if !ok {
		code := reader.UnknownTopicOrPartition
		return nil, code, abi.Errorf("fetch", fmt.Sprintf("%q", name), abi.NotFound, "%s (%d): no such topic; %s", code, code, c.hint())
	}
	return t, reader.None, nil
}

func (c *catalog) hint() string {
	if len(c.topics) == 0 {
		return "neither the metadata nor a log directory names one"
	}
	return fmt.Sprintf("there are %d, see rsmhost topics", len(c.topics))
}

func (t *Topic) numbers() string {
	var nums []int32
	for _, p := range t.Partitions {
		nums = append(nums, p.ID.Partition)
	}
	return fmt.Sprint(nums)
}

// list gives all incarnations, by name, the newest of a name first.
func (c *catalog) list() []*Topic {
	var out []*Topic
	for _, t := range c.all {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *Topic) int {
		if a.Name == b.Name && a.Newest != b.Newest {
			if a.Newest {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.lastCopy(), a.lastCopy()), slices.Compare(a.ID[:], b.ID[:]))
	})
	return out
}
