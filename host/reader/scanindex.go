package reader

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

const (
	// scanStep is the least distance between two entries of a scan index, in bytes of the segment.
	scanStep = 64 << 10
	// scanEntries bounds the entries of one: those of a larger segment lie further apart.
	scanEntries = 1024
	// scanSegments bounds how many segments have one.
	scanSegments = 256
	// faultKept is how long an index that can't be used is not asked for again. A scan takes its place meanwhile, so that
	// nothing but time depends on it.
	faultKept = time.Minute
)

// scanEntry says what an entry of an offset index says, and what one of a time index does: the batch at pos ends with offset
// last, and no batch before pos has a timestamp at or above before. before is unknownTime where that is not known.
type scanEntry struct {
	last, pos int64
	before    int64
}

// unknownTime is a scanEntry's before where the scan did not begin with the segment.
const unknownTime = int64(1<<63 - 1)

// scanIndex is what scans of one segment found: a sparse index of what they passed over, which is made as they go, so that a
// scan that its deadline ends is gone on with by the next read.
type scanIndex struct {
	entries []scanEntry // by pos
	step    int64
	faults  map[abi.IndexType]fault
	doubts  map[abi.IndexType]time.Time // until when an index is not asked for again
}

// fault is why an index of the store can't be used.
type fault struct {
	why   error
	until time.Time
}

// scanIndexes is those of all segments, in memory alone. The zero value is empty. It is safe for concurrent use; mu is a leaf.
type scanIndexes struct {
	mu   sync.Mutex
	segs map[abi.UUID]*scanIndex
}

// floor gives the last entry that ends at or below offset, which is behind pos; false: there is none.
func (s *scanIndexes) floor(seg abi.UUID, offset, pos int64) (scanEntry, bool) {
	return s.find(seg, func(e scanEntry) bool { return e.last <= offset && e.pos > pos })
}

// floorByTime gives the last entry before which no timestamp reaches ts; false: there is none.
func (s *scanIndexes) floorByTime(seg abi.UUID, ts int64) (scanEntry, bool) {
	return s.find(seg, func(e scanEntry) bool { return e.before <= ts })
}

// find gives the last entry that is fit.
func (s *scanIndexes) find(seg abi.UUID, fit func(scanEntry) bool) (scanEntry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.segs[seg]
	if !ok {
		return scanEntry{}, false
	}
	for i := len(x.entries) - 1; i >= 0; i-- {
		if fit(x.entries[i]) {
			return x.entries[i], true
		}
	}
	return scanEntry{}, false
}

// passed takes in a batch that a scan passed over.
func (s *scanIndexes) passed(seg *rlmm.Segment, e scanEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.ofLocked(seg)
	i, ok := slices.BinarySearchFunc(x.entries, e.pos, func(have scanEntry, pos int64) int { return int(have.pos - pos) })
	switch {
	case ok:
		x.entries[i].before = min(x.entries[i].before, e.before)
	case i > 0 && e.pos-x.entries[i-1].pos < x.step && x.entries[i-1].before <= e.before,
		i < len(x.entries) && x.entries[i].pos-e.pos < x.step && x.entries[i].before <= e.before,
		len(x.entries) >= 2*scanEntries:
	default:
		x.entries = slices.Insert(x.entries, i, e)
	}
}

// ofLocked gives the scan index of a segment. Another's makes room for a new one: what it had is found again.
func (s *scanIndexes) ofLocked(seg *rlmm.Segment) *scanIndex {
	x, ok := s.segs[seg.SegmentID]
	if ok {
		return x
	}
	for id := range s.segs {
		if len(s.segs) < scanSegments {
			break
		}
		delete(s.segs, id)
	}
	if s.segs == nil {
		s.segs = map[abi.UUID]*scanIndex{}
	}
	x = &scanIndex{step: max(scanStep, seg.SizeBytes/scanEntries)}
	s.segs[seg.SegmentID] = x
	return x
}

// forget drops what scans found in a segment: its bytes are others now.
func (s *scanIndexes) forget(seg abi.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.segs, seg)
}

// setFault keeps why an index can't be used, so that it is not asked for at each read.
func (s *scanIndexes) setFault(seg *rlmm.Segment, t abi.IndexType, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.ofLocked(seg)
	if x.faults == nil {
		x.faults = map[abi.IndexType]fault{}
	}
	x.faults[t] = fault{why, time.Now().Add(faultKept)}
}

// fault gives why an index can't be used now, nil where nothing is known.
func (s *scanIndexes) fault(seg abi.UUID, t abi.IndexType) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.segs[seg]
	if !ok {
		return nil
	}
	if f, ok := x.faults[t]; ok && time.Now().Before(f.until) {
		return f.why
	}
	return nil
}

// doubt reports whether an index that said what is not so is to be asked for again: not more often than faultKept.
func (s *scanIndexes) doubt(seg *rlmm.Segment, t abi.IndexType) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.ofLocked(seg)
	if time.Now().Before(x.doubts[t]) {
		return false
	}
	if x.doubts == nil {
		x.doubts = map[abi.IndexType]time.Time{}
	}
	x.doubts[t] = time.Now().Add(faultKept)
	return true
}

// unusable reports an error of an index that is no reason to fail: the segment itself tells what the index would. What
// passes, and what somebody must allow first, stays an error.
func unusable(err error) bool {
	switch abi.KindOf(err) {
	case abi.Corrupt, abi.NotFound, abi.Exhausted:
		return true
	}
	return false
}

// indexFault is the sentence of a finding about an index whose place a scan takes.
func indexFault(seg *rlmm.Segment, t abi.IndexType, why error) string {
	return fmt.Sprintf("the %s index of segment %s can't be used, and the segment is scanned instead: %v", t, seg.Key(), why)
}
