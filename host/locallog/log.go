package locallog

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// Log is one partition's local log.
type Log struct {
	ID            abi.TopicIDPartition // TopicID is zero where there is no partition.metadata
	Path          string
	LogEnd        int64 // exclusive; a Hole ends there where the checkpoint of high watermarks says more than there is
	HighWatermark int64 // exclusive; the checkpoint's, never above LogEnd
	LastStable    int64 // exclusive
	Lineage       epoch.Lineage
	Findings      []finding.Finding // what is wrong or missing, and what a broker would repair on start
	Err           error             // why the partition can't be read at all; nil: it can. There is nothing but ID, Path and Findings else

	logStart    int64 // of the checkpoint
	hasLogStart bool
	segments    []*Segment // by base
	snapshots   []int64    // offsets of producer snapshots, ascending
	indexes     []beside   // files beside segments
	end         int64      // exclusive end of what there is
	holes       []Hole
	open        producers // transactions that are open at LogEnd
	tail        ascent    // of the batches that were read behind an unclean end, or since
	met         *met
}

// LogStart is what the log-start-offset checkpoint says. It reports false where the partition is not in it: the log then
// starts with its first segment.
func (l *Log) LogStart() (int64, bool) { return l.logStart, l.hasLogStart }

// Segments gives the segments by base offset; it must not be changed. It may be empty.
func (l *Log) Segments() []*Segment { return l.segments }

// Begin is where the local log begins: the base of the first segment, or of one before it that is missing; -1 where there is none.
func (l *Log) Begin() int64 {
	for _, h := range l.holes {
		if h.Until == l.FirstBase() || len(l.segments) == 0 {
			return h.From
		}
	}
	return l.FirstBase()
}

// FirstBase is the base offset of the first segment, -1 where there is none.
func (l *Log) FirstBase() int64 {
	if len(l.segments) == 0 {
		return -1
	}
	return l.segments[0].Base
}

func openLog(d *Dir, path, topic string, partition int32) (*Log, error) {
	l := describeLog(d, path, topic, partition)
	if err := l.list(); err != nil {
		return nil, err
	}
	for _, s := range l.segments {
		if err := s.open(); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	l.met.opens = l
	if err := l.recover(d); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.met.opens = nil
	return l, nil
}

// describeLog reads whose log lies in a directory.
func describeLog(d *Dir, path, topic string, partition int32) *Log {
	l := &Log{ID: abi.TopicIDPartition{Topic: topic, Partition: partition}, Path: path}
	l.met = &met{id: l.ID, report: d.report}
	id, _, err := readFile(path, partitionName, maxProperties, format.ParsePartitionMetadata)
	if err != nil {
		l.note(filepath.Join(path, partitionName), "%v; the topic's id is told by what else is known", pathless(err))
	}
	l.ID.TopicID = id
	return l
}

// note adds a finding about one of the log's files.
func (l *Log) note(path, format string, args ...any) {
	f := finding.Of(l.ID, finding.Unknown, format, args...)
	f.Path = path
	l.Findings = append(l.Findings, f)
}

// noteRepaired is note, of what a broker would repair on start, and what is repaired here in memory.
func (l *Log) noteRepaired(path, format string, args ...any) {
	l.note(path, format, args...)
	l.Findings[len(l.Findings)-1].Repaired = true
}

// list finds the segments and snapshots by their names.
func (l *Log) list() error {
	entries, err := os.ReadDir(l.Path)
	if err != nil {
		return abi.E("open log", l.Path, abi.FileKind(err), err)
	}
	for _, e := range entries {
		base, ext, ok := format.ParseSegmentFile(e.Name())
		if !ok {
			continue
		}
		switch ext {
		case ".log":
			l.segments = append(l.segments, newSegment(base, filepath.Join(l.Path, e.Name()), l.met))
		case ".index", ".timeindex", ".txnindex":
			l.indexes = append(l.indexes, beside{base, ext})
		case ".snapshot":
			l.snapshots = append(l.snapshots, base)
		}
	}
	sort.Slice(l.segments, func(i, j int) bool { return l.segments[i].Base < l.segments[j].Base })
	for i, s := range l.segments[:max(0, len(l.segments)-1)] {
		s.until = l.segments[i+1].Base
	}
	slices.SortFunc(l.indexes, func(a, b beside) int { return cmp.Compare(a.base, b.base) })
	sort.Slice(l.snapshots, func(i, j int) bool { return l.snapshots[i] < l.snapshots[j] })
	return nil
}

func (l *Log) close() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// recover works out the offsets as a broker does on start, and makes in memory what it would repair on disk.
func (l *Log) recover(d *Dir) error {
	l.logStart, l.hasLogStart = d.logStart[l.key()]
	l.end = max(l.logStart, 0)
	if n := len(l.segments); n > 0 {
		end, err := l.segments[n-1].recover(d.Clean)
		if err != nil {
			return err
		}
		l.tail = end.epochs
		l.end = end.offset
		if err := l.tellTorn(l.segments[n-1], end.torn); err != nil {
			return err
		}
	}
	l.LogEnd = l.end
	if err := l.rebuildIndexes(d.Clean); err != nil {
		return err
	}
	cleaned := d.cleaned(l.key())
	if err := l.findHoles(cleaned); err != nil {
		return err
	}
	if err := l.noteLateBegin(cleaned); err != nil {
		return err
	}
	open, err := l.producersAtEnd()
	if err != nil {
		return err
	}
	l.open = open
	l.readEpochs()
	l.bounds(d)
	return nil
}

func (l *Log) key() format.CheckpointKey {
	return format.CheckpointKey{Topic: l.ID.Topic, Partition: l.ID.Partition}
}

// tellTorn notes bytes behind the end of s that are no batch, unless they are what a broker with log.preallocate has not written
// yet, or a batch that it writes at this moment.
func (l *Log) tellTorn(s *Segment, torn error) error {
	if torn == nil {
		return nil
	}
	if st, err := s.file.Stat(); err == nil && st.Size() > s.disk { // the next look reads on
		return nil
	}
	unwritten, err := s.unwritten()
	if err == nil && !unwritten {
		l.noteRepaired(s.path, "torn at byte %d: %v; what follows is left out", s.Size, torn)
	}
	return err
}

// StableBelow is the last stable offset where the high watermark is hw.
func (l *Log) StableBelow(hw int64) int64 { return min(l.open.first(hw), hw) }
