package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/reader"
)

// Host answers what is replayed: a host.Host is one.
type Host interface {
	Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse
	ListOffsets(ctx context.Context, req *reader.ListOffsetsRequest) []reader.OffsetData
	OffsetForLeaderEpoch(ctx context.Context, req *reader.EpochRequest) reader.EpochEnd
}

// Mode says what equal means.
type Mode int

// The modes.
const (
	Better     Mode = iota // what must hold for any correct host
	Exact                  // every field, and the hash of the records
	AsRecorded             // either of them, for each partition of an answer: for a server that may be a broker, which cuts batches
)

// Failure is one field that differs. Want and Got are JSON-like text.
type Failure struct {
	Field string
	Want  string
	Got   string
}

// Run replays one case and gives what differs; nothing is a pass. An error means that there was no answer.
func Run(ctx context.Context, h Host, c *Case, mode Mode) ([]Failure, error) {
	fails, err := run(ctx, h, c, mode)
	if remote, ok := h.(*Client); ok && err == nil {
		err = remote.Err()
	}
	return fails, err
}

func run(ctx context.Context, h Host, c *Case, mode Mode) ([]Failure, error) {
	switch {
	case c.Offsets != nil:
		return runOffsets(ctx, h, c.Offsets, mode), ctx.Err()
	case c.Epoch != nil:
		return runEpoch(ctx, h, c.Epoch), ctx.Err()
	}
	return runFetch(ctx, h, c.Fetch, mode)
}

func runFetch(ctx context.Context, f Host, c *FetchCase, mode Mode) ([]Failure, error) {
	req, err := c.Request.request()
	if err != nil {
		return nil, err
	}
	got := answer(ctx, f, req, c.Response.Partitions)
	if want := c.Response.ErrorCode; want != got.code || want != 0 { // with which there are no partitions
		return differing([]check{{"response.errorCode", want, got.code}}), ctx.Err()
	}
	var fails []Failure
	for i := range c.Response.Partitions {
		p := pair{want: &c.Response.Partitions[i], got: &got.partitions[i], prefix: got.prefixes[i], req: &c.Request, asked: &c.Request.Partitions[i], later: i > 0}
		if mode != Exact && p.later {
			p.alone = alone(ctx, f, req, i)
		}
		fails = append(fails, p.compare(mode, len(got.partitions) > 1)...)
	}
	return fails, ctx.Err()
}

// alone is what the i-th partition's read begins with when it is asked for by itself: the budget can't be spent then.
func alone(ctx context.Context, f Host, req *reader.FetchRequest, i int) *ResponsePartition {
	one := *req
	one.Partitions = req.Partitions[i : i+1]
	return &answer(ctx, f, &one, nil).partitions[0]
}

// refusal is the error code of an answer as a whole.
type refusal int16

func (r refusal) Error() string {
	return fmt.Sprintf("the answer as a whole is %s (%d)", reader.Code(r), int16(r))
}

// answered is an answer in the form of a recorded one.
type answered struct {
	code       int16 // of the answer as a whole
	partitions []ResponsePartition
	prefixes   []string // by partition: the SHA-256 of as many bytes of its records as were recorded; empty: it has fewer
}

// answer fetches. want is what was recorded; nil: nothing.
func answer(ctx context.Context, f Host, req *reader.FetchRequest, want []ResponsePartition) answered {
	resp := f.Fetch(ctx, req)
	defer resp.Release()
	out := answered{partitions: make([]ResponsePartition, len(resp.Partitions)), prefixes: make([]string, len(resp.Partitions))}
	for i := range resp.Partitions {
		p := &resp.Partitions[i]
		var whole refusal
		if errors.As(p.Err, &whole) {
			out.code = int16(whole)
		}
		out.partitions[i] = recorded(p)
		if i < len(want) && want[i].RecordsLength <= int64(len(p.Records)) {
			out.prefixes[i] = digest(p.Records[:max(0, want[i].RecordsLength)])
		}
	}
	return out
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func recorded(p *reader.PartitionData) ResponsePartition {
	out := ResponsePartition{Topic: p.Topic, Partition: p.Partition, ErrorCode: int16(p.Code), HighWatermark: p.HighWatermark,
		LastStableOffset: p.LastStableOffset, LogStartOffset: p.LogStartOffset, RecordsLength: int64(len(p.Records))}
	if p.Aborted != nil {
		out.AbortedTransactions = []Aborted{}
		for _, t := range p.Aborted {
			out.AbortedTransactions = append(out.AbortedTransactions, Aborted{t.ProducerID, t.FirstOffset})
		}
	}
	if p.Diverging != nil {
		out.DivergingEpoch = &EpochEnd{p.Diverging.Epoch, p.Diverging.StartOffset}
	}
	if p.Leader != nil {
		out.CurrentLeader = &Leader{p.Leader.ID, p.Leader.Epoch}
	}
	if len(p.Records) > 0 {
		out.describe(p.Records)
	}
	return out
}

// describe fills in what a recorder says of the records.
func (p *ResponsePartition) describe(records []byte) {
	p.RecordsSha256 = digest(records)
	w := format.Walk(records)
	var batches int64
	for w.Next() {
		h := w.Header()
		if batches == 0 {
			base := h.BaseOffset
			if h.Magic < 2 { // the wrapper tells its last offset alone
				if b, err := format.LegacyBaseOffset(w.Bytes()); err == nil {
					base = b
				}
			}
			p.FirstBatchBaseOffset = &base
		}
		last := h.LastOffset
		p.LastBatchLastOffset = &last
		batches++
	}
	rest := int64(len(w.Rest()))
	p.CompleteBatches, p.TrailingBytes = &batches, &rest
}
