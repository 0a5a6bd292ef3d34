package host

import (
	"slices"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// complete works out the offsets from what is known of both tiers.
func (p *TopicPartition) complete(v *view) {
	first, last := p.remoteRange()
	if p.Local == nil || p.Local.Begin() < 0 {
		end := last + 1
		p.Offsets = locality.Offsets{LogStart: first, LocalStart: end, LocalBase: -1, HighWatermark: end, LastStableOffset: end,
			LogEnd: end, Remote: p.Remote != nil}
		return
	}
	l := p.Local
	o := locality.Offsets{LocalBase: l.Begin(), HighWatermark: l.HighWatermark, LogEnd: l.LogEnd, Remote: p.Remote != nil}
	o.LogStart = p.logStart(first, last, v)
	o.LocalStart = max(o.LogStart, o.LocalBase)
	o.HighWatermark = max(o.HighWatermark, p.committed(o.LocalStart))
	o.LastStableOffset = l.StableBelow(o.HighWatermark)
	p.Offsets = o
	p.lineage, p.known = l.Lineage, !l.Lineage.Empty()
}

// logStart is where the log begins. The checkpoint says it. Retention may be further, which is known then; else what lies
// between the checkpoint and the first record was lost, or the metadata of it was, and a finding says so. A log that begins with
// the remote tier begins where that does, so that clients do not ask for ever for what there is no more. It does not where the
// metadata is known to be damaged, which may be mended, and the local tier is the begin of a log whose checkpoint names an earlier
// one only where no metadata was given, so that nobody asked for the rest.
func (p *TopicPartition) logStart(first, last int64, v *view) int64 {
	base, begin := p.Local.Begin(), p.Local.Begin()
	if last >= 0 {
		begin = min(p.remoteStart(first, base), base)
	}
	checkpoint, ok := p.Local.LogStart()
	claimed, by := checkpoint, "the log-start checkpoint"
	if cut, known := p.Local.Lineage.Start(); !ok && known && p.Remote != nil {
		claimed, by, ok = cut, "the leader epochs", true
	}
	if !ok || claimed >= begin || p.retained(begin) {
		return max(checkpoint, begin)
	}
	if p.Remote != nil {
		claimed = max(claimed, p.Remote.DeletedTo())
	}
	if v.local {
		p.tell(claimed, "%s not local, by %s the log begins with %d, and no metadata is given: it begins with %d here", rlmm.Hole{From: claimed, To: base}, by, claimed, base)
		p.Findings[len(p.Findings)-1].Repaired = true
		return base
	}
	if begin < base && v.whole {
		p.tell(claimed, "%s in no tier, and by %s the log begins with %d: it begins with %d here", rlmm.Hole{From: claimed, To: begin}, by, claimed, begin)
		return begin
	}
	if begin == base {
		p.tell(claimed, "%s not local, and the metadata tells of no remote segment below the local tier, which begins with %d: by %s the log begins with %d",
			rlmm.Hole{From: claimed, To: base}, base, by, claimed)
	} // else the holes tell
	return claimed
}

// retained reports that retention has come to begin, before the broker's checkpoint says so, which it writes once a minute: until
// then a client that starts at the log's begin would ask for what is gone. The broker cuts its leader epochs there before it
// deletes a segment, or the metadata has all below it deleted; what is not known to be gone is not skipped.
func (p *TopicPartition) retained(begin int64) bool {
	if cut, ok := p.Local.Lineage.Start(); ok && (begin == cut || begin < cut && p.deletes(cut)) {
		return true
	}
	return p.Remote != nil && p.Remote.DeletedTo() >= begin
}

// deletes reports that a broker that runs, or was killed, has yet to delete what it has of the local log before offset, where a
// segment begins. Leader epochs that were lost and begun anew begin with the log's end.
func (p *TopicPartition) deletes(offset int64) bool {
	return p.dir != nil && !p.dir.Clean && slices.ContainsFunc(p.Local.Segments(), func(s *locallog.Segment) bool { return s.Base == offset })
}

// committed is the end of what was committed by what else is known, before the checkpoint of high watermarks says so, which a
// broker writes every five seconds, and not when it is killed: it copies and deletes only what lies below its last stable
// offset. Else what lies between the two would be in neither tier for a reader: the remote one ends where the local one begins.
func (p *TopicPartition) committed(localStart int64) int64 {
	end := localStart
	if p.Remote != nil {
		_, highest := p.Remote.HighestInLineage(p.Local.Lineage, p.Local.LogEnd)
		end = max(end, highest+1)
	}
	return min(end, p.Local.LogEnd)
}

// remoteStart is where the remote tier begins, as far as it belongs to the local lineage; where that is lost too, at first.
func (p *TopicPartition) remoteStart(first, base int64) int64 {
	cut, ok := p.Local.Lineage.Start()
	if !ok {
		return first
	}
	if start, ok := p.Remote.LogStartInLineage(p.Local.Lineage); ok {
		return max(start, cut)
	}
	return base
}

// remoteRange is the first and last offset of the finished segments, inclusive; last is -1 where there are none.
func (p *TopicPartition) remoteRange() (first, last int64) {
	if p.Remote != nil {
		if first, last, ok := p.Remote.Range(); ok {
			return first, last
		}
	}
	return 0, -1
}

// holesOf is what was worked out of a partition's holes, and from what: it costs time to do so.
type holesOf struct {
	version  int64 // of the metadata
	remote   *rlmm.Partition
	from, to int64
	lineage  epoch.Lineage
	holes    []rlmm.Hole
}

// findHoles works out which offsets below the local tier no remote segment holds; old is what an earlier catalog has of the
// partition, nil: nothing.
func (p *TopicPartition) findHoles(old *TopicPartition) {
	o := p.Offsets
	h := holesOf{remote: p.Remote, from: o.LogStart, to: o.LocalStart, lineage: p.lineage}
	if h.from >= h.to {
		return
	}
	if p.Remote == nil {
		h.holes = []rlmm.Hole{{From: h.from, To: h.to}}
		p.holes = h
		return
	}
	h.version = p.Remote.Version()
	if h.lineage.Empty() {
		h.lineage = epoch.Of(p.Remote.Epochs())
	}
	if old != nil && h.same(&old.holes) {
		h.holes = old.holes.holes
	} else {
		h.holes = p.Remote.Holes(h.lineage, h.from, h.to)
	}
	p.holes = h
}

func (h *holesOf) same(old *holesOf) bool {
	return old.remote == h.remote && old.version == h.version && old.from == h.from && old.to == h.to && old.lineage.Equal(h.lineage)
}

// maxHoles bounds the holes of a partition that are told one by one.
const maxHoles = 10

// tellHoles makes findings of the holes, but for one that the log's begin tells of already.
func (p *TopicPartition) tellHoles() {
	for i, h := range p.holes.holes {
		switch {
		case len(p.Findings) > 0 && h.From == p.Findings[0].Offset:
		case i == maxHoles:
			p.tell(h.From, "%d more stretches of offsets are in no tier", len(p.holes.holes)-i)
			return
		default:
			p.tell(h.From, "%s in no tier: no finished segment of their leader epoch holds them", h)
		}
	}
}

// eachTiered visits the holes of the local tier that the remote one has as a whole.
func (p *TopicPartition) eachTiered(visit func(finding.Finding)) {
	if p.Local == nil || p.Remote == nil {
		return
	}
	for h, ok := p.Local.NextHole(0); ok; h, ok = p.Local.NextHole(h.Until) {
		if len(p.Remote.Holes(p.lineage, h.From, h.Until)) == 0 {
			visit(h.Finding(p.Local.ID))
		}
	}
}

func (p *TopicPartition) tell(offset int64, format string, args ...any) {
	p.Findings = append(p.Findings, finding.Of(p.ID, offset, format, args...))
}
