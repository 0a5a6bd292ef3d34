package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

const (
	surveyBytes   = 1 << 20 // of a fetch: what consumers ask for by default
	surveyBorders = 12      // borders of segments that are followed from the log's start
	surveyRandom  = 8       // offsets that are looked at beside those that have a name
	surveyEpochs  = 24      // leader epochs that are asked about
)

// spot is an offset where an answer may go wrong, and why.
type spot struct {
	offset int64
	what   string
}

// survey is what a cluster shows of one partition.
type survey struct {
	c         *Client
	topic     string
	partition int32

	start, end, stable int64
	latest             int32 // leader epoch; -1: not known
	epochs             []int32
	spots              []spot
	firsts             []batchAt // first batches of answers
	times              []int64
}

// batchAt is the first batch of an answer.
type batchAt struct {
	base, last int64
	size       int64
}

// look surveys a partition: the offsets that have a name, where epochs begin, and what batches lie there and at random offsets.
func (s *survey) look(ctx context.Context, rng *rand.Rand) error {
	end := s.special(ctx, reader.Latest, locality.ReadUncommitted)
	s.start, s.end, s.latest = s.special(ctx, reader.Earliest, locality.ReadUncommitted).Offset, end.Offset, end.LeaderEpoch
	s.stable = s.special(ctx, reader.Latest, locality.ReadCommitted).Offset
	if err := s.c.Err(); err != nil {
		return err
	}
	if end.ErrorCode != 0 {
		return fmt.Errorf("%s-%d: the end is not told: %s", s.topic, s.partition, reader.Code(end.ErrorCode))
	}
	s.add(s.start, "the log start")
	s.add(s.stable, "the last stable offset")
	s.add(s.end, "the end")
	if at := s.special(ctx, reader.EarliestLocal, locality.ReadUncommitted); at.ErrorCode == 0 {
		s.add(at.Offset, "the local log start")
	}
	if at := s.special(ctx, reader.LatestTiered, locality.ReadUncommitted); at.ErrorCode == 0 && at.Offset >= 0 {
		s.add(at.Offset+1, "behind the last tiered offset")
	}
	s.lookAtEpochs(ctx)
	s.lookAtBatches(ctx, rng)
	return cmpErr(s.c.Err(), ctx.Err())
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// special asks for one of the offsets that have a name, where the cluster is new enough to know it.
func (s *survey) special(ctx context.Context, timestamp int64, iso locality.Isolation) OffsetsAnswer {
	r := &OffsetsRequest{Version: s.c.version(listOffsetsKey, offsetsVersion), Topic: s.topic, Partition: s.partition, Isolation: iso}
	return r.ask(ctx, s.c, timestamp)
}

// add takes note of an offset of the log.
func (s *survey) add(offset int64, what string) {
	known := slices.ContainsFunc(s.spots, func(x spot) bool { return x.offset == offset })
	if !known && offset >= s.start && offset <= s.end {
		s.spots = append(s.spots, spot{offset, what})
	}
}

// lookAtEpochs finds where leader epochs begin: the newest ones, where there are many.
func (s *survey) lookAtEpochs(ctx context.Context) {
	for e := max(0, s.latest-surveyEpochs+1); e <= s.latest; e++ {
		s.epochs = append(s.epochs, e)
		end := s.c.OffsetForLeaderEpoch(ctx, &reader.EpochRequest{Topic: s.topic, Partition: s.partition, LeaderEpoch: e, CurrentLeaderEpoch: epoch.Undefined})
		if end.Code == reader.None && end.EndOffset >= 0 {
			s.add(end.EndOffset, fmt.Sprintf("the end of leader epoch %d", end.LeaderEpoch))
		}
	}
}

// lookAtBatches fetches at what has a name, behind the borders of segments that show, and at random.
func (s *survey) lookAtBatches(ctx context.Context, rng *rand.Rand) {
	for _, x := range slices.Clone(s.spots) {
		s.fetch(ctx, x.offset)
	}
	for at, n := s.start, 0; n < surveyBorders && at < s.end; n++ {
		next, border := s.fetch(ctx, at)
		if next <= at {
			break
		}
		if at = next; border {
			s.add(at, "the begin of a segment")
		}
	}
	for range surveyRandom {
		if s.start < s.end {
			s.fetch(ctx, s.start+rng.Int64N(s.end-s.start))
		}
	}
}

// fetch looks at what lies at an offset. next is the offset behind it; border says that the answer ended there without a need.
func (s *survey) fetch(ctx context.Context, at int64) (next int64, border bool) {
	r := s.request(at, locality.ReadUncommitted, surveyBytes)
	req, err := r.request()
	if err != nil {
		return at, false
	}
	resp := s.c.Fetch(ctx, req)
	p := &resp.Partitions[0]
	if p.Code != reader.None || len(p.Records) == 0 {
		return at, false
	}
	return s.saw(p, at)
}

// request asks for one offset.
func (s *survey) request(at int64, iso locality.Isolation, bytes int64) Request {
	return Request{Version: s.c.version(fetchKey, walkVersion), Isolation: iso, MaxBytes: requestBytes, MinBytes: 1,
		Partitions: []RequestPartition{{Topic: s.topic, Partition: s.partition, FetchOffset: at, PartitionMaxBytes: bytes}}}
}
