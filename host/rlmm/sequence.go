package rlmm

import "github.com/rsmhost/rsmhost/host/format"

// sequence follows the offsets of a file's batches. No CRC covers a base offset; what bears it out is that batches of a
// topic that is not compacted follow each other without a gap.
type sequence struct {
	next  int64 // that the next batch begins with
	doubt *doubt
}

// doubt is a batch that does not begin where the one before it ends: either its base offset is wrong, or it is right and
// others are missing before it or come twice. What follows tells.
type doubt struct {
	pos  int64 // of the batch in the file
	says int64 // its base offset
	want int64 // the offset that comes next
	end  int64 // behind the batch, if it is right
}

// take goes on with a batch, and gives what it settles of the one before.
func (s *sequence) take(path string, h *format.BatchHeader, pos int64) (settled []Problem) {
	if d := s.doubt; d != nil {
		settled = append(settled, s.settle(path, h.BaseOffset))
	}
	end := h.LastOffset + 1
	if h.BaseOffset != s.next {
		s.doubt = &doubt{pos, h.BaseOffset, s.next, end}
		end = s.next + end - h.BaseOffset
	}
	s.next = end
	return settled
}

// settle ends the doubt, where what follows it begins with offset.
func (s *sequence) settle(path string, offset int64) Problem {
	d := s.doubt
	s.doubt = nil
	switch {
	case offset == s.next:
		return problem(path, d.want, "the batch at byte %d has the base offset %d, and by what is around it, it is %d", d.pos, d.says, d.want).repaired()
	case offset != d.end:
		return d.problem(path)
	}
	s.next = offset
	if d.says < d.want {
		return problem(path, d.says, "the batch at byte %d goes back to offset %d from %d", d.pos, d.says, d.want)
	}
	return problem(path, d.want, "%s missing before byte %d", stretch(d.want, d.says-1, "is", "are"), d.pos)
}

// problem is a doubt that nothing settles.
func (d *doubt) problem(path string) Problem {
	return problem(path, d.want, "the batch at byte %d has the base offset %d, and the one before it ends before %d: one of them is wrong, or others are missing",
		d.pos, d.says, d.want)
}
