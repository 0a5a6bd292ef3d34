package locallog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// ErrHole is in the errors of reads that come to a Hole.
var ErrHole = errors.New("offsets are missing")

// Hole is offsets that the log had and of which nothing is left, and that compaction did not take.
type Hole struct {
	From, Until int64  // Until is exclusive
	Path        string // the file that is missing or ends early
	Why         string // one sentence
}

// Err is the error of a read that comes to the hole: UNAVAILABLE, since the file may come back.
func (h Hole) Err(id abi.TopicIDPartition) error {
	return abi.Errorf("read", id.String(), abi.Unavailable, "%w: %d to %d: %s: %s", ErrHole, h.From, h.Until-1, h.Path, h.Why)
}

// Finding is the hole as something that is missing.
func (h Hole) Finding(id abi.TopicIDPartition) finding.Finding {
	f := finding.Of(id, h.From, "%v up to offset %d: %s", ErrHole, h.Until-1, h.Why)
	f.Path = h.Path
	return f
}

// Hole gives the hole that offset lies in.
func (l *Log) Hole(offset int64) (Hole, bool) {
	for _, h := range l.holes {
		if h.From <= offset && offset < h.Until {
			return h, true
		}
	}
	return Hole{}, false
}

// NextHole gives the first hole that ends behind offset.
func (l *Log) NextHole(offset int64) (first Hole, ok bool) {
	for _, h := range l.holes {
		if h.Until > offset && (!ok || h.From < first.From) {
			first, ok = h, true
		}
	}
	return first, ok
}

// between gives the hole in front of the segment i or, where i is behind the last one, of the log's end, for a read that began
// at from.
func (l *Log) between(from int64, i int) (Hole, bool) {
	until := l.LogEnd
	if i < len(l.segments) {
		until = l.segments[i].Base
	}
	for _, h := range l.holes {
		if h.Until == until && from < h.Until {
			return h, true
		}
	}
	return Hole{}, false
}

// findHoles holds the end of each segment but the last against the begin of the next.
func (l *Log) findHoles(cleaned bool) error {
	if len(l.segments) == 0 {
		return nil
	}
	if base := l.FirstBase(); base > max(l.logStart, 0) {
		if lost, ok := l.orphan(l.logStart, base); ok {
			l.holes = append(l.holes, l.lost(lost, lost.base, base))
		}
	}
	for i, s := range l.segments[:max(0, len(l.segments)-1)] {
		end, err := s.tail()
		switch {
		case errors.Is(err, errCut):
			l.holes = append(l.holes, Hole{From: end, Until: s.until, Path: s.path, Why: fmt.Sprint(pathless(err))})
		case abi.KindOf(err) == abi.Corrupt:
			l.note(s.path, "%v", pathless(err))
		case err == nil:
			err = l.hole(i, end, cleaned)
		}
		if err = ignoreCorrupt(err); err != nil {
			return err
		}
	}
	return nil
}

// noteLateBegin holds the first batch of the last segment against the file's name: nothing is left out in front of it, but for a
// segment that compaction went over.
func (l *Log) noteLateBegin(cleaned bool) error {
	if len(l.segments) == 0 {
		l.note(l.Path, "it holds no segment, and a broker keeps one at least")
		return nil
	}
	s := l.segments[len(l.segments)-1]
	h, ok := s.headerAt(0)
	if !ok || cleaned || h.Magic < 2 || h.BaseOffset <= s.Base {
		return nil
	}
	inner, err := s.gapsFrom(h.BaseOffset)
	if err == nil && !inner {
		l.note(s.path, "its first batch begins with offset %d, and its name says %d", h.BaseOffset, s.Base)
	}
	return err
}

// hole notes that the batches of segment i end at end (exclusive), where the next one does not begin there.
func (l *Log) hole(i int, end int64, cleaned bool) error {
	s := l.segments[i]
	if end >= s.until {
		return nil
	}
	lost, ok := l.orphan(end, s.until)
	known, err := s.indexedBehind(end)
	if err != nil {
		return err
	}
	if !ok && !known {
		compacted, err := l.compacted(i, cleaned)
		if compacted || err != nil {
			return err
		}
	}
	h := Hole{From: end, Until: s.until, Path: s.path}
	switch {
	case ok:
		h = l.lost(lost, end, s.until)
	case s.Size == 0:
		h.Why = fmt.Sprintf("it is empty, and the next segment begins at offset %d", s.until)
	default:
		h.Why = fmt.Sprintf("it ends with offset %d, and the next segment begins at %d", end-1, s.until)
	}
	l.holes = append(l.holes, h)
	return nil
}

