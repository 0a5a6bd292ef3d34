package rlmm

import (
	"cmp"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
)

// WithinLineage reports whether a segment belongs to the log that the lineage tells of: it ends below the log end, and
// its epochs are those of the lineage, one after another, from the first that the lineage still knows (KAFKA-16511,
// KAFKA-16890). A segment that a fenced leader uploaded does not.
func WithinLineage(s *abi.SegmentMetadata, l epoch.Lineage, logEnd int64) bool {
	cache := l.Entries() // starts differ: of epochs with the same one, the highest is left
	own := filtered(s.LeaderEpochs)
	if len(cache) == 0 || len(own) == 0 || s.EndOffset >= logEnd {
		return false
	}
	last := s.LeaderEpochs[len(s.LeaderEpochs)-1].Epoch
	if last < cache[0].Epoch || last > cache[len(cache)-1].Epoch {
		return false
	}
	first := slices.IndexFunc(own, func(e abi.LeaderEpoch) bool { return e.Epoch >= cache[0].Epoch })
	if first < 0 {
		return false
	}
	for i := first; i < len(own); i++ {
		at, ok := slices.BinarySearchFunc(cache, own[i].Epoch, func(e abi.LeaderEpoch, epoch int32) int { return cmp.Compare(e.Epoch, epoch) })
		if !ok || i == first && at > 0 && own[i].StartOffset < cache[at].StartOffset {
			return false
		}
		if !follows(own, cache, i, at, s.EndOffset) {
			return false
		}
	}
	return true
}

// Shared is the exclusive end of the stretch from offset on in which a segment and the lineage have the same leader epochs:
// the segment's end, or where it goes on with what a leader wrote that had been fenced. The two agree at offset.
func Shared(s *abi.SegmentMetadata, l epoch.Lineage, offset int64) int64 {
	end := s.EndOffset + 1
	own := epoch.Of(s.LeaderEpochs)
	for _, starts := range [][]abi.LeaderEpoch{own.From(offset), l.From(offset)} {
		for _, e := range starts {
			if e.StartOffset >= end { // a lineage may go on for long behind the segment
				break
			}
			a, _ := own.ForOffset(e.StartOffset)
			b, _ := l.ForOffset(e.StartOffset)
			if e.StartOffset > offset && a.Epoch != b.Epoch {
				end = min(end, e.StartOffset)
			}
		}
	}
	return end
}

// follows checks what comes behind own[i] = cache[at]: the same epoch in both, or the end of the segment before the next
// epoch begins.
func follows(own, cache []abi.LeaderEpoch, i, at int, end int64) bool {
	more := at+1 < len(cache)
	if i+1 < len(own) {
		return more && own[i+1] == cache[at+1]
	}
	return !more || end < cache[at+1].StartOffset
}

// filtered keeps of epochs with the same start the highest: the others wrote nothing.
func filtered(entries []abi.LeaderEpoch) []abi.LeaderEpoch {
	var out []abi.LeaderEpoch
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].StartOffset == e.StartOffset {
			out = out[:n-1]
		}
		out = append(out, e)
	}
	return out
}

// HighestInLineage is the highest offset in the remote tier, inclusive, as far as it belongs to the lineage: what an unclean
// election cut off does not count. epoch.Undefined and -1 where there is none.
func (p *Partition) HighestInLineage(l epoch.Lineage, logEnd int64) (int32, int64) {
	entries := l.Entries()
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i].Epoch
		h, ok := p.HighestOffset(e)
		if !ok {
			continue
		}
		if _, end, ok := l.EndOffset(e, logEnd); ok && end <= h {
			h = end - 1
		}
		return e, h
	}
	return epoch.Undefined, -1
}

// LogStartInLineage is where the log begins by what the remote tier has of the lineage: the start of the first finished
// segment of the earliest epoch that has one. It reports false where none has. Kafka also takes segments whose copy failed
// or whose deletion began, from which nothing can be read.
func (p *Partition) LogStartInLineage(l epoch.Lineage) (int64, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, le := range l.Entries() {
		if e := p.epochs.find(le.Epoch); e != nil && len(e.finished.chunks) > 0 {
			return e.finished.chunks[0][0].rec.start, true
		}
	}
	return 0, false
}
