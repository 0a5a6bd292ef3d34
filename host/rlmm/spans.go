package rlmm

import (
	"slices"
	"sort"
)

// span is what one segment holds of one leader epoch, or of the partition: offsets start to end, both inclusive.
type span struct {
	start, end int64
	rec        *record
}

// chunkSize and groupSize bound what a search has to walk: at 1,000,000 spans it is the 123 groups, the ends of 64 chunks
// in one of them, and 128 spans in one of those. 128 spans also fill one of Go's size classes (3,072 bytes) without a rest.
const (
	chunkSize = 128
	groupSize = 64
)

// spans is a list by start, of equal starts in the order of insertion, cut into chunks:
//
//	starts   0           50              900      the first start of each chunk
//	ends     70          2000            950      the greatest end in each chunk
//	chunks  [0-9 10-70] [50-99 60-2000] [900-950]
//	groups   2000                                 the greatest end in groupSize chunks
//
// To search takes time in the order of the cube root of the length at most, also where segments lie inside each other, and
// of its logarithm where the nearest segment holds the offset; to insert and to remove a chunk moves the list of chunks,
// and happens once in many insertions. The zero value is empty.
type spans struct {
	starts []int64
	ends   []int64
	groups []int64
	chunks [][]span // none is empty
}

// after is the place behind all spans that begin at or below start: chunk c, and in it i. Where there is one chunk alone,
// only that is looked at. The list must not be empty.
func (s *spans) after(start int64) (c, i int) {
	later := s.starts[1:]
	c = sort.Search(len(later), func(c int) bool { return later[c] > start })
	chunk := s.chunks[c]
	return c, sort.Search(len(chunk), func(i int) bool { return chunk[i].start > start })
}

// from is the place of the first span that begins at or above start; c is the number of chunks where there is none.
func (s *spans) from(start int64) (c, i int) {
	c = sort.Search(len(s.starts), func(c int) bool { return s.starts[c] >= start })
	if c == 0 {
		return 0, 0
	}
	chunk := s.chunks[c-1]
	if i = sort.Search(len(chunk), func(i int) bool { return chunk[i].start >= start }); i < len(chunk) {
		return c - 1, i
	}
	return c, 0
}

// holding finds, of the spans that hold offset, the one that begins nearest to it; of equal ones the last inserted.
func (s *spans) holding(offset int64) *record {
	if len(s.chunks) == 0 {
		return nil
	}
	c, i := s.after(offset)
	if r := reaching(s.chunks[c][:i], offset); r != nil {
		return r
	}
	for c--; c >= 0; c-- {
		if c%groupSize == groupSize-1 && s.groups[c/groupSize] < offset {
			c -= groupSize - 1 // none of the group
			continue
		}
		if s.ends[c] >= offset {
			return reaching(s.chunks[c], offset)
		}
	}
	return nil
}

// reaching is the last of spans that ends at or behind offset.
func reaching(spans []span, offset int64) *record {
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].end >= offset {
			return spans[i].rec
		}
	}
	return nil
}

// before yields the spans that begin at or below offset, the nearest first.
func (s *spans) before(offset int64) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		if len(s.chunks) == 0 {
			return
		}
		c, i := s.after(offset)
		for ; c >= 0; c-- {
			for i = min(i, len(s.chunks[c])) - 1; i >= 0; i-- {
				if !yield(s.chunks[c][i]) {
					return
				}
			}
			i = chunkSize
		}
	}
}

// at yields the spans that begin at or above start, in order.
func (s *spans) at(start int64) func(yield func(span) bool) {
	return func(yield func(span) bool) {
		for c, i := s.from(start); c < len(s.chunks); c, i = c+1, 0 {
			for _, x := range s.chunks[c][i:] {
				if !yield(x) {
					return
				}
			}
		}
	}
}