// lost is the hole of a segment that is gone.
func (l *Log) lost(b beside, from, until int64) Hole {
	return Hole{From: from, Until: until, Path: filepath.Join(l.Path, format.SegmentFileName(b.base, ".log")),
		Why: fmt.Sprintf("it is not there, and %s is", format.SegmentFileName(b.base, b.ext))}
}

// beside is a file that belongs to a segment.
type beside struct {
	base int64
	ext  string
}

// orphan gives the first index without a segment in a range of offsets: one that was deleted, by retention or by compaction,
// takes its indexes with it.
func (l *Log) orphan(from, until int64) (beside, bool) {
	for _, b := range l.indexes {
		if b.base >= from && b.base < until {
			if _, there := slices.BinarySearchFunc(l.segments, b.base, byBase); !there && l.stays(b) {
				return b, true
			}
		}
	}
	return beside{}, false
}

// stays reports an index that is still there without its segment: a broker that deletes or makes a segment gets to it at once.
func (l *Log) stays(b beside) bool {
	_, err := os.Lstat(filepath.Join(l.Path, format.SegmentFileName(b.base, b.ext)))
	_, gone := os.Lstat(filepath.Join(l.Path, format.SegmentFileName(b.base, ".log")))
	return err == nil && errors.Is(gone, fs.ErrNotExist)
}

func byBase(s *Segment, base int64) int { return cmp.Compare(s.Base, base) }

// compacted reports whether compaction may have left out offsets behind segment i: the broker's cleaner went over the
// partition, or batches inside of that segment or the next leave out others.
func (l *Log) compacted(i int, cleaned bool) (bool, error) {
	if cleaned {
		return true, nil
	}
	for _, s := range l.segments[i : i+2] {
		gaps, err := s.gaps()
		if gaps || err != nil {
			return gaps, err
		}
	}
	return false, nil
}

// indexedBehind reports an entry of the index on disk that leads behind the segment's file, to a batch at or above end: the cleaner
// makes the index anew with the segment that it writes.
func (s *Segment) indexedBehind(end int64) (bool, error) {
	b, err := readAll("open segment", s.beside(".index"), maxSmall)
	if err != nil {
		return false, nil // one that can't be read tells nothing, and is made anew
	}
	x := format.OffsetIndex(b)
	if x.Check(s.Base) != nil || x.Len() == 0 {
		return false, nil
	}
	offset, pos := x.Entry(x.Len()-1, s.Base)
	return pos >= s.disk && offset >= end && offset < s.until, nil
}

// gaps reports offsets that are left out before or between the segment's batches. Batches of magic 0 and 1 tell no first
// offset, and may always leave out some.
func (s *Segment) gaps() (found bool, err error) { return s.gapsFrom(s.Base) }

// gapsFrom is gaps, where the first batch is wanted at next.
func (s *Segment) gapsFrom(next int64) (found bool, err error) {
	_, err = s.scan(0, s.Base, s.Size, func(b batchAt) bool {
		found = b.BaseOffset > next || b.Magic < 2
		next = b.LastOffset + 1
		return found
	})
	return found, ignoreCorrupt(err)
}

// tail gives the end of the segment's offsets (exclusive), from its last index entry on.
func (s *Segment) tail() (end int64, err error) {
	from := s.Base
	if x := s.Index(); x.Len() > 0 {
		from, _ = x.Entry(x.Len()-1, s.Base)
	}
	end = s.Base
	_, err = s.seek(from, func(b batchAt) bool {
		end = b.LastOffset + 1
		return false
	})
	return end, err
}

// pathless is the reason in an error, for a finding that has the path already.
func pathless(err error) error {
	if e := (*abi.Error)(nil); errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}
