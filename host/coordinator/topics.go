package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// incarnation is a topic as clients know it and as kfake does.
type incarnation struct {
	Topic
	inner abi.UUID // the id that kfake made up
}

// registry is which topics kfake has, and what their ids are on either side. Those that are gone keep theirs: a member may
// still give up their partitions.
//
// It is locked for writing while kfake is being told. An answer that shows a topic just made is translated after that.
type registry struct {
	mu      sync.RWMutex
	version int64                   // another one when topics are
	byName  map[string]*incarnation // that kfake has now
	byID    map[abi.UUID]*incarnation
	byInner map[abi.UUID]*incarnation
}

// current is the version of the topics that there are.
func (r *registry) current() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version
}

// named gives the topic that a name means.
func (r *registry) named(name string) (incarnation, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.byName[name]; t != nil {
		return *t, true
	}
	return incarnation{}, false
}

// identified gives the topic of a real id, if its name still means it.
func (r *registry) identified(id abi.UUID) (incarnation, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.byID[id]; t != nil && r.byName[t.Name] == t {
		return *t, true
	}
	return incarnation{}, false
}

// toInner gives kfake's id for a real one.
func (r *registry) toInner(id abi.UUID) (abi.UUID, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.byID[id]
	if !ok {
		return abi.UUID{}, false
	}
	return t.inner, true
}

// toReal gives the topic for kfake's id.
func (r *registry) toReal(inner abi.UUID) (Topic, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.byInner[inner]
	if !ok {
		return Topic{}, false
	}
	return t.Topic, true
}

// everything is all partitions of all topics, by kfake's ids: also of those that are gone, which a member may still own.
func (r *registry) everything() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]kmsg.ConsumerGroupHeartbeatRequestTopic, 0, len(r.byInner))
	for inner, t := range r.byInner {
		one := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		one.TopicID = inner
		for p := range t.Partitions {
			one.Partitions = append(one.Partitions, p)
		}
		out = append(out, one)
	}
	return out
}

// difference is what kfake must be told.
type difference struct {
	gone  []string // deleted, or to be made again
	made  []Topic
	grown []Topic
	named []Topic // their id is known now
}

func (d *difference) empty() bool { return len(d.gone)+len(d.made)+len(d.grown)+len(d.named) == 0 }

// compare says what became of the topics. A topic with another id is another topic; one that has fewer partitions keeps
// those that it had, since a look that found fewer may have come too early.
func compare(have map[string]*incarnation, want []Topic) *difference {
	d := &difference{}
	wanted := map[string]bool{}
	for _, t := range want {
		wanted[t.Name] = true
		switch old := have[t.Name]; {
		case t.Partitions <= 0:
			wanted[t.Name] = false
		case old == nil:
			d.made = append(d.made, t)
		case !old.ID.IsZero() && !t.ID.IsZero() && old.ID != t.ID:
			d.gone, d.made = append(d.gone, t.Name), append(d.made, t)
		default:
			if old.ID.IsZero() && !t.ID.IsZero() {
				d.named = append(d.named, t)
			}
			if t.Partitions > old.Partitions {
				d.grown = append(d.grown, t)
			}
		}
	}
	for name := range have {
		if !wanted[name] {
			d.gone = append(d.gone, name)
		}
	}
	slices.Sort(d.gone)
	slices.SortFunc(d.made, func(a, b Topic) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

// sync tells kfake of the topics that are served now. An error names what it did not take; all else is done.
func (c *Coordinator) sync() error {
	want := c.topics.Topics()
	r := &c.known
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName, r.byID, r.byInner = map[string]*incarnation{}, map[abi.UUID]*incarnation{}, map[abi.UUID]*incarnation{}
	}
	d := compare(r.byName, want)
	if d.empty() {
		return nil
	}
	r.version++
	for _, t := range d.named {
		r.byName[t.Name].ID, r.byID[t.ID] = t.ID, r.byName[t.Name]
	}
	return errors.Join(c.removeLocked(d.gone), c.createLocked(d.made), c.growLocked(d.grown))
}

// removeLocked deletes topics in kfake. The registry is locked, as for the next two.
func (c *Coordinator) removeLocked(names []string) error {
	if len(names) == 0 {
		return nil
	}
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.Version = 6
	for _, name := range names {
		q.Topics = append(q.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
	}
	resp, err := c.ask(q)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		errs = append(errs, refused("delete topic", *t.Topic, t.ErrorCode))
		if t.ErrorCode == 0 || t.ErrorCode == unknownTopicOrPartition {
			delete(c.known.byName, *t.Topic)
		}
	}
	return errors.Join(errs...)
}

// createLocked makes topics in kfake.
func (c *Coordinator) createLocked(topics []Topic) error {
	if len(topics) == 0 {
		return nil
	}
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Version = 7
	served := map[string]Topic{}
	for _, t := range topics {
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = t.Name, t.Partitions, 1
		q.Topics = append(q.Topics, one)
		served[t.Name] = t
	}
	resp, err := c.ask(q)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 {
			errs = append(errs, refused("create topic", t.Topic, t.ErrorCode))
			continue
		}
		one := &incarnation{served[t.Topic], t.TopicID}
		c.known.byName[t.Topic], c.known.byInner[one.inner] = one, one
		if !one.ID.IsZero() {
			c.known.byID[one.ID] = one
		}
	}
	return errors.Join(errs...)
}

// growLocked adds partitions in kfake.
func (c *Coordinator) growLocked(topics []Topic) error {
	if len(topics) == 0 {
		return nil
	}
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Version = 3
	counts := map[string]int32{}
	for _, t := range topics {
		q.Topics = append(q.Topics, kmsg.CreatePartitionsRequestTopic{Topic: t.Name, Count: t.Partitions})
		counts[t.Name] = t.Partitions
	}
	resp, err := c.ask(q)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range resp.(*kmsg.CreatePartitionsResponse).Topics {
		errs = append(errs, refused("add partitions to topic", t.Topic, t.ErrorCode))
		if t.ErrorCode == 0 {
			c.known.byName[t.Topic].Partitions = counts[t.Topic]
		}
	}
	return errors.Join(errs...)
}

// refused is the error of one topic; nil for the code of success.
func refused(op, topic string, code int16) error {
	if code == 0 {
		return nil
	}
	return abi.E(op, topic, abi.Internal, fmt.Errorf("the coordinator inside answers error code %d", code))
}
