package reader

import (
	"fmt"

	"github.com/rsmhost/rsmhost/abi"
)

// Code is an error code of the Kafka protocol.
type Code int16

// The codes that a read can answer with.
const (
	UnknownServerError      Code = -1
	None                    Code = 0
	OffsetOutOfRange        Code = 1
	CorruptMessage          Code = 2
	UnknownTopicOrPartition Code = 3
	NotLeaderOrFollower     Code = 6
	RequestTimedOut         Code = 7
	ReplicaNotAvailable     Code = 9
	UnsupportedVersion      Code = 35
	KafkaStorageError       Code = 56
	FencedLeaderEpoch       Code = 74
	UnknownLeaderEpoch      Code = 75
	UnknownTopicID          Code = 100
	OffsetMovedToTiered     Code = 109
)

var codeNames = map[Code]string{
	UnknownServerError: "UNKNOWN_SERVER_ERROR", None: "NONE", OffsetOutOfRange: "OFFSET_OUT_OF_RANGE",
	CorruptMessage: "CORRUPT_MESSAGE", UnknownTopicOrPartition: "UNKNOWN_TOPIC_OR_PARTITION",
	NotLeaderOrFollower: "NOT_LEADER_OR_FOLLOWER", RequestTimedOut: "REQUEST_TIMED_OUT",
	ReplicaNotAvailable: "REPLICA_NOT_AVAILABLE", UnsupportedVersion: "UNSUPPORTED_VERSION",
	KafkaStorageError: "KAFKA_STORAGE_ERROR", FencedLeaderEpoch: "FENCED_LEADER_EPOCH",
	UnknownLeaderEpoch: "UNKNOWN_LEADER_EPOCH", UnknownTopicID: "UNKNOWN_TOPIC_ID",
	OffsetMovedToTiered: "OFFSET_MOVED_TO_TIERED_STORAGE",
}

// String is the protocol's name of the code.
func (c Code) String() string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return fmt.Sprintf("CODE(%d)", int16(c))
}

// codeOf is what a client is told of an error. Clients give up on CORRUPT_MESSAGE and try again on the others, so only
// bytes that will not get better are corrupt.
func codeOf(err error) Code {
	switch abi.KindOf(err) {
	case 0:
		return None
	case abi.Corrupt:
		return CorruptMessage
	case abi.Unavailable, abi.Throttled, abi.Exhausted, abi.Deadline:
		return KafkaStorageError
	case abi.Cancelled:
		return RequestTimedOut
	}
	return UnknownServerError
}
