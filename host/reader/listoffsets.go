package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
)

// The timestamps of ListOffsets that are no times (Kafka protocol, api key 2; KIP-405, KIP-734, KIP-1005, KIP-1023).
const (
	Latest                int64 = -1
	Earliest              int64 = -2
	MaxTimestamp          int64 = -3
	EarliestLocal         int64 = -4
	LatestTiered          int64 = -5
	EarliestPendingUpload int64 = -6
)

// firstVersion is the version of ListOffsets that brought each special timestamp.
var firstVersion = map[int64]int16{Latest: 0, Earliest: 0, MaxTimestamp: 7, EarliestLocal: 8, LatestTiered: 9, EarliestPendingUpload: 11}

// FirstVersion is the version of ListOffsets that brought a special timestamp; 0 for times.
func FirstVersion(timestamp int64) int16 { return firstVersion[timestamp] }

// ListOffsetsRequest is a ListOffsets as its wire form has it.
type ListOffsetsRequest struct {
	ID        string // of the request, in log and error; may be empty
	ClientID  string // whom the reader pool is fair between; may be empty
	Version   int16
	ReplicaID int32
	Isolation locality.Isolation
	// Markers: a lookup by time (0 and up) finds markers of transactions too, as a broker's does, and not data records alone.
	Markers    bool
	Partitions []ListOffsetsPartition
}

// ListOffsetsPartition asks for one partition.
type ListOffsetsPartition struct {
	Topic              string
	TopicID            abi.UUID // zero: by name
	Partition          int32
	Timestamp          int64 // ms, or one of the special ones
	CurrentLeaderEpoch int32 // epoch.Undefined: not given
}

// OffsetData answers one partition. Offset, Timestamp and LeaderEpoch are -1 where there is none.
type OffsetData struct {
	Topic       string
	Partition   int32
	Code        Code
	Err         error // the sentence behind Code; nil with None
	Offset      int64
	Timestamp   int64 // of the record; -1 for the special ones
	LeaderEpoch int32
}

// ListOffsets answers a request, in its order of partitions. What needs no store is answered at once; lookups by time run side
// by side in the reader pool, with fetches. Those that are not ready when ctx ends are REQUEST_TIMED_OUT, and go on: who asks
// again is answered from them.
func (r *Reader) ListOffsets(ctx context.Context, req *ListOffsetsRequest) []OffsetData {
	r.counts.asking.Add(1)
	defer r.counts.asking.Add(-1)
	out := make([]OffsetData, len(req.Partitions))
	begun := map[int]*lookup{}
	var local []int
	for i := range req.Partitions {
		where := nowhereYet
		if where, out[i] = r.atOnce(req, &req.Partitions[i]); where == inStore {
			begun[i] = r.lookups.begin(ctx, r, req, &req.Partitions[i])
		} else if where == inFiles {
			local = append(local, i)
		}
	}
	for _, i := range local {
		out[i] = r.listOffset(ctx, req, &req.Partitions[i])
	}
	for i, l := range begun {
		out[i] = r.lookups.wait(ctx, l, &req.Partitions[i])
	}
	return r.counts.expired(out)
}

// answerIn says where an answer lies.
type answerIn int

const (
	nowhereYet answerIn = iota // it is there
	inFiles                    // local files have to be read
	inStore                    // the store has to be asked
)

// endedContext is a context that has ended: a catalog gives with it what is there, and begins what is not.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// atOnce answers a partition if nothing has to be read for that.
func (r *Reader) atOnce(req *ListOffsetsRequest, p *ListOffsetsPartition) (answerIn, OffsetData) {
	if timestampIn(p.Timestamp) == nowhereYet {
		out := r.listOffset(endedContext, req, p)
		if out.Code == ReplicaNotAvailable || abi.KindOf(out.Err) == abi.Cancelled { // such as an end that nobody read yet
			return inStore, OffsetData{}
		}
		return nowhereYet, out
	}
	part, code, err := r.catalog.Find(endedContext, p.Topic, p.TopicID, p.Partition)
	switch {
	case err != nil && code != ReplicaNotAvailable:
		return nowhereYet, r.listOffset(endedContext, req, p)
	case err != nil, part.Remote != nil:
		return inStore, OffsetData{}
	}
	return inFiles, OffsetData{}
}

// timestampIn says where the answer to a timestamp may lie.
func timestampIn(timestamp int64) answerIn {
	if timestamp >= 0 || timestamp == MaxTimestamp {
		return inStore
	}
	return nowhereYet
}

