package format

// ProducerTail is what producers wrote in the batches before an offset, as far as these were looked at. A producer snapshot of that
// offset knows of it. The zero value has seen nothing.
type ProducerTail struct{ last map[int64]lastWrite }

// lastWrite is what a producer wrote last.
type lastWrite struct {
	data  int64 // last offset of its last batch; -1: that is a marker
	first int64 // where its transaction begins that has no marker, as far as that was seen; -1: it has none
}

// Add takes in the next batch.
func (p *ProducerTail) Add(h *BatchHeader) {
	if h.ProducerID < 0 {
		return
	}
	if p.last == nil {
		p.last = map[int64]lastWrite{}
	}
	was, known := p.last[h.ProducerID]
	switch {
	case h.IsControl():
		p.last[h.ProducerID] = lastWrite{-1, -1}
	case h.IsTransactional() && known && was.first >= 0:
		p.last[h.ProducerID] = lastWrite{h.LastOffset, was.first}
	case h.IsTransactional():
		p.last[h.ProducerID] = lastWrite{h.LastOffset, h.BaseOffset}
	default:
		p.last[h.ProducerID] = lastWrite{h.LastOffset, -1}
	}
}

// Check tells whether a producer snapshot can be that of offset, before which the batches lie; it is CORRUPT where it is another's:
// it knows of what lies behind, or not of what a producer wrote last. A producer that it does not have may have expired, but for one
// in a transaction.
func (p *ProducerTail) Check(states []ProducerState, offset int64) error {
	const what = "producer snapshot"
	known := map[int64]bool{}
	for _, s := range states {
		known[s.ProducerID] = true
		if at := max(s.LastOffset, s.CurrentTxnFirstOffset); at >= offset {
			return corrupt(what, "it tells of producer %d at offset %d, and is one of offset %d", s.ProducerID, at, offset)
		}
		w, seen := p.last[s.ProducerID]
		switch {
		case !seen:
		case w.data >= 0 && s.LastOffset < w.data:
			return corrupt(what, "it has producer %d up to offset %d, which wrote up to %d", s.ProducerID, s.LastOffset, w.data)
		case w.first < 0 && s.CurrentTxnFirstOffset >= 0:
			return corrupt(what, "it has producer %d in a transaction from offset %d on, which has ended", s.ProducerID, s.CurrentTxnFirstOffset)
		case w.first >= 0 && (s.CurrentTxnFirstOffset < 0 || s.CurrentTxnFirstOffset > w.first):
			return corrupt(what, "it does not have the transaction of producer %d that is open from offset %d on", s.ProducerID, w.first)
		}
	}
	for producer, w := range p.last {
		if w.first >= 0 && !known[producer] {
			return corrupt(what, "it does not have the transaction of producer %d that is open from offset %d on", producer, w.first)
		}
	}
	return nil
}
