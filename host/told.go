package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// maxTold bounds an index that is read whole for what it tells.
const maxTold = 16 << 20

// told reads what a segment tells. Epochs that are missing or damaged are left out: the metadata has them too.
func (h *Host) told(ctx context.Context, seg *rlmm.Segment, epochs bool) (t told, err error) {
	t.stable = math.MaxInt64
	if h.store == nil {
		return t, nil
	}
	var wg sync.WaitGroup
	var failed error
	if epochs { // side by side: a slow store is waited for once
		wg.Go(func() { t.epochs, failed = h.leaderEpochs(ctx, seg) })
	}
	stable, err := h.undecided(ctx, seg)
	wg.Wait()
	t.stable = stable
	return t, cmp.Or(failed, err)
}

// toldInTurn is told when its turn among small reads comes.
func (h *Host) toldInTurn(ctx context.Context, seg *rlmm.Segment, epochs bool) (t told, err error) {
	if busy := h.reader.Small(ctx, "", func() { t, err = h.told(ctx, seg, epochs) }); busy != nil {
		return told{}, busy
	}
	return t, err
}

// undecided is the first offset of the oldest transaction that is open at the segment's end; math.MaxInt64 where none is. It is
// the word of the segment's PRODUCER_SNAPSHOT; where that is missing or damaged, of the data.
func (h *Host) undecided(ctx context.Context, seg *rlmm.Segment) (int64, error) {
	open, err := h.snapshot(ctx, seg)
	if lost(err) {
		open, err = h.openAtEnd(ctx, seg, err)
	}
	stable := int64(math.MaxInt64)
	for _, first := range open {
		stable = min(stable, first)
	}
	return stable, err
}

// snapshot is the transactions that are open at the segment's end by its PRODUCER_SNAPSHOT: their first offsets, by producer.
func (h *Host) snapshot(ctx context.Context, seg *rlmm.Segment) (map[int64]int64, error) {
	b, err := h.readIndex(ctx, seg, abi.ProducerSnapshot)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, abi.Errorf("read producer snapshot", seg.Key(), abi.NotFound, "it is missing")
	}
	states, err := format.ParseProducerSnapshot(b)
	if err != nil {
		return nil, err
	}
	if err := h.checkSnapshot(ctx, seg, states); err != nil {
		return nil, err
	}
	open := map[int64]int64{}
	for _, s := range states {
		if s.CurrentTxnFirstOffset >= 0 {
			open[s.ProducerID] = s.CurrentTxnFirstOffset
		}
	}
	return open, nil
}

// checkSnapshot holds the producers of a snapshot against the segment, and against the segment's last batches where one of them has
// had a transaction.
func (h *Host) checkSnapshot(ctx context.Context, seg *rlmm.Segment, states []format.ProducerState) (err error) {
	var tail format.ProducerTail
	if slices.ContainsFunc(states, func(s format.ProducerState) bool { return s.CurrentTxnFirstOffset >= 0 || s.CoordinatorEpoch >= 0 }) {
		if tail, err = h.reader.ProducersAtEnd(ctx, seg); err != nil {
			return err
		}
	}
	if err := tail.Check(states, seg.EndOffset+1); err != nil {
		return abi.E("read producer snapshot", seg.Key(), abi.Corrupt, err)
	}
	return nil
}

// lost reports an error of an index that will not go by itself.
func lost(err error) bool {
	switch abi.KindOf(err) {
	case abi.NotFound, abi.Corrupt, abi.Unsupported, abi.Invalid, abi.Internal:
		return true
	}
	return false
}

// What is read in the place of a producer snapshot has bounds: the partition can't be read until it is.
const (
	maxReplayed   = 16
	replayBytes   = 16 << 20
	replayTimeout = 2 * time.Second
)

