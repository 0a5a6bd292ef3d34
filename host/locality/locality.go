// Package locality decides where a fetch is answered from: the local tier, the remote tier, or an error. It follows the
// order of checks of a Kafka broker (KIP-405, KIP-595 for diverging epochs) as pure functions over a partition's offsets.
package locality

import (
	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
)

// Offsets are what is known of a partition's log at one moment. All are offsets of records; ends are exclusive.
type Offsets struct {
	LogStart         int64
	LocalStart       int64 // first offset that the local tier promises; LogEnd where there is no local tier
	LocalBase        int64 // base of the first local segment, which may lie below LocalStart; -1: no local segment
	HighWatermark    int64
	LastStableOffset int64
	LogEnd           int64
	Remote           bool // the partition has a remote tier
}

// Isolation is Kafka's isolation level. The numbers are the wire's.
type Isolation int8

// The isolation levels.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// String is the consumer configuration's word.
func (i Isolation) String() string {
	if i == ReadCommitted {
		return "read_committed"
	}
	return "read_uncommitted"
}

// Replica ids of a Fetch that are no broker's.
const (
	Consumer      int32 = -1
	DebugConsumer int32 = -2
)

// IsConsumer reports the replica ids that stand for clients.
func IsConsumer(replica int32) bool { return replica == Consumer || replica == DebugConsumer }

// Request is what a fetch asks of one partition.
type Request struct {
	Offset             int64
	CurrentLeaderEpoch int32 // epoch.Undefined: not given
	LastFetchedEpoch   int32 // epoch.Undefined: not given
	Replica            int32
	Isolation          Isolation
}

// Bound is the exclusive upper bound of what r may read.
func (o Offsets) Bound(r Request) int64 {
	switch {
	case !IsConsumer(r.Replica):
		return o.LogEnd
	case r.Isolation == ReadCommitted:
		return o.LastStableOffset
	}
	return o.HighWatermark
}

// Where is the outcome of the check. The words are those of the trace.
type Where int8

// The outcomes.
const (
	Local         Where = iota // read the local tier
	Remote                     // read the remote tier
	AtEnd                      // at or above the bound: no error, no records
	Diverged                   // the requester's last epoch ends elsewhere: no records, and where
	OutOfRange                 // OFFSET_OUT_OF_RANGE
	Fenced                     // FENCED_LEADER_EPOCH
	UnknownEpoch               // UNKNOWN_LEADER_EPOCH
	MovedToTiered              // OFFSET_MOVED_TO_TIERED_STORAGE: what a follower is told
)

var whereNames = [...]string{"local", "remote", "at the end", "diverging epoch", "out of range", "fenced epoch",
	"unknown epoch", "moved to tiered storage"}

func (w Where) String() string { return whereNames[w] }

// Answer is the outcome with what it rests on.
type Answer struct {
	Where     Where
	Bound     int64           // exclusive; set for Local, Remote and AtEnd
	Diverging abi.LeaderEpoch // with Diverged: the epoch and its exclusive end, in StartOffset's place
	Why       string          // one sentence for people
}

// Check decides for one partition. The overlap of both tiers is served locally; a remote read is not held against the
// high watermark, since only what lies below the last stable offset is uploaded. Without a local tier it is: the remote one may
// end before the marker that the last stable offset was waiting for.
func Check(r Request, o Offsets, l epoch.Lineage) Answer {
	if a, ok := fence(r, l); !ok {
		return a
	}
	if r.LastFetchedEpoch != epoch.Undefined {
		if a, ok := diverge(r, o, l); !ok {
			return tiered(a, r, o)
		}
	}
	return tiered(local(r, o), r, o)
}

// fence holds the request's leader epoch against the partition's. A lineage that knows nothing fences nobody.
func fence(r Request, l epoch.Lineage) (Answer, bool) {
	switch {
	case r.CurrentLeaderEpoch == epoch.Undefined || l.Empty() || r.CurrentLeaderEpoch == l.Latest():
		return Answer{}, true
	case r.CurrentLeaderEpoch < l.Latest():
		return Answer{Where: Fenced, Why: "the request's leader epoch is older than the partition's"}, false
	}
	return Answer{Where: UnknownEpoch, Why: "the request's leader epoch is newer than the partition's"}, false
}

func diverge(r Request, o Offsets, l epoch.Lineage) (Answer, bool) {
	found, end, ok := l.EndOffset(r.LastFetchedEpoch, o.LogEnd)
	switch {
	case !ok:
		return Answer{Where: OutOfRange, Why: "the end of the last fetched epoch is not known"}, false
	case r.Offset < o.LogStart:
		return Answer{Where: OutOfRange, Why: "below the log start"}, false
	case found < r.LastFetchedEpoch || end < r.Offset:
		return Answer{Where: Diverged, Diverging: abi.LeaderEpoch{Epoch: found, StartOffset: end},
			Why: "the last fetched epoch ends before the offset"}, false
	}
	return Answer{}, true
}

func local(r Request, o Offsets) Answer {
	bound := o.Bound(r)
	switch {
	case r.Offset < o.LogStart:
		return Answer{Where: OutOfRange, Why: "below the log start"}
	case r.Offset > o.LogEnd:
		return Answer{Where: OutOfRange, Why: "beyond the log end"}
	case o.LocalBase < 0 && r.Offset == o.LogEnd: // no local tier at all
		return Answer{Where: AtEnd, Bound: bound, Why: "at the log end"}
	case o.LocalBase < 0 || r.Offset < o.LocalBase:
		return Answer{Where: OutOfRange, Bound: bound, Why: "no local segment holds it"}
	case r.Offset >= bound:
		return Answer{Where: AtEnd, Bound: bound, Why: "nothing to read yet below the bound"}
	}
	return Answer{Where: Local, Bound: bound, Why: "a local segment holds it"}
}

// tiered turns what the local tier refuses into a remote read where the remote tier can hold the offset.
func tiered(a Answer, r Request, o Offsets) Answer {
	if a.Where != OutOfRange || !o.Remote || r.Offset < o.LogStart || r.Offset >= o.LocalStart {
		return a
	}
	if !IsConsumer(r.Replica) {
		return Answer{Where: MovedToTiered, Why: "a follower builds its state from the remote tier, not by fetching"}
	}
	if bound := o.Bound(r); o.LocalBase < 0 && r.Offset >= bound {
		return Answer{Where: AtEnd, Bound: bound, Why: "nothing to read yet below the bound"}
	}
	return Answer{Where: Remote, Bound: o.Bound(r), Why: "below the local start"}
}
