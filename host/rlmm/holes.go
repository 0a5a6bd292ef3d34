package rlmm

import "github.com/rsmhost/rsmhost/host/epoch"

// Hole is a stretch of offsets, From inclusive and To exclusive, that no lookup finds.
type Hole struct{ From, To int64 }

// String names the offsets, with a verb: "offsets 10 to 19 are".
func (h Hole) String() string { return stretch(h.From, h.To-1, "is", "are") }

// Holes lists what no finished segment of the lineage holds of the offsets from inclusive to exclusive, ascending. It takes
// time in the order of the number of segments.
func (p *Partition) Holes(l epoch.Lineage, from, to int64) (holes []Hole) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	entries := l.Entries()
	next := from
	for i, le := range entries {
		end := to
		if i+1 < len(entries) {
			end = min(to, entries[i+1].StartOffset)
		}
		start := max(from, le.StartOffset)
		if start >= end {
			continue
		}
		if start > next {
			holes = append(holes, Hole{next, start})
		}
		next = end
		if e := p.epochs.find(le.Epoch); e != nil {
			holes = e.finished.holes(holes, start, end)
		} else {
			holes = append(holes, Hole{start, end})
		}
	}
	if next < to {
		holes = append(holes, Hole{next, to})
	}
	return joined(holes)
}

// holes appends what no span holds of the offsets from inclusive to exclusive.
func (s *spans) holes(holes []Hole, from, to int64) []Hole {
	for _, chunk := range s.chunks {
		for _, x := range chunk {
			if x.start >= to {
				break
			}
			if x.start > from {
				holes = append(holes, Hole{from, x.start})
			}
			if from = max(from, x.end+1); from >= to {
				return holes
			}
		}
	}
	if from < to {
		holes = append(holes, Hole{from, to})
	}
	return holes
}

// joined makes one of holes that follow each other.
func joined(holes []Hole) (out []Hole) {
	for _, h := range holes {
		if n := len(out); n > 0 && out[n-1].To == h.From {
			out[n-1].To = h.To
			continue
		}
		out = append(out, h)
	}
	return out
}

// Version changes with each event that is applied.
func (p *Partition) Version() int64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.version
}
