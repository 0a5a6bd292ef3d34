package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
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
	tiered map[finding.Finding]bool // holes of local logs that the remote tier has as a whole
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
	Findings   []finding.Finding // what is wrong with the topic itself. It does not change

	numbered map[int32]*TopicPartition
	shared   bool // another topic has the id too
}

// WireID is the id that answers of the protocol carry. It is zero where it is not known, or where it is another topic's too:
// clients go by the name then.
func (t *Topic) WireID() abi.UUID {
	if t.shared {
		return abi.UUID{}
	}
	return t.ID
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

	dir   *locallog.Dir // Local's
	holes holesOf
	held  *reader.HeldEnd

	mu      sync.Mutex // guards what follows
	lineage epoch.Lineage
	known   bool          // lineage is complete
	read    epoch.Lineage // as it was read from the store, also for an earlier catalog; not cut; empty: it was not
	stable  int64         // told.stable of the segment toldBy
	toldBy  abi.UUID      // zero: none was read
	load    *epochLoad    // that reads it now; nil: none
}

// newCatalog makes a catalog of what was looked at. What an earlier one read from the store is taken over from old; it may be nil.
func newCatalog(v *view, nodeID int32, epochs *epochReader, old *catalog) *catalog {
	c := &catalog{topics: map[string]*Topic{}, all: map[incarnation]*Topic{}, byID: map[abi.UUID]*Topic{}, nodeID: nodeID, epochs: epochs,
		tiered: map[finding.Finding]bool{}}
	ids := identify(v.store, v.dirs)
	for _, d := range v.dirs {
		for _, l := range d.Logs() {
			id := l.ID
			id.TopicID = ids.of[l]
			p := c.partition(id)
			p.Findings = append(p.Findings, ids.findings[l]...)
			p.choose(d, l)
		}
	}
	for _, p := range v.store.Partitions() {
		c.partition(p.ID).Remote = p
	}
	for _, t := range c.list() { // in an order, so that what the names mean does not depend on chance
		c.complete(t, v, old)
		c.share(t, ids.shared[t.ID])
		c.elect(t, ids.byName)
	}
	for _, t := range c.topics {
		t.Newest = true
	}
	if old != nil {
		c.inherit(old)
	}
	return c
}

// view is what the last look found.
type view struct {
	store *rlmm.Store
	dirs  []*locallog.Dir
	whole bool // nothing is known to be missing of the metadata
	local bool // no metadata source is given
}

// choose takes a log as the partition's local tier, if it is longer than the one that it has: by the last leader epoch first,
// as where a leader is elected, then by its end. A finding names both. It is harmless where they are replicas of two brokers, one
// behind the other.
func (p *TopicPartition) choose(d *locallog.Dir, l *locallog.Log) {
	if p.Local == nil {
		p.Local, p.dir = l, d
		return
	}
	less, dir := l, d
	if cmp.Or(cmp.Compare(l.Lineage.Latest(), p.Local.Lineage.Latest()), cmp.Compare(lastHeld(l), lastHeld(p.Local)), cmp.Compare(p.Local.Begin(), l.Begin())) > 0 {
		less, dir, p.Local, p.dir = p.Local, p.dir, l, d
	}
	p.tell(finding.Unknown, "it lies in %s too, up to offset %d in leader epoch %d: what is read is %s, up to offset %d in leader epoch %d",
		less.Path, lastHeld(less), less.Lineage.Latest(), p.Local.Path, lastHeld(p.Local), p.Local.Lineage.Latest())
	f := &p.Findings[len(p.Findings)-1]
	f.Path = less.Path
	f.Repaired = dir.NodeID >= 0 && p.dir.NodeID >= 0 && dir.NodeID != p.dir.NodeID && less.Lineage.Before(p.Local.Lineage)
}

