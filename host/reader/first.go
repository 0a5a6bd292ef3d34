package reader

import (
	"context"

	"github.com/rsmhost/rsmhost/host/locality"
)

// passFirstOn gives away the right to exceed an allowance by a first batch (Kafka's minOneMessage) where the partition that had
// it did not use it. A remote read takes it before it is known what it finds, which may be nothing: an error, or an offset
// behind which all was compacted away. Where nothing came at all then, and nothing is on its way, the partitions that were
// held back by their allowances are read once more with that right, until one gives something: a client that asks for the same
// again would get nothing, for ever.
func (r *Reader) passFirstOn(ctx, patience context.Context, req *FetchRequest, reads []read) {
	if !r.policy.FirstPassesOn {
		return
	}
	for i := range reads {
		if rd := &reads[i]; rd.out.Late || rd.acc.len() > 0 {
			return
		}
	}
	for i := range reads {
		rd := &reads[i]
		if rd.first || !rd.heldBack() || rd.ans.Where == locality.Remote && req.allowance(rd.req, req.limit()) == 0 { // the latter is not read at all
			continue
		}
		r.readFirst(ctx, patience, req, reads[i:i+1])
		if rd.out.Late || rd.acc.len() > 0 {
			return
		}
	}
}

// heldBack says whether a read gave nothing because of its allowance.
func (rd *read) heldBack() bool {
	if rd.part == nil || rd.out.Code != None {
		return false
	}
	return rd.acc.tooBig || rd.ans.Where == locality.Remote && rd.room == 0
}

// spent says whether a read that was not held back was charged for nothing: a remote one is before it is known what it finds.
func (rd *read) spent() bool {
	return rd.ans.Where == locality.Remote && rd.out.Size() == 0 && !rd.out.Late && !rd.heldBack()
}

// readFirst reads one partition again, as the first of its request.
func (r *Reader) readFirst(ctx, patience context.Context, req *FetchRequest, one []read) {
	rd := &one[0]
	rd.acc.release()
	rd.acc, rd.first, rd.room = accumulator{}, true, req.allowance(rd.req, req.limit())
	rd.tr.Add(rd.tr.Mark(), "first", "passed on", nil, "nothing came for the request, so that this partition may exceed its allowance")
	if rd.ans.Where == locality.Local {
		r.readLocal(ctx, rd)
		return
	}
	r.readRemote(ctx, patience, req, one)
}
