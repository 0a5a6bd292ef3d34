package host

import (
	"cmp"
	"context"
	"math"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// maxTold bounds an index that is read whole for what it tells.
const maxTold = 16 << 20

// told reads what a segment tells. Epochs that are missing or damaged are left out: the metadata has them too. A snapshot that
// is missing is of a store that keeps none; a damaged one is an error, since aborted records could be taken for good ones.
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

// undecided is the first offset of the oldest transaction that is open at the segment's end, by its PRODUCER_SNAPSHOT;
// math.MaxInt64 where none is. One that is damaged or missing does not make the partition unreadable: all is taken as
// decided then, and said in the log.
func (h *Host) undecided(ctx context.Context, seg *rlmm.Segment) (int64, error) {
	b, err := h.readIndex(ctx, seg, abi.ProducerSnapshot)
	var states []format.ProducerState
	if err == nil && b != nil {
		states, err = format.ParseProducerSnapshot(b)
	}
	if k := abi.KindOf(err); k == abi.Corrupt || k == abi.Unsupported {
		h.log.Warn("a damaged PRODUCER_SNAPSHOT: transactions at the end of the remote tier are taken as decided", "segment", seg.Key(), "why", err)
		return math.MaxInt64, nil
	}
	stable := int64(math.MaxInt64)
	for _, s := range states {
		if s.CurrentTxnFirstOffset >= 0 {
			stable = min(stable, s.CurrentTxnFirstOffset)
		}
	}
	return stable, err
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
