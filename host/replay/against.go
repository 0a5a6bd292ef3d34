package replay

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// samples is how many timestamps and leader epochs of a partition both sides are asked about.
const samples = 16

// Compared is what a comparison of one partition of two clusters came to.
type Compared struct {
	Topic      string
	Partition  int32
	From, To   int64 // of the offsets that were compared; To is exclusive
	Records    int64 // that both have, transaction markers included
	Difference *Difference
}

// Difference is the first one of a partition.
type Difference struct {
	What string // "offset 1234, read_committed: value"
	A, B string // what each side has
}

// Against compares the partitions of one topic on two clusters as consumers of both see them.
type Against struct {
	A, B  *Client
	Topic string
	Read  atomic.Int64 // bytes of records that came from both sides, while it runs
}

// Partition compares one partition: where it begins and ends, all records of both isolation levels in their meaning (offset,
// timestamp and its type, key, value, headers, leader epoch, producer, transaction), offsets by time, and where leader epochs
// end. How records are cut into batches does not count. It stops at the first difference. It holds a few fetches of each side in memory, whatever the
// partition's size.
//
// An error is that of a connection or of ctx; an answer with an error is a difference.
func (g *Against) Partition(ctx context.Context, partition int32) (*Compared, error) {
	p := &comparing{g: g, out: &Compared{Topic: g.Topic, Partition: partition}, partition: partition, epochs: map[int32]bool{}}
	for _, step := range []func(context.Context) error{p.ends, p.uncommitted, p.committed, p.byTime, p.leaderEpochs} {
		if err := step(ctx); err != nil || p.out.Difference != nil {
			return p.out, err
		}
	}
	return p.out, nil
}

// comparing is one partition on its way.
type comparing struct {
	g         *Against
	out       *Compared
	partition int32
	stable    int64          // the end of read_committed
	times     []int64        // of records, sampled
	epochs    map[int32]bool // that were seen
	seen      int64
	every     int64 // a time is kept for so many records
}

func (p *comparing) differs(a, b, what string, args ...any) {
	p.out.Difference = &Difference{What: fmt.Sprintf(what, args...), A: a, B: b}
}

// offsets asks both sides the same ListOffsets.
func (p *comparing) offsets(ctx context.Context, timestamp int64, iso locality.Isolation) (a, b OffsetsAnswer, err error) {
	version := min(p.g.A.version(listOffsetsKey, 7), p.g.B.version(listOffsetsKey, 7))
	r := &OffsetsRequest{Version: version, Topic: p.g.Topic, Partition: p.partition, Timestamp: timestamp, Isolation: iso}
	a, b = r.patiently(ctx, p.g.A), r.patiently(ctx, p.g.B)
	return a, b, p.lost(ctx)
}

// patiently asks again where the answer is an error that passes, as a client does: a broker that is busy may not find an offset
// by time in its remote tier within the time that it has for it.
func (r *OffsetsRequest) patiently(ctx context.Context, h Host) OffsetsAnswer {
	for try := 1; ; try++ {
		a := r.ask(ctx, h, r.Timestamp)
		if !passes(reader.Code(a.ErrorCode)) || try == walkTries || pause(ctx, walkPause*time.Duration(try)) != nil {
			return a
		}
	}
}