// lastHeld is the last offset that a log has records up to: its end may be that of ones that are missing.
func lastHeld(l *locallog.Log) int64 {
	if h, ok := l.Hole(l.LogEnd - 1); ok {
		return h.From - 1
	}
	return l.LogEnd - 1
}

// share takes the id from a topic that has it together with others: nobody who asks by it could know which one is meant.
func (c *catalog) share(t *Topic, names []string) {
	if len(names) == 0 {
		return
	}
	t.shared = true
	delete(c.byID, t.ID)
	f := finding.Finding{Topic: t.Name, Partition: finding.Unknown, Offset: finding.Unknown}
	f.What = fmt.Sprintf("the metadata gives its id, %s, to %s: they are answered by name alone", t.ID, strings.Join(names, " and "))
	t.Findings = append(t.Findings, f)
}

// inherit takes over the lineages that an earlier catalog read from the store.
func (c *catalog) inherit(old *catalog) {
	for _, t := range old.all {
		for _, was := range t.Partitions {
			if is := c.find(t, was.ID.Partition); is != nil {
				is.held = was.held
				was.mu.Lock()
				is.read, is.stable, is.toldBy = was.read, was.stable, was.toldBy
				was.mu.Unlock()
			}
		}
	}
}

// find gives what c has of a topic's partition, nil where it has nothing; c may be nil.
func (c *catalog) find(t *Topic, partition int32) *TopicPartition {
	if c == nil || c.all[incarnation{t.Name, t.ID}] == nil {
		return nil
	}
	return c.all[incarnation{t.Name, t.ID}].find(partition)
}

// Partition gives the partition of this number, nil where there is none.
func (t *Topic) Partition(number int32) *TopicPartition { return t.find(number) }

// find gives the partition of this number, nil where there is none.
func (t *Topic) find(partition int32) *TopicPartition { return t.numbered[partition] }

// partition finds or makes a partition while the catalog is built.
func (c *catalog) partition(id abi.TopicIDPartition) *TopicPartition {
	key := incarnation{id.Topic, id.TopicID}
	t, ok := c.all[key]
	if !ok {
		t = &Topic{Name: id.Topic, ID: id.TopicID, numbered: map[int32]*TopicPartition{}}
		c.all[key] = t
		if !id.TopicID.IsZero() {
			c.byID[id.TopicID] = t
		}
	}
	if p := t.find(id.Partition); p != nil {
		return p
	}
	p := &TopicPartition{ID: id, held: &reader.HeldEnd{}}
	t.Partitions, t.numbered[id.Partition] = append(t.Partitions, p), p
	return p
}

func (c *catalog) complete(t *Topic, v *view, old *catalog) {
	slices.SortFunc(t.Partitions, func(a, b *TopicPartition) int { return cmp.Compare(a.ID.Partition, b.ID.Partition) })
	t.Deleted = true
	for _, p := range t.Partitions {
		p.complete(v)
		p.findHoles(old.find(t, p.ID.Partition))
		p.tellHoles()
		p.eachTiered(func(f finding.Finding) { c.tiered[f] = true })
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
	if p.Local != nil && p.Local.Err != nil {
		return nil, reader.KafkaStorageError, p.Local.Err
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
	held := p.held
	if p.Remote == nil || offsets.LocalBase >= 0 {
		held = nil
	} else {
		offsets.HighWatermark = held.Below(p.Remote, offsets.HighWatermark)
		offsets.LastStableOffset = min(stable, offsets.HighWatermark)
	}
	return &reader.Partition{ID: p.ID, LeaderID: c.nodeID, Offsets: offsets, Lineage: lineage, Local: p.Local, Remote: p.Remote, Holes: p.holes.holes, Held: held}, reader.None, nil
}

func (c *catalog) topic(name string, id abi.UUID) (*Topic, reader.Code, error) {
	if !id.IsZero() {
		t, ok := c.byID[id]
		if name != "" {
			t, ok = c.all[incarnation{name, id}]
		}
		if !ok {
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
