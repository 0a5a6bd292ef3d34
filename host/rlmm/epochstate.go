package rlmm

import (
	"slices"
	"sort"
)

// span is what one finished segment holds of one leader epoch: offsets start to end, both inclusive.
type span struct {
	start, end  int64
	seg         *Segment
	overwritten bool // another began at start since: Kafka's map has room for one
}

// epochState is what is known of one leader epoch of a partition: the finished segments by start offset.
//
// Kafka's own structure is a map by start offset. It loses offsets where a later segment lies inside an earlier one, or
// begins with it and ends before it; here both stay, and a lookup that finds the nearer one too short looks further
// down.
type epochState struct {
	spans   []span // ascending by start, then in the order in which they finished
	highest int64  // highest end that ever finished; never falls; -1: none
}

// finished adds a segment. Those that it covers whole are superseded, as in Kafka, if they begin at or after it.
func (e *epochState) finished(start, end int64, seg *Segment) {
	if n := len(e.spans); n > 0 && e.highest <= end {
		i := sort.Search(n, func(i int) bool { return e.spans[i].start >= start })
		e.spans = slices.Delete(e.spans, i, n)
	}
	i := sort.Search(len(e.spans), func(i int) bool { return e.spans[i].start > start })
	for j := i - 1; j >= 0 && e.spans[j].start == start; j-- {
		e.spans[j].overwritten = true
	}
	e.spans = slices.Insert(e.spans, i, span{start: start, end: end, seg: seg})
	e.highest = max(e.highest, end)
}

// removed takes a segment out: its deletion began.
func (e *epochState) removed(seg *Segment) {
	e.spans = slices.DeleteFunc(e.spans, func(s span) bool { return s.seg == seg })
}

// lookup finds the segment that holds offset: the one that begins nearest below it, among those that reach it.
func (e *epochState) lookup(offset int64) *Segment {
	i := sort.Search(len(e.spans), func(i int) bool { return e.spans[i].start > offset })
	for i--; i >= 0; i-- {
		if e.spans[i].end >= offset {
			return e.spans[i].seg
		}
	}
	return nil
}

// kafkaLookup is lookup as Kafka does it: the segment that begins nearest below offset, or none.
func (e *epochState) kafkaLookup(offset int64) *Segment {
	i := sort.Search(len(e.spans), func(i int) bool { return e.spans[i].start > offset }) - 1
	for i >= 0 && e.spans[i].overwritten {
		i--
	}
	if i < 0 || e.spans[i].end < offset {
		return nil
	}
	return e.spans[i].seg
}