// lost is what went wrong with a connection.
func (p *comparing) lost(ctx context.Context) error {
	for _, err := range []error{p.g.A.Err(), p.g.B.Err(), ctx.Err()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// ends compares where the partition begins and ends.
func (p *comparing) ends(ctx context.Context) error {
	for _, e := range []struct {
		name      string
		timestamp int64
		iso       locality.Isolation
		at        *int64
	}{
		{"the first offset", reader.Earliest, locality.ReadUncommitted, &p.out.From},
		{"the end", reader.Latest, locality.ReadUncommitted, &p.out.To},
		{"the end", reader.Latest, locality.ReadCommitted, &p.stable},
	} {
		a, b, err := p.offsets(ctx, e.timestamp, e.iso)
		if err != nil {
			return err
		}
		if a != b {
			p.differs(offsetText(a), offsetText(b), "%s, %s", e.name, e.iso)
			return nil
		}
		if a.ErrorCode != 0 {
			p.differs(offsetText(a), offsetText(b), "%s, %s: neither tells it", e.name, e.iso)
			return nil
		}
		*e.at = a.Offset
	}
	p.every = max(1, (p.out.To-p.out.From)/samples)
	return nil
}

func (p *comparing) uncommitted(ctx context.Context) error {
	return p.walk(ctx, locality.ReadUncommitted, p.out.To)
}

func (p *comparing) committed(ctx context.Context) error {
	return p.walk(ctx, locality.ReadCommitted, p.stable)
}

// walk reads both sides at once up to end, and compares what comes.
func (p *comparing) walk(ctx context.Context, iso locality.Isolation, end int64) error {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	begin := func(c *Client) *cursor {
		w := walk{c: c, topic: p.g.Topic, partition: p.partition, iso: iso, at: p.out.From, end: end, bytes: &p.g.Read}
		return &cursor{in: w.start(ctx, stop, &wg), iso: iso, from: p.out.From}
	}
	a, b := begin(p.g.A), begin(p.g.B)
	for {
		if p.sameBatch(a, b, iso) {
			continue
		}
		ra, okA := a.item()
		rb, okB := b.item()
		for _, c := range []*cursor{a, b} {
			if c.end.err != nil {
				return c.end.err
			}
		}
		if done := p.compare(a, b, ra, rb, okA, okB, iso); done {
			return nil
		}
	}
}

// sameBatch passes over a batch that both have, byte for byte.
func (p *comparing) sameBatch(a, b *cursor, iso locality.Isolation) bool {
	if a.part() || b.part() {
		return false
	}
	ba, okA := a.batch()
	bb, okB := b.batch()
	if !okA || !okB || a.shown != b.shown || !bytes.Equal(ba, bb) {
		return false
	}
	h := a.walker.Header()
	if iso == locality.ReadUncommitted {
		p.saw(h.BaseTimestamp, h.LeaderEpoch, int64(max(1, h.Count)))
	}
	a.skip()
	b.skip()
	return true
}

// saw takes note of a time and an epoch to ask about.
func (p *comparing) saw(timestamp int64, leaderEpoch int32, records int64) {
	before := p.seen
	p.seen += records
	p.out.Records = p.seen
	if leaderEpoch >= 0 && len(p.epochs) < samples {
		p.epochs[leaderEpoch] = true
	}
	if timestamp >= 0 && len(p.times) < 2*samples && (before == 0 || before/p.every != p.seen/p.every) {
		p.times = append(p.times, timestamp)
	}
}

// compare holds two records against each other, and reports the end of the walk.
func (p *comparing) compare(a, b *cursor, ra, rb item, okA, okB bool, iso locality.Isolation) (done bool) {
	switch {
	case !okA && !okB && !a.end.failed && !b.end.failed: // all offsets up to the end may be compacted away
		return true
	case !okA && !okB:
		p.differs(ended(a), ended(b), "what cannot be read, %s", iso)
		return true
	case !okA:
		p.differs(ended(a), rb.text(nil), "offset %d, %s: only one has it", rb.Offset, iso)
		return true
	case !okB:
		p.differs(ra.text(nil), ended(b), "offset %d, %s: only one has it", ra.Offset, iso)
		return true
	}
	if what := ra.differs(&rb); what != "" {
		p.differs(ra.text(&rb), rb.text(&ra), "offset %d, %s: %s", min(ra.Offset, rb.Offset), iso, what)
		return true
	}
	if iso == locality.ReadUncommitted {
		p.saw(ra.Timestamp, ra.LeaderEpoch, 1)
	}
	return false
}

// ended says why a side has nothing more.
func ended(c *cursor) string {
	if c.end.why != "" {
		return c.end.why
	}
	return "nothing up to the end"
}

// byTime compares offsets by time. One side may name a transaction marker where the other, which is better, names the data
// record behind it: OffsetsTolerances.
func (p *comparing) byTime(ctx context.Context) error {
	var asked []int64
	for _, ms := range p.times {
		asked = append(asked, max(0, ms-1), ms, ms+1)
	}
	slices.Sort(asked)
	for _, ms := range slices.Compact(asked) {
		for _, iso := range []locality.Isolation{locality.ReadUncommitted, locality.ReadCommitted} {
			a, b, err := p.offsets(ctx, ms, iso)
			if err != nil {
				return err
			}
			r := &OffsetsRequest{Timestamp: ms}
			if a != b && !tolerable(r, &a, &b) && !tolerable(r, &b, &a) {
				p.differs(offsetText(a), offsetText(b), "the first offset at or after %s, %s", timeText(ms), iso)
				return nil
			}
		}
	}
	return nil
}

func tolerable(r *OffsetsRequest, want, got *OffsetsAnswer) bool {
	return slices.ContainsFunc(OffsetsTolerances, func(t OffsetsTolerance) bool { return t.holds(r, want, got) })
}

// leaderEpochs compares where the leader epochs that were seen end.
func (p *comparing) leaderEpochs(ctx context.Context) error {
	var all []int32
	for e := range p.epochs {
		all = append(all, e)
	}
	slices.Sort(all)
	for _, e := range all {
		req := &reader.EpochRequest{Topic: p.g.Topic, Partition: p.partition, LeaderEpoch: e, CurrentLeaderEpoch: epoch.Undefined}
		a, b := p.g.A.OffsetForLeaderEpoch(ctx, req), p.g.B.OffsetForLeaderEpoch(ctx, req)
		if err := p.lost(ctx); err != nil {
			return err
		}
		if a.Code != b.Code || a.LeaderEpoch != b.LeaderEpoch || a.EndOffset != b.EndOffset {
			p.differs(epochText(a), epochText(b), "the end of leader epoch %d", e)
			return nil
		}
	}
	return nil
}
