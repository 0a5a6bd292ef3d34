package locallog

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/rsmhost/rsmhost/host/format"
)

// clusterMetadata is KRaft's own log, of which no checkpoint has the high watermark.
const clusterMetadata = "__cluster_metadata"

// bounds works out what a reader may see from the checkpoints and the open transactions.
func (l *Log) bounds(d *Dir) {
	l.logStart, l.hasLogStart = d.logStart[l.key()]
	hw, known := d.highWatermark[l.key()]
	l.LogEnd = l.end
	if known && hw > l.end {
		h := Hole{From: l.end, Until: hw, Path: l.lastPath(), Why: fmt.Sprintf("the log ends there, and its high watermark is %d", hw)}
		if b, ok := l.orphan(l.end, math.MaxInt64); ok {
			h = l.lost(b, l.end, hw)
		}
		l.holes = append(l.holes, h)
		l.LogEnd = hw
	} else {
		l.contradict(d)
	}
	switch {
	case known:
		l.HighWatermark = hw
	case d.committed || l.ID.Topic == clusterMetadata:
		l.HighWatermark = l.LogEnd
	default:
		l.unmarked(d)
	}
	if l.hasLogStart && l.logStart > l.LogEnd && len(l.segments) > 0 {
		l.note(filepath.Join(d.Path, logStartName), "it says that the log starts at %d, and the log ends at %d; not taken", l.logStart, l.LogEnd)
		l.logStart, l.hasLogStart = 0, false
	}
	l.LastStable = l.StableBelow(l.HighWatermark)
	for _, h := range l.holes {
		if h.Until > l.logStart {
			l.Findings = append(l.Findings, h.Finding(l.ID))
		}
	}
}

// unmarked is a log without a high watermark: as for a broker, nothing is known to be committed of what is not known to have
// been copied or deleted.
func (l *Log) unmarked(d *Dir) {
	l.HighWatermark = min(max(l.logStart, l.Begin(), 0), l.LogEnd)
	if d.told || l.HighWatermark == l.LogEnd {
		return
	}
	path := filepath.Join(d.Path, highWatermarkName)
	const what = "it has no high watermark of the partition; what is not known to be committed is not shown"
	if d.Clean {
		l.note(path, what)
	} else { // one that is younger than the checkpoint, which is written every five seconds
		l.noteRepaired(path, what)
	}
}

// contradict notes what says that the log went on behind its end, where no high watermark does: whether readers had seen that
// is not known.
func (l *Log) contradict(d *Dir) {
	if b, ok := l.orphan(l.end, math.MaxInt64); ok {
		h := l.lost(b, l.end, l.end)
		l.note(h.Path, "%s; what it held is missing", h.Why)
		return
	}
	const what = "it says that the log went on to offset %d, and it ends at %d"
	if to, ok := d.recoveryPoint[l.key()]; ok && to > l.end {
		l.note(filepath.Join(d.Path, recoveryPointName), what, to, l.end)
		return
	}
	if n := len(l.snapshots); n > 0 && l.snapshots[n-1] > l.end {
		l.note(filepath.Join(l.Path, format.SegmentFileName(l.snapshots[n-1], ".snapshot")), what, l.snapshots[n-1], l.end)
		return
	}
	if es := l.Lineage.Entries(); len(es) > 0 && es[len(es)-1].StartOffset > l.end {
		l.note(filepath.Join(l.Path, epochsName), what, es[len(es)-1].StartOffset, l.end)
	}
}

// lastPath is the last segment's file, or the directory where there is none.
func (l *Log) lastPath() string {
	if n := len(l.segments); n > 0 {
		return l.segments[n-1].path
	}
	return l.Path
}
