package reader

import (
	"errors"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/internal/planted"
)

// Policy is where this reader does better than a broker, and can be told not to.
type Policy struct {
	// WholeBatches: a read ends with a whole batch. Kafka cuts the last one at the byte limit.
	WholeBatches bool
	// CrossSegments: a read goes on behind the end of a segment, and behind the end of the remote tier. Kafka stops, and
	// where a tier ends in compacted offsets it answers with nothing, for ever (KAFKA-16088).
	CrossSegments bool
	// ExactAborted: the list of aborted transactions ends with the last returned offset, and is empty where there are none.
	// Kafka takes an estimate from the offset index, which is too high, and sends null where a first batch did not fit.
	ExactAborted bool
	// NestedSegments: a lookup finds an offset behind a segment that lies inside a longer one.
	NestedSegments bool
	// Lineage: a read of a segment ends where the leader epochs leave the partition's. Kafka holds the offset that is asked for
	// against them alone, and goes on into what a leader uploaded that had been fenced.
	Lineage bool
	// Verify: the CRC of every batch is checked, and a batch that lies about its size is an error. Kafka passes both on.
	Verify bool
	// TellingCodes: the code says what is known of a failed remote read. Kafka answers UNKNOWN_SERVER_ERROR to all but a
	// batch that is too small to be one, and OFFSET_OUT_OF_RANGE where a client that tries again may yet be served.
	TellingCodes bool
	// EmptyOnTimeout: a remote read that the deadline ended is answered with nothing, as Kafka does, and not with an error.
	EmptyOnTimeout bool
	// KeepLate: a remote read that was not ready in time goes on, and the retry is answered from it. Kafka throws away what
	// was downloaded, so that a store slower than the wait never gets anybody on (KAFKA-15776).
	KeepLate bool
	// FirstPassesOn: where the partition that may exceed its allowance by a first batch has nothing to give, the next one may.
	// With Kafka that is lost, and a client whose other allowances are too small asks in vain for ever.
	FirstPassesOn bool
	// DataTimes: a lookup by time gives data records of both tiers. Kafka's also gives transaction markers, and looks for
	// the greatest timestamp in the local tier alone (KAFKA-17552).
	DataTimes bool
}

// Better is the policy of this project.
var Better = Policy{WholeBatches: true, CrossSegments: true, ExactAborted: true, NestedSegments: true, Lineage: true, Verify: true, TellingCodes: true, DataTimes: true, KeepLate: true, FirstPassesOn: true}

// Kafka43 answers as Apache Kafka 4.3 does, to be held against recorded answers.
var Kafka43 = Policy{EmptyOnTimeout: true}

func (p Policy) lookup(m *rlmm.Partition, epoch int32, offset int64) (*rlmm.Segment, bool) {
	if p.NestedSegments {
		return m.Lookup(epoch, offset)
	}
	return m.KafkaLookup(epoch, offset)
}

func (p Policy) nextWithTxnIndex(m *rlmm.Partition, epoch int32, offset int64) (*rlmm.Segment, bool) {
	if p.NestedSegments {
		return m.NextWithTxnIndex(epoch, offset)
	}
	return m.KafkaNextWithTxnIndex(epoch, offset)
}

// until is the exclusive end of what a read that came to a segment at offset may take of it.
func (p Policy) until(seg *rlmm.Segment, l epoch.Lineage, offset int64) int64 {
	if !p.Lineage || planted.DeadLineage {
		return seg.EndOffset + 1
	}
	return rlmm.Shared(&seg.SegmentMetadata, l, offset)
}

// noAborted is the list of aborted transactions of an answer that holds none: null of read_uncommitted, and with Kafka's
// policy where a first batch did not fit.
func (p Policy) noAborted(iso locality.Isolation, tooBig bool) []AbortedTransaction {
	if iso != locality.ReadCommitted || tooBig && !p.ExactAborted {
		return nil
	}
	return []AbortedTransaction{}
}

// code is what a client is told of an error.
func (p Policy) code(err error, remote bool) Code {
	switch {
	case errors.Is(err, errNoSegment):
		return OffsetOutOfRange
	case errors.Is(err, errNotHere), errors.Is(err, locallog.ErrHole):
		return NotLeaderOrFollower
	case p.TellingCodes || !remote:
		return codeOf(err)
	case errors.As(err, new(badBatch)):
		return CorruptMessage
	}
	return UnknownServerError
}
