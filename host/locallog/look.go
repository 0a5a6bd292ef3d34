package locallog

import (
	"errors"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Look gives the directory as it is now, under a broker that may write, roll, delete and truncate in it: d itself where
// nothing changed, else another Dir, which shares with d the partitions and segments that did not. Of a log that grew only
// what was appended is read; one that changed otherwise is opened anew.
//
// A Dir that another took the place of is not closed: reads may hold its logs. What only it had open is closed when the
// last of them lets go of it (os.File sees to that).
//
// Errors: those of OpenDir; d stays good then.
func (d *Dir) Look() (*Dir, error) {
	next := &Dir{Path: d.Path, NodeID: -1, report: d.report}
	err := next.open(func(at, topic string, partition int32) (*Log, error) { return d.lookLog(next, at, topic, partition) })
	if err != nil {
		return nil, err
	}
	for i, l := range next.logs { // one that can't be opened for the same reason as before is the same
		if at, ok := d.at(l.ID.Topic, l.ID.Partition); ok && l.Err != nil && at.Err != nil && l.Err.Error() == at.Err.Error() {
			next.logs[i] = at
		}
	}
	if next.same(d) {
		return d, nil
	}
	return next, nil
}

// at gives the log of a partition.
func (d *Dir) at(topic string, partition int32) (*Log, bool) {
	i := slices.IndexFunc(d.logs, func(l *Log) bool { return l.ID.Topic == topic && l.ID.Partition == partition })
	if i < 0 {
		return nil, false
	}
	return d.logs[i], true
}

func (d *Dir) lookLog(next *Dir, path, topic string, partition int32) (*Log, error) {
	old, ok := d.at(topic, partition)
	if !ok || old.Err != nil {
		return openLog(next, path, topic, partition)
	}
	l, grew, err := old.grown(next)
	if err != nil {
		return nil, err
	}
	if l == nil || grew && l.ID != old.ID { // not what it was, with more behind
		return openLog(next, path, topic, partition)
	}
	return l, nil
}

// grown gives the log as it is now, if it is what it was with segments deleted in front and batches appended; nil where it
// is not. It is l itself where nothing changed.
func (l *Log) grown(d *Dir) (now *Log, grew bool, err error) {
	now = describeLog(d, l.Path, l.ID.Topic, l.ID.Partition)
	if err := now.list(); err != nil {
		return nil, false, err
	}
	longer, ok, err := now.inherit(l)
	if err != nil || !ok {
		return nil, false, err
	}
	now.open, now.end, now.tail = maps.Clone(l.open), l.end, slices.Clone(l.tail)
	now.keepHoles(l)
	if err := now.advance(longer, d.cleaned(now.key())); err != nil {
		return nil, false, err
	}
	now.readEpochs()
	now.bounds(d)
	if now.same(l) {
		return l, false, nil
	}
	return now, true, nil
}

// keepHoles takes over from an earlier view the holes between segments that are still there.
func (l *Log) keepHoles(old *Log) {
	for _, h := range old.holes {
		if h.From >= l.FirstBase() && h.Until <= old.end {
			l.holes = append(l.holes, h)
		}
	}
}

// inherit takes over from an earlier view the segments that are still there, and opens those that are new. longer are
// those with something behind what was known of them. It reports false where the two views do not fit.
func (l *Log) inherit(old *Log) (longer []*Segment, ok bool, err error) {
	if len(old.segments) == 0 || len(l.segments) == 0 {
		return nil, false, nil
	}
	last := old.segments[len(old.segments)-1]
	joined := false
	for i, s := range l.segments {
		at := slices.IndexFunc(old.segments, func(o *Segment) bool { return o.Base == s.Base })
		switch {
		case at < 0 && s.Base < last.Base: // there was none here
			return nil, false, nil
		case at < 0:
			if err := s.open(); err != nil {
				return nil, false, err
			}
			s.Size, s.index, s.txns = 0, nil, nil // all of it is behind the old end
		default:
			until := s.until
			if l.segments[i], ok, err = old.segments[at].again(until); err != nil || !ok {
				return nil, false, err
			}
		}
		joined = joined || s.Base == last.Base
		if at < 0 || l.segments[i] != old.segments[at] {
			longer = append(longer, l.segments[i])
		}
	}
	return longer, joined, nil
}

// again gives a segment as it is now, of offsets that end at until: itself where nothing was written behind its end, a copy where
// something was. It reports false where it is shorter, or what was its last batch is another.
func (s *Segment) again(until int64) (*Segment, bool, error) {
	st, err := os.Stat(s.path)
	if err != nil {
		return nil, false, abi.E("open segment", s.path, abi.FileKind(err), err)
	}
	held, err := s.file.Stat()
	if err != nil {
		return nil, false, abi.E("open segment", s.path, abi.FileKind(err), err)
	}
	if st.Size() < s.Size || !os.SameFile(st, held) || !s.ends() {
		return nil, false, nil
	}
	if st.Size() == s.disk && until == s.until && !s.filled() {
		return s, true, nil
	}
	now := *s
	now.disk, now.until = st.Size(), until
	now.index, now.txns = slices.Clone(s.Index()), slices.Clone(s.txns)
	now.made = new(atomic.Pointer[format.OffsetIndex])
	return &now, true, nil
}

// ends reports that the last batch is still what it was: a follower that cuts its log appends others.
func (s *Segment) ends() bool {
	if s.last.Length == 0 {
		return true
	}
	h, ok := s.headerAt(s.last.Pos)
	return ok && h == s.last.BatchHeader
}

// filled reports a batch behind the segment's end, in a file of the same size: a broker with log.preallocate makes it as large
// as it may become, and writes into it.
func (s *Segment) filled() bool {
	if s.Size == s.disk {
		return false
	}
	file := *s
	file.Size = s.disk
	h, ok := file.headerAt(s.Size)
	return ok && file.Verify(&h, s.Size) == nil
}

// advance reads what was appended. It makes the indexes of it as it goes, checks each batch, and ends at a torn one: that is
// written at this moment, or will never be.
func (l *Log) advance(longer []*Segment, cleaned bool) error {
	for _, s := range longer {
		if i, _ := slices.BinarySearchFunc(l.segments, s.Base, byBase); i > 0 && s.Size == 0 {
			if err := l.hole(i-1, max(l.end, l.segments[i-1].Base), cleaned); err != nil {
				return err
			}
		}
		torn, err := l.append(s)
		if err != nil {
			return err
		}
		if torn != nil {
			return l.tellTorn(s, torn)
		}
	}
	return nil
}

// append takes in what lies behind s.Size.
func (l *Log) append(s *Segment) (torn, err error) {
	l.end = max(l.end, s.Base) // the segment before may end in compacted offsets
	end, next := s.Size, s.Base
	if end > 0 {
		next = l.end
	}
	since := end - s.lastIndexed()
	s.Size = s.disk
	var bad error
	stop, err := s.scan(end, next, s.Size, func(at batchAt) bool {
		b := &Batch{at.BatchHeader, s, at.Pos}
		if bad = s.Verify(&at.BatchHeader, at.Pos); bad != nil {
			return true
		}
		if since > indexInterval {
			s.index = format.AppendOffsetEntry(s.index, s.Base, b.LastOffset, b.Pos)
			since = 0
		}
		since += b.Size()
		aborted, ok, err := l.open.apply(b)
		if bad = err; bad != nil {
			return true
		}
		if ok {
			s.txns = format.AppendAborted(s.txns, aborted)
		}
		l.end = b.LastOffset + 1
		s.last = at
		l.tail.add(&b.BatchHeader)
		return false
	})
	s.Size = stop
	err = errors.Join(bad, err)
	if err != nil && abi.KindOf(err) == abi.Corrupt {
		return err, nil
	}
	return nil, err
}

// lastIndexed is the position of the last batch that has an entry in the offset index.
func (s *Segment) lastIndexed() int64 {
	if n := s.index.Len(); n > 0 {
		_, pos := s.index.Entry(n-1, s.Base)
		return pos
	}
	return 0
}

// same reports two views that tell readers the same.
func (l *Log) same(o *Log) bool {
	return l.ID == o.ID && l.LogEnd == o.LogEnd && l.HighWatermark == o.HighWatermark && l.LastStable == o.LastStable &&
		l.logStart == o.logStart && l.hasLogStart == o.hasLogStart && slices.Equal(l.segments, o.segments) &&
		slices.Equal(l.Lineage.Entries(), o.Lineage.Entries()) && slices.Equal(l.holes, o.holes)
}
