package format

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
)

// SegmentState is the state of a tiered segment (Kafka's RemoteLogSegmentState). The numbers are the wire form.
type SegmentState int8

// The segment states, in the order that a segment goes through them.
const (
	CopySegmentStarted    SegmentState = 0
	CopySegmentFinished   SegmentState = 1
	DeleteSegmentStarted  SegmentState = 2
	DeleteSegmentFinished SegmentState = 3
)

var segmentStates = [...]string{
	"COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED",
}

// String is Kafka's name of the state.
func (s SegmentState) String() string {
	if s < 0 || int(s) >= len(segmentStates) {
		return fmt.Sprintf("SEGMENT_STATE(%d)", int8(s))
	}
	return segmentStates[s]
}

// PartitionDeleteState is the state of a tiered partition's deletion (Kafka's RemotePartitionDeleteState). The numbers
// are the wire form.
type PartitionDeleteState int8

// The partition delete states, in order.
const (
	DeletePartitionMarked   PartitionDeleteState = 0
	DeletePartitionStarted  PartitionDeleteState = 1
	DeletePartitionFinished PartitionDeleteState = 2
)

var partitionDeleteStates = [...]string{
	"DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED",
}

// String is Kafka's name of the state.
func (s PartitionDeleteState) String() string {
	if s < 0 || int(s) >= len(partitionDeleteStates) {
		return fmt.Sprintf("PARTITION_DELETE_STATE(%d)", int8(s))
	}
	return partitionDeleteStates[s]
}

// The api keys of the records in the remote log metadata topic. The numbers are the wire form.
const (
	apiSegment         = 0
	apiSegmentUpdate   = 1
	apiPartitionDelete = 2
	apiSegmentSnapshot = 3

	rlmFrameVersion = 1
	rlmVersion      = 0 // of every message
	tagTxnIndex     = 0 // the one tagged field: TxnIndexEmpty
)

// SegmentEvent announces a segment (RemoteLogSegmentMetadataRecord, api key 0).
type SegmentEvent struct {
	abi.SegmentMetadata
	State SegmentState
}

// SegmentUpdateEvent changes an announced segment (RemoteLogSegmentMetadataRecordUpdate, api key 1): it replaces the
// segment's broker id, event timestamp, custom metadata (also by none) and state.
type SegmentUpdateEvent struct {
	abi.TopicIDPartition
	SegmentID        abi.UUID
	BrokerID         int32
	EventTimestampMs int64
	CustomMetadata   []byte // nil: none
	State            SegmentState
}

// PartitionDeleteEvent tells of the deletion of a partition (RemotePartitionDeleteMetadataRecord, api key 2).
type PartitionDeleteEvent struct {
	abi.TopicIDPartition
	BrokerID         int32
	EventTimestampMs int64
	State            PartitionDeleteState
}

// SegmentSnapshotEvent is a segment as the snapshot file of Kafka up to 3.7 kept it
// (RemoteLogSegmentMetadataSnapshotRecord, api key 3): the file knows the partition.
type SegmentSnapshotEvent struct {
	SegmentID        abi.UUID
	StartOffset      int64 // inclusive
	EndOffset        int64 // inclusive
	BrokerID         int32
	MaxTimestampMs   int64 // -1: none
	EventTimestampMs int64
	LeaderEpochs     []abi.LeaderEpoch
	SizeBytes        int64
	CustomMetadata   []byte // nil: none
	State            SegmentState
	TxnIndexEmpty    bool
}

// ParseRemoteLogMetadata reads the value of a record of the remote log metadata topic (KIP-405; Kafka's
// RemoteLogMetadataSerde). The answer is a *SegmentEvent, a *SegmentUpdateEvent, a *PartitionDeleteEvent or a
// *SegmentSnapshotEvent, and shares no memory with b. Leader epochs come in ascending order. Tagged fields that are
// not known are passed over, as Kafka's encoding wants it.
//
// Errors: UNSUPPORTED for a frame, an api key or a version that is not known; CORRUPT for bytes that are cut or left
// over, and for values that Kafka's classes refuse.
func ParseRemoteLogMetadata(b []byte) (any, error) {
	const what = "remote log metadata record"
	c := cursor{b: b}
	frame := c.uvarint(math.MaxUint32, "frame version")
	if c.ok() && frame != rlmFrameVersion {
		return nil, unsupported(what, "its frame has version %d, only %d is known", frame, rlmFrameVersion)
	}
	key, version := c.uvarint(math.MaxUint32, "api key"), c.uvarint(math.MaxUint32, "version")
	if c.ok() && (key > apiSegmentSnapshot || version != rlmVersion) {
		return nil, unsupported(what, "api key %d, version %d are not known", key, version)
	}
	event := c.event(key)
	c.end("the message")
	if err := c.err(fmt.Sprintf("%s, api key %d", what, key)); err != nil {
		return nil, err
	}
	return event, nil
}

func (c *cursor) event(key uint64) any {
	switch key {
	case apiSegment:
		return c.segmentEvent()
	case apiSegmentUpdate:
		return c.segmentUpdate()
	case apiPartitionDelete:
		return c.partitionDelete()
	}
	return c.segmentSnapshot()
}

func (c *cursor) segmentEvent() *SegmentEvent {
	e := new(SegmentEvent)
	e.TopicIDPartition, e.SegmentID = c.segmentID()
	s := c.segmentBody()
	e.StartOffset, e.EndOffset, e.BrokerID = s.StartOffset, s.EndOffset, s.BrokerID
	e.MaxTimestampMs, e.EventTimestampMs = s.MaxTimestampMs, s.EventTimestampMs
	e.LeaderEpochs, e.SizeBytes = s.LeaderEpochs, s.SizeBytes
	e.CustomMetadata, e.State, e.TxnIndexEmpty = s.CustomMetadata, s.State, s.TxnIndexEmpty
	return e
}

