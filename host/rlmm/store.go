package rlmm

import (
	"fmt"
	"sort"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Store is the metadata of all partitions that a source told of.
type Store struct {
	mu         sync.RWMutex
	partitions map[abi.TopicIDPartition]*Partition
	topics     map[string]string // one copy of each name
}

// NewStore makes an empty Store.
func NewStore() *Store {
	return &Store{partitions: map[abi.TopicIDPartition]*Partition{}, topics: map[string]string{}}
}

// Partition finds a partition; it reports false for one that no event named.
func (s *Store) Partition(id abi.TopicIDPartition) (*Partition, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.partitions[id]
	return p, ok
}

// Partitions lists all, by topic, then partition number, then id.
func (s *Store) Partitions() []*Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*Partition, 0, len(s.partitions))
	for _, p := range s.partitions {
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i].ID, out[j].ID
		switch {
		case a.Topic != b.Topic:
			return a.Topic < b.Topic
		case a.Partition != b.Partition:
			return a.Partition < b.Partition
		}
		return string(a.TopicID[:]) < string(b.TopicID[:])
	})
	return out
}

// Apply applies one record's value. A nil error means that it counts; any other says why it does not, and changes
// nothing.
func (s *Store) Apply(value []byte) error {
	event, err := format.ParseRemoteLogMetadata(value)
	if err != nil {
		return err
	}
	id, err := partitionOf(event)
	if err != nil {
		return err
	}
	if err := valid(id); err != nil {
		return err
	}
	return s.partition(id).apply(event)
}

// partition finds or makes a partition.
func (s *Store) partition(id abi.TopicIDPartition) *Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.partitions[id]
	if !ok {
		if _, ok := s.topics[id.Topic]; !ok {
			s.topics[id.Topic] = id.Topic
		}
		id.Topic = s.topics[id.Topic]
		p = newPartition(id)
		s.partitions[id] = p
	}
	return p
}

func partitionOf(event any) (abi.TopicIDPartition, error) {
	switch e := event.(type) {
	case *format.SegmentEvent:
		return e.TopicIDPartition, nil
	case *format.SegmentUpdateEvent:
		return e.TopicIDPartition, nil
	case *format.PartitionDeleteEvent:
		return e.TopicIDPartition, nil
	}
	return abi.TopicIDPartition{}, dropped(fmt.Sprintf("a %T names no partition", event))
}

// maxPartition bounds the numbers of partitions: no cluster has as many.
const maxPartition = 1_000_000 - 1

// valid checks what a broker checks before it makes a partition. What is not valid is nobody's metadata, and its name may be
// anything: control characters for a terminal, or what no answer of the protocol can carry.
func valid(id abi.TopicIDPartition) error {
	switch {
	case !format.ValidTopic(id.Topic):
		return fmt.Errorf("%.300q is no name of a topic", id.Topic)
	case id.Partition < 0 || id.Partition > maxPartition:
		return fmt.Errorf("topic %s has no partition %d: a number is at most %d", id.Topic, id.Partition, maxPartition)
	case id.TopicID.IsZero():
		return fmt.Errorf("topic %s has the id of zeros", id.Topic)
	}
	return nil
}