func (s *spans) insert(x span) {
	if len(s.chunks) == 0 {
		s.insertChunk(0, []span{x})
		return
	}
	c, i := s.after(x.start)
	if len(s.chunks[c]) == chunkSize {
		if c == len(s.chunks)-1 && i == chunkSize { // in order, as segments are copied: chunks stay full
			s.insertChunk(c+1, []span{x})
			return
		}
		s.split(c)
		if i > chunkSize/2 {
			c, i = c+1, i-chunkSize/2
		}
	}
	s.chunks[c] = slices.Insert(s.chunks[c], i, x)
	s.starts[c], s.ends[c] = s.chunks[c][0].start, max(s.ends[c], x.end)
	s.groups[c/groupSize] = max(s.groups[c/groupSize], x.end)
}

func (s *spans) insertChunk(c int, chunk []span) {
	s.chunks = slices.Insert(s.chunks, c, chunk)
	s.starts = slices.Insert(s.starts, c, chunk[0].start)
	s.ends = slices.Insert(s.ends, c, maxEnd(chunk))
	s.regroup(c)
}

// regroup works the groups out again, from that of chunk c on: the chunks behind it have moved.
func (s *spans) regroup(c int) {
	s.groups = s.groups[:min(c/groupSize, len(s.groups))]
	for ends := range slices.Chunk(s.ends[len(s.groups)*groupSize:], groupSize) {
		s.groups = append(s.groups, slices.Max(ends))
	}
}

func (s *spans) split(c int) {
	chunk := s.chunks[c]
	s.insertChunk(c+1, slices.Clone(chunk[chunkSize/2:]))
	s.setChunk(c, slices.Clone(chunk[:chunkSize/2]))
}

// setChunk replaces a chunk, and drops it when it is empty.
func (s *spans) setChunk(c int, chunk []span) {
	if len(chunk) == 0 {
		s.chunks = slices.Delete(s.chunks, c, c+1)
		s.starts = slices.Delete(s.starts, c, c+1)
		s.ends = slices.Delete(s.ends, c, c+1)
		s.regroup(c)
		return
	}
	s.chunks[c], s.starts[c], s.ends[c] = chunk, chunk[0].start, maxEnd(chunk)
	g := c / groupSize
	s.groups[g] = slices.Max(s.ends[g*groupSize : min((g+1)*groupSize, len(s.ends))])
}

func maxEnd(chunk []span) int64 {
	end := chunk[0].end
	for _, x := range chunk {
		end = max(end, x.end)
	}
	return end
}

// cut drops all spans that begin at or above start.
func (s *spans) cut(start int64) {
	c, i := s.from(start)
	if c == len(s.chunks) {
		return
	}
	clear(s.chunks[c+1:])
	s.chunks, s.starts, s.ends = s.chunks[:c+1], s.starts[:c+1], s.ends[:c+1]
	s.regroup(c)
	s.setChunk(c, slices.Delete(s.chunks[c], i, len(s.chunks[c])))
}

// remove drops the span of rec, which begins at start. It reports false where there is none.
func (s *spans) remove(start int64, rec *record) bool {
	for c, i := s.from(start); c < len(s.chunks); c, i = c+1, 0 {
		for ; i < len(s.chunks[c]); i++ {
			switch x := s.chunks[c][i]; {
			case x.start != start:
				return false
			case x.rec == rec:
				s.setChunk(c, slices.Delete(s.chunks[c], i, i+1))
				s.merge(c)
				return true
			}
		}
	}
	return false
}

// merge joins chunk c with the next when both are small, so that what a removal leaves stays dense.
func (s *spans) merge(c int) {
	if c+1 >= len(s.chunks) || len(s.chunks[c])+len(s.chunks[c+1]) > chunkSize/2 {
		return
	}
	joined := append(s.chunks[c], s.chunks[c+1]...)
	s.setChunk(c+1, nil)
	s.setChunk(c, joined)
}

// has reports whether the span of rec, which begins at start, is there.
func (s *spans) has(start int64, rec *record) bool {
	for x := range s.at(start) {
		if x.start != start {
			return false
		}
		if x.rec == rec {
			return true
		}
	}
	return false
}