func (c *cursor) segmentUpdate() *SegmentUpdateEvent {
	e := new(SegmentUpdateEvent)
	e.TopicIDPartition, e.SegmentID = c.segmentID()
	e.BrokerID = c.i32("broker id")
	e.EventTimestampMs = c.i64("event timestamp")
	e.CustomMetadata = c.compactBytes("custom metadata")
	e.State = c.segmentState()
	c.tags(nil)
	return e
}

func (c *cursor) partitionDelete() *PartitionDeleteEvent {
	e := &PartitionDeleteEvent{TopicIDPartition: c.topicIDPartition()}
	e.BrokerID = c.i32("broker id")
	e.EventTimestampMs = c.i64("event timestamp")
	at := c.pos
	e.State = PartitionDeleteState(c.i8("state"))
	if e.State < 0 || int(e.State) >= len(partitionDeleteStates) {
		c.failAt(at, "partition delete state %d is not known", e.State)
	}
	c.tags(nil)
	return e
}

func (c *cursor) segmentSnapshot() *SegmentSnapshotEvent {
	id := c.uuid("segment id")
	s := c.segmentBody()
	s.SegmentID = id
	return &s
}

// segmentBody reads what the records of api keys 0 and 3 share: all after the segment's id.
func (c *cursor) segmentBody() SegmentSnapshotEvent {
	var s SegmentSnapshotEvent
	at := c.pos
	s.StartOffset, s.EndOffset = c.i64("start offset"), c.i64("end offset")
	if s.StartOffset < 0 || s.EndOffset < s.StartOffset {
		c.failAt(at, "offsets %d-%d make no segment", s.StartOffset, s.EndOffset)
	}
	s.BrokerID = c.i32("broker id")
	s.MaxTimestampMs, s.EventTimestampMs = c.i64("largest timestamp"), c.i64("event timestamp")
	s.LeaderEpochs = c.leaderEpochs()
	at = c.pos
	if s.SizeBytes = int64(c.i32("size")); s.SizeBytes < 0 {
		c.failAt(at, "size %d", s.SizeBytes)
	}
	s.CustomMetadata = c.compactBytes("custom metadata")
	s.State = c.segmentState()
	c.tags(func(tag uint64, value []byte) {
		if tag != tagTxnIndex {
			return
		}
		if len(value) != 1 {
			c.failAt(c.pos, "a flag of %d bytes", len(value))
			return
		}
		s.TxnIndexEmpty = value[0] != 0
	})
	return s
}

func (c *cursor) segmentState() SegmentState {
	at := c.pos
	s := SegmentState(c.i8("state"))
	if s < 0 || int(s) >= len(segmentStates) {
		c.failAt(at, "segment state %d is not known", s)
	}
	return s
}

// segmentID reads a RemoteLogSegmentId: two structs, hence two lists of tags.
func (c *cursor) segmentID() (abi.TopicIDPartition, abi.UUID) {
	p := c.topicIDPartition()
	id := c.uuid("segment id")
	c.tags(nil)
	return p, id
}

func (c *cursor) topicIDPartition() abi.TopicIDPartition {
	var p abi.TopicIDPartition
	at := c.pos
	topic := c.compactBytes("topic")
	if topic == nil {
		c.failAt(at, "the topic is null")
	}
	p.Topic = string(topic)
	p.TopicID = c.uuid("topic id")
	at = c.pos
	if p.Partition = c.i32("partition"); p.Partition < 0 {
		c.failAt(at, "partition %d", p.Partition)
	}
	c.tags(nil)
	return p
}

func (c *cursor) uuid(what string) (id abi.UUID) {
	copy(id[:], c.take(len(id), what))
	return id
}

// compactBytes reads a compact nullable string or byte array into fresh memory: uvarint of the length + 1, 0 for null.
func (c *cursor) compactBytes(what string) []byte {
	n := int64(c.uvarint(math.MaxUint32, what)) - 1
	return bytes.Clone(c.nullable(n, what))
}

// leaderEpochSize is the least that an epoch takes: i32, i64 and no tags.
const leaderEpochSize = 13

func (c *cursor) leaderEpochs() []abi.LeaderEpoch {
	at := c.pos
	n := int64(c.uvarint(math.MaxUint32, "leader epochs")) - 1
	if n <= 0 || n > int64(c.left()/leaderEpochSize) {
		c.failAt(at, "%d leader epochs in %d bytes", n, c.left())
		return nil
	}
	es := make([]abi.LeaderEpoch, n)
	for i := range es {
		es[i] = abi.LeaderEpoch{Epoch: c.i32("epoch"), StartOffset: c.i64("start offset of the epoch")}
		c.tags(nil)
	}
	return c.sortedEpochs(at, es)
}

// sortedEpochs puts the epochs of a record in order: to Kafka they are a map.
func (c *cursor) sortedEpochs(at int, es []abi.LeaderEpoch) []abi.LeaderEpoch {
	slices.SortFunc(es, func(a, b abi.LeaderEpoch) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := range es {
		if i > 0 && es[i].Epoch == es[i-1].Epoch {
			c.failAt(at, "leader epoch %d stands twice", es[i].Epoch)
		}
	}
	return es
}

// tags reads a list of tagged fields (KIP-482) and hands each to field.
func (c *cursor) tags(field func(tag uint64, value []byte)) {
	n := c.uvarint(math.MaxUint32, "number of tagged fields")
	for ; n > 0 && c.ok(); n-- {
		tag := c.uvarint(math.MaxUint32, "tag")
		value := c.take(int(c.uvarint(math.MaxInt32, "size of a tagged field")), "tagged field")
		if field != nil && c.ok() {
			field(tag, value)
		}
	}
}
