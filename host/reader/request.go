package reader

import (
	"sort"

	"context"
	"math"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/trace"
)

// FetchRequest is a Fetch as its wire form has it (Kafka protocol, api key 1).
type FetchRequest struct {
	ID        string // of the request, in log, trace and error; may be empty
	ClientID  string // whom the reader pool is fair between; may be empty
	Version   int16  // 13 and up name topics by id
	ReplicaID int32  // locality.Consumer for clients
	Isolation locality.Isolation
	MaxBytes  int64 // of the answer as a whole
	// Files: records of the local tier may be given as stretches of files, for a caller who sends them from there. Their
	// CRCs are not checked then, as a broker checks none.
	Files      bool
	Partitions []FetchPartition
}

// limit is the bytes of the answer as a whole, but for a first batch.
func (q *FetchRequest) limit() int64 { return min(max(q.MaxBytes, 0), math.MaxInt32) }

// allowance is the bytes that a partition may take where left are left of the whole.
func (q *FetchRequest) allowance(p *FetchPartition, left int64) int64 {
	return min(max(p.MaxBytes, 0), left)
}

// FetchPartition asks for one partition.
type FetchPartition struct {
	Topic              string
	TopicID            abi.UUID // zero: by name
	Partition          int32
	Offset             int64
	CurrentLeaderEpoch int32 // epoch.Undefined: not given
	LastFetchedEpoch   int32 // epoch.Undefined: not given
	MaxBytes           int64
	Trace              *trace.Trace // nil: nobody watches
}

// FetchResponse answers a FetchRequest, in its order of partitions.
type FetchResponse struct {
	Partitions []PartitionData
}

// Release gives the buffers back. Records and Files must not be used afterwards.
func (r *FetchResponse) Release() {
	for i := range r.Partitions {
		r.Partitions[i].buf.Release()
		r.Partitions[i].buf, r.Partitions[i].Records, r.Partitions[i].Files = nil, nil, nil
	}
}

// AbortedTransaction is one entry of a read_committed answer.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// PartitionData is the answer for one partition.
type PartitionData struct {
	Topic            string
	TopicID          abi.UUID
	Partition        int32
	Code             Code
	Err              error // the sentence behind Code; nil with None
	HighWatermark    int64 // exclusive; -1 with an error, as the next two
	LastStableOffset int64
	LogStartOffset   int64
	Aborted          []AbortedTransaction // by first offset; nil is null on the wire, empty is an empty list
	Diverging        *abi.LeaderEpoch     // the epoch and its exclusive end; nil: none
	Leader           *Leader              // with FENCED_LEADER_EPOCH
	Late             bool                 // the remote read was not ready in time: ask again, and it is answered from what came
	Remote           bool                 // the remote tier was asked
	Spent            bool                 // the remote read took what others may want, and found nothing: they come before it in the next request
	Records          []byte               // batches; the first may begin below the offset, the last may be cut (Policy)
	MissingUntil     int64                // with an error because offsets are missing: their exclusive end, where it is known; else 0
	Findings         []finding.Finding    // what the read met that is wrong, and no reason to fail
	Files            []locallog.Stretch   // the same, where FetchRequest.Files is set and they lie in the local tier; Records is nil then

	buf *budget.Buffer // behind Records
}

// Size is the bytes of records, wherever they lie.
func (p *PartitionData) Size() int64 {
	n := int64(len(p.Records))
	for _, f := range p.Files {
		n += f.Bytes
	}
	return n
}

// Leader tells a fenced client who leads.
type Leader struct {
	ID    int32
	Epoch int32
}

// Partition is what the reader knows of one partition at the moment of a read.
type Partition struct {
	ID       abi.TopicIDPartition
	LeaderID int32
	Offsets  locality.Offsets
	Lineage  epoch.Lineage
	Local    *locallog.Log   // nil: no local tier
	Remote   *rlmm.Partition // nil: no remote tier
	Holes    []rlmm.Hole     // what no tier holds of the offsets from log start to local start, ascending
	Held     *HeldEnd        // nil: nothing is learned
}

// HoleAt finds the hole that offset lies in.
func (p *Partition) HoleAt(offset int64) (rlmm.Hole, bool) {
	i := sort.Search(len(p.Holes), func(i int) bool { return p.Holes[i].To > offset })
	if i == len(p.Holes) || p.Holes[i].From > offset {
		return rlmm.Hole{}, false
	}
	return p.Holes[i], true
}

// Tiered reports whether the remote tier has all offsets from inclusive to exclusive, in the partition's lineage.
func (p *Partition) Tiered(from, to int64) bool {
	return p.Remote != nil && len(p.Remote.Holes(p.Lineage, from, to)) == 0
}

// Catalog finds partitions. It is the reader's caller's.
type Catalog interface {
	// Find gives the partition. An error with a code other than None says why there is none. ctx ends when the request is
	// answered with what there is; what Find waits for goes on for the next request, and the code is REPLICA_NOT_AVAILABLE. With
	// a ctx that has ended it begins what it would wait for.
	Find(ctx context.Context, topic string, id abi.UUID, partition int32) (*Partition, Code, error)
}