func (r *Reader) listOffset(ctx context.Context, req *ListOffsetsRequest, p *ListOffsetsPartition) OffsetData {
	out := OffsetData{Topic: p.Topic, Partition: p.Partition, Offset: -1, Timestamp: -1, LeaderEpoch: epoch.Undefined}
	fail := func(c Code, err error) OffsetData {
		out.Code, out.Err = c, err
		return out
	}
	if first, ok := firstVersion[p.Timestamp]; p.Timestamp < 0 && (!ok || req.Version < first) {
		return fail(UnsupportedVersion, abi.Errorf("list offsets", fmt.Sprintf("%s-%d", p.Topic, p.Partition), abi.Unsupported,
			"%s (%d): timestamp %d in version %d", UnsupportedVersion, UnsupportedVersion, p.Timestamp, req.Version))
	}
	part, code, err := r.catalog.Find(ctx, p.Topic, p.TopicID, p.Partition)
	if err != nil {
		return fail(code, err)
	}
	if code, err := fenced(part, p.CurrentLeaderEpoch); err != nil {
		return fail(code, err)
	}
	q := offsetQuery{r: r, part: part, client: req.ClientID, markers: req.Markers,
		bound: part.Offsets.Bound(locality.Request{Replica: req.ReplicaID, Isolation: req.Isolation})}
	if p.Timestamp == Latest {
		end, err := r.heldEnd(ctx, req.ClientID, part)
		if err != nil {
			return fail(offsetsCode(err), err)
		}
		q.bound = min(q.bound, end)
	}
	found, err := q.find(ctx, p.Timestamp)
	if err != nil {
		return fail(offsetsCode(err), err)
	}
	out.Offset, out.Timestamp, out.LeaderEpoch = found.offset, found.timestamp, found.epoch
	if out.LeaderEpoch > part.Lineage.Latest() && r.policy.TellingCodes { // a batch's, which no CRC covers
		out.LeaderEpoch = epoch.Undefined
	}
	return out
}

// offsetsCode is codeOf, but for a lookup that its deadline ended: REQUEST_TIMED_OUT, as a broker says it. One that comes to
// offsets that are missing is NOT_LEADER_OR_FOLLOWER, as of a fetch.
func offsetsCode(err error) Code {
	switch {
	case abi.KindOf(err) == abi.Deadline:
		return RequestTimedOut
	case errors.Is(err, errNotHere), errors.Is(err, locallog.ErrHole):
		return NotLeaderOrFollower
	}
	return codeOf(err)
}

// fenced holds a client's leader epoch against the partition's.
func fenced(part *Partition, current int32) (Code, error) {
	code := None
	switch latest := part.Lineage.Latest(); {
	case current == epoch.Undefined || current == latest:
		return None, nil
	case current < latest:
		code = FencedLeaderEpoch
	default:
		code = UnknownLeaderEpoch
	}
	return code, abi.Errorf("check epoch", part.ID.String(), abi.Invalid, "%s (%d): the request has epoch %d, the partition %d",
		code, code, current, part.Lineage.Latest())
}

// place is an answer: an offset with its timestamp and leader epoch.
type place struct {
	offset, timestamp int64
	epoch             int32
}

var nowhere = place{-1, -1, epoch.Undefined}

// offsetQuery looks for offsets in one partition. bound is the exclusive end of what the client may read.
type offsetQuery struct {
	r     *Reader
	part  *Partition
	bound int64

	client  string // whom the reader pool is fair between; may be empty
	markers bool   // a lookup by time finds them too
}

func (q *offsetQuery) find(ctx context.Context, timestamp int64) (place, error) {
	o := q.part.Offsets
	switch timestamp {
	case Latest:
		return place{q.bound, -1, q.part.Lineage.Latest()}, nil
	case Earliest:
		return q.earliest(), nil
	case EarliestLocal:
		if !o.Remote {
			return q.earliest(), nil
		}
		return q.at(o.LocalStart), nil
	case LatestTiered:
		return q.latestTiered(), nil
	case EarliestPendingUpload:
		return q.readable(q.pendingUpload()), nil
	case MaxTimestamp:
		p, err := q.maxTimestamp(ctx)
		return q.readable(p), err
	}
	p, err := q.byTime(ctx, timestamp)
	return q.readable(p), err
}

// readable withholds what the client may not read yet.
func (q *offsetQuery) readable(p place) place {
	if p.offset >= q.bound {
		return nowhere
	}
	return p
}

// at is an offset with the epoch it lies in.
func (q *offsetQuery) at(offset int64) place {
	if le, ok := q.part.Lineage.ForOffset(offset); ok {
		return place{offset, -1, le.Epoch}
	}
	return place{offset, -1, epoch.Undefined}
}

// earliest is the log start, with the first epoch if that began there or before.
func (q *offsetQuery) earliest() place {
	p := place{q.part.Offsets.LogStart, -1, epoch.Undefined}
	if entries := q.part.Lineage.Entries(); len(entries) > 0 && entries[0].StartOffset <= p.offset {
		p.epoch = entries[0].Epoch
	}
	return p
}

func (q *offsetQuery) latestTiered() place {
	h := q.highestRemote()
	if h < 0 {
		return nowhere
	}
	return q.at(h)
}

// highestRemote is the last offset of the remote tier, -1 where there is none. It never falls, also when retention
// deletes what it points at, as a broker's does not.
func (q *offsetQuery) highestRemote() int64 {
	if q.part.Remote == nil {
		return -1
	}
	_, h := q.part.Remote.HighestInLineage(q.part.Lineage, q.part.Offsets.LogEnd)
	return h
}

func (q *offsetQuery) pendingUpload() place {
	o := q.part.Offsets
	switch h := q.highestRemote(); {
	case !o.Remote:
		return nowhere
	case h >= 0:
		return q.at(max(h+1, o.LogStart))
	case o.LocalStart == o.LogStart:
		return q.earliest()
	}
	return nowhere
}
