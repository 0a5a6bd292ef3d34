package reader

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// maxDigests bounds how many digests are kept: most are empty, one with a hundred transactions has 4 KiB.
const maxDigests = 1 << 14

// digest is the aborted transactions that reads of one remote segment can need: those that began before the segment's
// end and whose marker lies in it or behind it. It is what a scan of this and all later transaction indexes gives, made
// once; a read then looks at its own segments' digests alone (KAFKA-16780).
type digest struct {
	txns  []format.AbortedTxn
	until int64 // where the lineage leaves the segment
	// complete: no marker that is written later can concern the segment. Else the digest holds while the log ends at logEnd.
	complete bool
	logEnd   int64
}

// digests are kept by segment id.
type digests struct {
	mu  sync.Mutex
	lru *simplelru.LRU[abi.UUID, *digest]
}

func (d *digests) get(seg piece, logEnd int64) (*digest, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lru == nil {
		return nil, false
	}
	g, ok := d.lru.Get(seg.SegmentID)
	if !ok || g.until != seg.until || !g.complete && g.logEnd != logEnd {
		return nil, false
	}
	return g, true
}

func (d *digests) put(id abi.UUID, g *digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lru == nil {
		lru, err := simplelru.NewLRU[abi.UUID, *digest](maxDigests, nil)
		if err != nil { // only for a size that is not positive
			panic(err)
		}
		d.lru = lru
	}
	d.lru.Add(id, g)
}

// digested gives the aborted transactions of an answer from the digests of the remote segments it came from, and from the
// local tier where it went on there.
func (r *Reader) digested(ctx context.Context, rd *read, from, upper int64) (found []format.AbortedTxn, looked int, err error) {
	for _, seg := range rd.acc.segs {
		g, n, err := r.digest(ctx, rd, seg)
		looked += n
		if err != nil {
			return nil, looked, err
		}
		for _, t := range g.txns {
			if t.LastOffset >= from && t.FirstOffset < upper {
				found = append(found, t)
			}
		}
	}
	if rd.part.Local != nil && (len(rd.acc.segs) == 0 || rd.acc.wentLocal) {
		found = rd.part.Local.Collect(found, from, upper)
	}
	return found, looked, nil
}

// digest gives a segment's digest, made now where it is not known. looked is the number of indexes that it took.
func (r *Reader) digest(ctx context.Context, rd *read, seg piece) (g *digest, looked int, err error) {
	end := rd.part.Offsets.LogEnd
	if g, ok := r.digests.get(seg, end); ok {
		return g, 0, nil
	}
	g = &digest{logEnd: end, until: seg.until}
	upper := seg.until
	if g.txns, looked, g.complete, err = r.abortedRemote(ctx, rd, seg, seg.StartOffset, upper); err != nil {
		return nil, looked, err
	}
	if !g.complete && rd.part.Local != nil {
		g.txns, g.complete = rd.part.Local.CollectAll(g.txns, seg.StartOffset, upper)
	}
	r.digests.put(seg.SegmentID, g)
	return g, looked, nil
}
