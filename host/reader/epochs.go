package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
)

// EpochRequest asks where a leader epoch ends (Kafka protocol, api key 23, OffsetForLeaderEpoch).
type EpochRequest struct {
	Topic              string
	TopicID            abi.UUID // zero: by name
	Partition          int32
	LeaderEpoch        int32
	CurrentLeaderEpoch int32 // epoch.Undefined: not given
}

// EpochEnd answers: the largest epoch that is not above the one asked for, and its exclusive end. Both are -1 where the
// lineage can't tell.
type EpochEnd struct {
	Code        Code
	Err         error // the sentence behind Code; nil with None
	LeaderEpoch int32
	EndOffset   int64
}

// OffsetsForLeaderEpochs answers requests, in their order. What the catalog needs for them is asked for side by side.
func (r *Reader) OffsetsForLeaderEpochs(ctx context.Context, reqs []EpochRequest) []EpochEnd {
	for i := range reqs {
		r.catalog.Find(endedContext, reqs[i].Topic, reqs[i].TopicID, reqs[i].Partition)
	}
	out := make([]EpochEnd, len(reqs))
	for i := range reqs {
		out[i] = r.OffsetForLeaderEpoch(ctx, &reqs[i])
	}
	return out
}

// OffsetForLeaderEpoch answers one request.
func (r *Reader) OffsetForLeaderEpoch(ctx context.Context, req *EpochRequest) EpochEnd {
	out := EpochEnd{LeaderEpoch: epoch.Undefined, EndOffset: -1}
	part, code, err := r.catalog.Find(ctx, req.Topic, req.TopicID, req.Partition)
	if err == nil {
		code, err = fenced(part, req.CurrentLeaderEpoch)
	}
	if err != nil {
		out.Code, out.Err = code, err
		return out
	}
	if found, end, ok := part.Lineage.EndOffset(req.LeaderEpoch, part.Offsets.LogEnd); ok {
		out.LeaderEpoch, out.EndOffset = found, end
	}
	return out
}
