package reader

import (
	"context"
	"errors"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
)

// vanished reports a read that found an object gone which the metadata promised: retention may have deleted it a moment
// ago, and the metadata here may not know yet.
func (r *Reader) vanished(rd *read, err error) bool {
	if err == nil || r.look == nil || rd.acc.len() > 0 || errors.Is(err, errNoSegment) {
		return false
	}
	k := abi.KindOf(err)
	return k == abi.NotFound || k == abi.Corrupt && !errors.As(err, new(badBatch))
}

// afterLook looks at the metadata again and reads once more if it tells something else now. An offset that is below the log
// start then is out of range, as it is for a client who comes later; what did not change stays the error that it was.
func (r *Reader) afterLook(ctx context.Context, rd *read, failed error) error {
	m := rd.tr.Mark()
	if err := r.look(ctx); err != nil {
		return failed // the read's own error says more
	}
	part, _, err := r.catalog.Find(ctx, rd.part.ID.Topic, rd.part.ID.TopicID, rd.part.ID.Partition)
	if err != nil {
		return failed
	}
	ans := locality.Check(rd.asked, part.Offsets, part.Lineage)
	if ans.Where == rd.ans.Where && r.sameSegment(rd, part) {
		return failed
	}
	rd.tr.Add(m, "look", "changed", nil, "an object was gone, and the metadata has changed: %s", ans.Where)
	rd.part, rd.ans = part, ans
	switch ans.Where {
	case locality.Remote:
		return r.remote(ctx, rd)
	case locality.Local:
		return r.localFrom(ctx, rd, rd.req.Offset, rd.room, rd.first)
	}
	return r.noSegment(rd, rd.req.Offset, ans.Why)
}

// sameSegment reports that a lookup gives in part what it gave before.
func (r *Reader) sameSegment(rd *read, part *Partition) bool {
	find := func(p *Partition) abi.UUID {
		le, ok := p.Lineage.ForOffset(rd.req.Offset)
		if !ok || p.Remote == nil {
			return abi.UUID{}
		}
		seg, _ := r.policy.lookup(p.Remote, le.Epoch, rd.req.Offset)
		if seg == nil {
			return abi.UUID{}
		}
		return seg.SegmentID
	}
	return find(rd.part) == find(part)
}
