package randomops

import (
	"slices"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
)

// view is what a host knows of a partition since it last looked: the log, and the finished segments of the remote tier.
type view struct {
	p       *partition
	local   bool // there is a local tier
	batches []*batch
	segs    []*upload // finished

	logStart, hw, stable, end int64

	// Below sure the log was said to begin later, or not all is there that the offsets promise: an answer may be an error as
	// well as right. The same at and above limit.
	sure, limit int64
}

// view is what there is to know now. checkpoint: the log start's is there.
func (p *partition) view(local, checkpoint bool) *view {
	v := &view{p: p, local: local, logStart: p.logStart, sure: p.logStart}
	for _, u := range p.remote {
		if u.state == format.CopySegmentFinished {
			v.segs = append(v.segs, u)
		}
	}
	if local {
		v.batches, v.end, v.limit, v.hw, v.stable = slices.Clone(p.batches), p.end, p.end, p.hw, p.stable()
		if !checkpoint { // it is what both tiers have, and no more than sure
			v.logStart = 0
		}
		return v
	}
	first, last := v.span(func(*upload) bool { return true })
	_, live := v.span(func(u *upload) bool { return !u.dead })
	v.batches, v.logStart, v.end, v.limit = slices.Clone(within(p.batches, 0, live)), first, last+1, live+1
	v.hw, v.stable = v.end, v.end
	for _, b := range v.batches { // the remote tier alone may end before a marker
		if t := b.txn; t != nil && (t.end == undecided || t.end >= v.limit) {
			v.stable = min(v.stable, t.first)
		}
	}
	return v
}

// span is the first and last offset of some finished segments; last is -1 where there are none.
func (v *view) span(of func(u *upload) bool) (first, last int64) {
	last = -1
	for _, u := range v.segs {
		if !of(u) {
			continue
		}
		if last < 0 || u.start() < first {
			first = u.start()
		}
		last = max(last, u.end())
	}
	return first, last
}

// remoteAlone reports whether the metadata names the partition and its newest segment tells the lineage: without a local tier
// nothing else does.
func (p *partition) remoteAlone() bool {
	var newest *upload
	for _, u := range p.remote {
		if u.state == format.CopySegmentFinished && (newest == nil || newer(u, newest)) {
			newest = u
		}
	}
	return len(p.remote) > 0 && (newest == nil || !newest.dead)
}

func newer(a, b *upload) bool {
	x, y := a.Meta.LeaderEpochs[len(a.Meta.LeaderEpochs)-1].Epoch, b.Meta.LeaderEpochs[len(b.Meta.LeaderEpochs)-1].Epoch
	return x > y || x == y && a.end() > b.end()
}

// bound is the exclusive end of what may be read.
func (v *view) bound(iso locality.Isolation) int64 {
	if iso == locality.ReadCommitted {
		return v.stable
	}
	return v.hw
}

// run is what a read of all from offset on gives, in order.
func (v *view) run(offset int64, iso locality.Isolation) []*batch {
	from := at(v.batches, offset)
	to := from
	for bound := v.bound(iso); to < len(v.batches) && v.batches[to].base < bound; to++ {
	}
	return v.batches[from:to]
}

// excused says what allows an error instead of the batches that a read at offset begins with; "" for nothing.
func (v *view) excused(offset int64, iso locality.Isolation) string {
	first := offset
	if run := v.run(offset, iso); len(run) > 0 {
		first = run[0].last
	} else {
		first = max(v.end, offset)
	}
	for _, u := range v.segs {
		switch {
		case u.damage == sound:
		case (u.damage == aborts || u.damage == gone) && iso == locality.ReadCommitted && u.end() >= offset:
			return "a transaction index is damaged or gone"
		case u.damage != aborts && u.holds(offset, first):
			return "an object is damaged or gone"
		case iso == locality.ReadCommitted && u.end() >= offset && v.untold(offset):
			return "where the metadata does not tell empty transaction indexes, the data decides, and an object of it is damaged or gone"
		}
	}
	return ""
}

// untold reports a segment at or behind offset of which only the data says that nothing was aborted.
func (v *view) untold(offset int64) bool {
	return slices.ContainsFunc(v.segs, func(u *upload) bool { return u.end() >= offset && !u.Meta.TxnIndexEmpty && len(u.TxnIndex) == 0 })
}

// whole reports that nothing the view has is damaged.
func (v *view) whole() bool {
	return !slices.ContainsFunc(v.segs, func(u *upload) bool { return u.damage != sound })
}
