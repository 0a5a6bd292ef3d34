package rlmm

// Holding lists what is not yet deleted and holds offset, in any state and of any leader epoch, by start offset.
func (p *Partition) Holding(offset int64) []*Segment {
	var out []*Segment
	for _, r := range p.holding(offset) {
		out = append(out, p.segment(r))
	}
	return out
}

func (p *Partition) holding(offset int64) (out []*record) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for c, chunk := range p.order.chunks {
		if p.order.starts[c] > offset {
			break
		}
		if p.order.ends[c] < offset {
			continue
		}
		for _, x := range chunk {
			if x.start <= offset && offset <= x.end {
				out = append(out, x.rec)
			}
		}
	}
	return out
}
