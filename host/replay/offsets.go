package replay

import (
	"context"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// OffsetsCase is a recorded ListOffsets of one partition.
type OffsetsCase struct {
	Request  OffsetsRequest `json:"request"`
	Response OffsetsAnswer  `json:"response"`
}

// OffsetsRequest is a recorded ListOffsets request.
type OffsetsRequest struct {
	Version            int16              `json:"version"`
	Topic              string             `json:"topic"`
	Partition          int32              `json:"partition"`
	Timestamp          int64              `json:"timestamp"`
	Isolation          locality.Isolation `json:"isolation"`
	CurrentLeaderEpoch *int32             `json:"currentLeaderEpoch,omitempty"`
}

// OffsetsAnswer is a recorded answer to it.
type OffsetsAnswer struct {
	ErrorCode   int16 `json:"errorCode"`
	Offset      int64 `json:"offset"`
	Timestamp   int64 `json:"timestamp"`
	LeaderEpoch int32 `json:"leaderEpoch"`
}

// EpochCase is a recorded OffsetForLeaderEpoch of one partition.
type EpochCase struct {
	Request  EpochRequest `json:"request"`
	Response EpochAnswer  `json:"response"`
}

// EpochRequest is a recorded OffsetForLeaderEpoch request.
type EpochRequest struct {
	Topic              string `json:"topic"`
	Partition          int32  `json:"partition"`
	LeaderEpoch        int32  `json:"leaderEpoch"`
	CurrentLeaderEpoch *int32 `json:"currentLeaderEpoch,omitempty"`
}

// EpochAnswer is a recorded answer to it.
type EpochAnswer struct {
	ErrorCode   int16 `json:"errorCode"`
	LeaderEpoch int32 `json:"leaderEpoch"`
	EndOffset   int64 `json:"endOffset"`
}

func (r *OffsetsRequest) ask(ctx context.Context, h Host, timestamp int64) OffsetsAnswer {
	d := h.ListOffsets(ctx, &reader.ListOffsetsRequest{Version: r.Version, ReplicaID: locality.Consumer, Isolation: r.Isolation,
		Partitions: []reader.ListOffsetsPartition{{Topic: r.Topic, Partition: r.Partition, Timestamp: timestamp,
			CurrentLeaderEpoch: or(r.CurrentLeaderEpoch, epoch.Undefined)}}})[0]
	return OffsetsAnswer{int16(d.Code), d.Offset, d.Timestamp, d.LeaderEpoch}
}

// OffsetsTolerance is how a better answer to ListOffsets may differ from a broker's.
type OffsetsTolerance struct {
	Why   string
	holds func(r *OffsetsRequest, want, got *OffsetsAnswer) bool
}

// OffsetsTolerances are all of them.
var OffsetsTolerances = []OffsetsTolerance{
	{"-3: a broker looks at the local tier alone, counts transaction markers, and may name an offset below the log start: the " +
		"greatest timestamp of a data record of both tiers, or none where all of it is behind the bound",
		func(r *OffsetsRequest, want, got *OffsetsAnswer) bool {
			return r.Timestamp == reader.MaxTimestamp && want.ErrorCode == 0 && got.ErrorCode == 0
		}},
	{"by time: a broker may name a transaction marker: the next data record that fits, or none",
		func(r *OffsetsRequest, want, got *OffsetsAnswer) bool {
			return r.Timestamp >= 0 && want.ErrorCode == 0 && got.ErrorCode == 0 && want.Offset >= 0 &&
				(got.Offset < 0 || got.Offset > want.Offset && got.Timestamp >= r.Timestamp)
		}},
}

func runOffsets(ctx context.Context, h Host, c *OffsetsCase, mode Mode) []Failure {
	want, got := c.Response, c.Request.ask(ctx, h, c.Request.Timestamp)
	if want == got {
		return nil
	}
	if mode != Exact {
		for _, t := range OffsetsTolerances {
			if t.holds(&c.Request, &want, &got) {
				return nil
			}
		}
	}
	return differing([]check{{"errorCode", want.ErrorCode, got.ErrorCode}, {"offset", want.Offset, got.Offset},
		{"timestamp", want.Timestamp, got.Timestamp}, {"leaderEpoch", want.LeaderEpoch, got.LeaderEpoch}})
}

func (r *EpochRequest) ask(ctx context.Context, h Host) EpochAnswer {
	e := h.OffsetForLeaderEpoch(ctx, &reader.EpochRequest{Topic: r.Topic, Partition: r.Partition, LeaderEpoch: r.LeaderEpoch,
		CurrentLeaderEpoch: or(r.CurrentLeaderEpoch, epoch.Undefined)})
	return EpochAnswer{int16(e.Code), e.LeaderEpoch, e.EndOffset}
}

func runEpoch(ctx context.Context, h Host, c *EpochCase) []Failure {
	want, got := c.Response, c.Request.ask(ctx, h)
	return differing([]check{{"errorCode", want.ErrorCode, got.ErrorCode}, {"leaderEpoch", want.LeaderEpoch, got.LeaderEpoch},
		{"endOffset", want.EndOffset, got.EndOffset}})
}

// check is one field of an answer.
type check struct {
	field     string
	want, got any
}

func differing(checks []check) []Failure {
	var fails []Failure
	for _, c := range checks {
		if c.want != c.got {
			fails = append(fails, Failure{c.field, text(c.want), text(c.got)})
		}
	}
	return fails
}
