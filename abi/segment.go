package abi

import (
	"encoding/base64"
	"fmt"
)

// UUID is Kafka's 128-bit id of topics and segments, big-endian. Its text is URL-safe base64 without padding, 22
// characters, and may begin with '-'.
type UUID [16]byte

// String is Kafka's text form.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports the id that Kafka uses for "none".
func (u UUID) IsZero() bool { return u == UUID{} }

// ParseUUID reads Kafka's text form. An error is INVALID.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return u, Errorf("parse", fmt.Sprintf("%q", s), Invalid, "not a Kafka id: want 22 characters of URL-safe base64")
	}
	copy(u[:], b)
	return u, nil
}

// TopicIDPartition names a partition of one incarnation of a topic.
type TopicIDPartition struct {
	Topic     string
	TopicID   UUID
	Partition int32
}

// String is "topic-partition", as Kafka's logs have it.
func (p TopicIDPartition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// LeaderEpoch is one entry of a leader-epoch lineage: Epoch began at StartOffset.
type LeaderEpoch struct {
	Epoch       int32
	StartOffset int64
}

// SegmentMetadata is what Kafka's RemoteLogSegmentMetadata says about one tiered segment (KIP-405).
type SegmentMetadata struct {
	TopicIDPartition
	SegmentID        UUID
	StartOffset      int64 // inclusive
	EndOffset        int64 // inclusive
	MaxTimestampMs   int64 // -1: none
	SizeBytes        int64 // of the log segment as Kafka wrote it, decoded
	BrokerID         int32 // who wrote the last event
	EventTimestampMs int64
	LeaderEpochs     []LeaderEpoch // ascending, never empty in valid metadata
	CustomMetadata   []byte        // what the plugin's copy returned, verbatim, 128 bytes at most; nil: none
	TxnIndexEmpty    bool          // true: the segment has no transaction index. false may mean "not known"
}

// Key names the segment for people: "topic-partition/start-id".
func (m *SegmentMetadata) Key() string {
	return fmt.Sprintf("%s/%020d-%s", m.TopicIDPartition, m.StartOffset, m.SegmentID)
}

// IndexType is one of the objects that Kafka uploads beside a segment. The numbers are the wire form.
type IndexType int32

// The index types, in Kafka's order of declaration.
const (
	OffsetIndex      IndexType = 1
	TimeIndex        IndexType = 2
	ProducerSnapshot IndexType = 3
	TransactionIndex IndexType = 4
	LeaderEpochIndex IndexType = 5
)

var indexNames = [...]string{"", "OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "TRANSACTION", "LEADER_EPOCH"}

// String is Kafka's name of the type.
func (t IndexType) String() string {
	if t <= 0 || int(t) >= len(indexNames) {
		return fmt.Sprintf("INDEX(%d)", int32(t))
	}
	return indexNames[t]
}

// IndexTypes lists all types in the order of their numbers.
func IndexTypes() []IndexType {
	return []IndexType{OffsetIndex, TimeIndex, ProducerSnapshot, TransactionIndex, LeaderEpochIndex}
}