// openAtEnd is the transactions that are open at the segment's end by the data: from the nearest producer snapshot before it, or
// from the first segment on. why says what is wrong with the segment's own. Where the data is too much to be read it is a finding
// that they are taken as decided.
func (h *Host) openAtEnd(ctx context.Context, seg *rlmm.Segment, why error) (map[int64]int64, error) {
	bounded, stop := context.WithTimeout(ctx, replayTimeout)
	defer stop()
	open, from, err := h.replay(bounded, seg)
	if ctx.Err() != nil {
		return nil, err
	}
	f := finding.Of(seg.TopicIDPartition, seg.EndOffset+1, "the PRODUCER_SNAPSHOT of segment %s can't be used: %v; the transactions that are open at its end were read from the data, from offset %d on",
		seg.SegmentID, why, from)
	f.Repaired = err == nil
	if err != nil {
		open = nil
		f.What = fmt.Sprintf("the PRODUCER_SNAPSHOT of segment %s can't be used: %v; transactions that are open at its end are taken as decided, since the data does not say: %v",
			seg.SegmentID, why, err)
	}
	h.foundByRead(f)
	return open, nil
}

// replay is the transactions that are open at the segment's end by the data from offset from on.
func (h *Host) replay(ctx context.Context, seg *rlmm.Segment) (open map[int64]int64, from int64, err error) {
	segs, size := []*rlmm.Segment{seg}, seg.SizeBytes
	open = map[int64]int64{}
	for {
		if len(segs) > maxReplayed || size > replayBytes {
			return nil, 0, abi.Errorf("", "", abi.Exhausted, "%s in %d segments behind the nearest snapshot are too much", trace.Bytes(size), len(segs))
		}
		before := h.before(segs[len(segs)-1])
		if before == nil {
			break
		}
		known, err := h.snapshot(ctx, before)
		if err == nil {
			open = known
			break
		}
		if !lost(err) {
			return nil, 0, err
		}
		segs, size = append(segs, before), size+before.SizeBytes
	}
	for _, s := range slices.Backward(segs) {
		if err := h.reader.OpenTransactions(ctx, s, open); err != nil {
			return nil, 0, err
		}
	}
	return open, segs[len(segs)-1].StartOffset, nil
}

// before is the segment that ends where seg begins, nil where the metadata has none.
func (h *Host) before(seg *rlmm.Segment) *rlmm.Segment {
	tp := seg.TopicIDPartition
	t := h.catalog.Load().byID[tp.TopicID]
	if t == nil || seg.StartOffset == 0 {
		return nil
	}
	at := t.find(tp.Partition)
	if at == nil || at.Remote == nil {
		return nil
	}
	p := at.Remote
	le, ok := epoch.Of(p.Epochs()).ForOffset(seg.StartOffset - 1)
	if !ok {
		return nil
	}
	before, ok := p.Lookup(le.Epoch, seg.StartOffset-1)
	if !ok || before.StartOffset >= seg.StartOffset {
		return nil
	}
	return before
}

// leaderEpochs reads the LEADER_EPOCH index of a segment; none where it is missing or damaged.
func (h *Host) leaderEpochs(ctx context.Context, seg *rlmm.Segment) ([]abi.LeaderEpoch, error) {
	b, err := h.readIndex(ctx, seg, abi.LeaderEpochIndex)
	if err == nil && b != nil {
		var epochs []abi.LeaderEpoch
		if epochs, err = format.ParseLeaderEpochs(b); err == nil {
			return epochs, nil
		}
		err = abi.E("read leader epochs", seg.Key(), abi.Corrupt, err)
	}
	if abi.KindOf(err) == abi.Corrupt {
		h.log.Warn("a damaged LEADER_EPOCH index: the metadata's epochs are taken", "segment", seg.Key(), "why", err)
		return nil, nil
	}
	return nil, err
}

// readIndex reads an index whole; nil where the segment has none.
func (h *Host) readIndex(ctx context.Context, seg *rlmm.Segment, typ abi.IndexType) ([]byte, error) {
	obj := h.store.Mover.Object(transfer.Key{Segment: seg.SegmentID, Index: typ}, seg.Key()+" "+typ.String()+" index",
		func(ctx context.Context, _ abi.Range) (*abi.Source, error) {
			return h.store.RSM.FetchIndex(ctx, &seg.SegmentMetadata, typ)
		})
	defer obj.Close()
	b, err := obj.ReadAll(ctx, maxTold)
	if abi.KindOf(err) == abi.NotFound {
		return nil, nil
	}
	return b, err
}
