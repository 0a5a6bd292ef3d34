package rlmm

import (
	"errors"
	"fmt"
	"slices"
)

// maxProblems bounds how many problems a Report names; more are counted.
const maxProblems = 100

// Report says what a source held, or what one look at it found.
type Report struct {
	Partitions int // of the metadata topic
	Records    int
	Applied    int
	Dropped    int       // events that Kafka would drop as well
	Problems   []Problem // the first hundred: of a look those that are new, in total those that stand
	Mended     []Problem // of a look: those that stood before it and do not any more
	Reloaded   bool      // all was read again into another Store
}

// Problem is one thing that is wrong or missing.
type Problem struct {
	Path     string
	Offset   int64 // of the record or the first one that is concerned, -1: not known
	What     error
	Repaired bool // what is read is right all the same, such as without an event that Kafka drops as well
}

func (p Problem) String() string {
	if p.Offset < 0 {
		return fmt.Sprintf("%s: %v", p.Path, p.What)
	}
	return fmt.Sprintf("%s, offset %d: %v", p.Path, p.Offset, p.What)
}

func problem(path string, offset int64, format string, args ...any) Problem {
	return Problem{Path: path, Offset: offset, What: fmt.Errorf(format, args...)}
}

// repaired is p, of what costs nothing.
func (p Problem) repaired() Problem {
	p.Repaired = true
	return p
}

// count takes in what another look read.
func (r *Report) count(o *Report) {
	r.Partitions, r.Records, r.Applied, r.Dropped = o.Partitions, r.Records+o.Records, r.Applied+o.Applied, r.Dropped+o.Dropped
}

// compare sets what is new and what is mended from what stood and what stands.
func (r *Report) compare(was, is []Problem) {
	r.Problems, r.Mended = without(is, was), without(was, is)
}

// without gives those of all that are not in others.
func without(all, others []Problem) (rest []Problem) {
	known := map[string]bool{}
	for _, p := range others {
		known[p.String()] = true
	}
	for _, p := range all {
		if !known[p.String()] {
			rest = append(rest, p)
		}
	}
	return rest
}

// Whole reports that nothing is known to be missing.
func (r *Report) Whole() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return !p.Repaired })
}

// recordProblem is what is wrong with a record.
func recordProblem(path string, offset int64, err error) Problem {
	return Problem{Path: path, Offset: offset, What: err, Repaired: errors.As(err, new(dropped))}
}

// stretch names the offsets from first to last, both inclusive, with a verb.
func stretch(first, last int64, one, more string) string {
	if first == last {
		return fmt.Sprintf("offset %d %s", first, one)
	}
	return fmt.Sprintf("offsets %d to %d %s", first, last, more)
}
