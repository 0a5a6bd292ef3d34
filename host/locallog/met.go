package locallog

import (
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
)

// met is where findings of one partition go that reads meet after it was opened.
type met struct {
	id     abi.TopicIDPartition
	report *atomic.Pointer[func(finding.Finding)] // of the Dir and its later views
	opens  *Log                                   // that is opened at this moment, and has them as its own; nil: it is open
}

// repaired reports something of a file that is wrong, and is repaired in memory.
func (m *met) repaired(path string, offset int64, format string, args ...any) {
	m.tell(true, path, offset, format, args...)
}

// tell reports something of a file that is wrong.
func (m *met) tell(repaired bool, path string, offset int64, format string, args ...any) {
	if m.opens != nil {
		m.opens.note(path, format, args...)
		m.opens.Findings[len(m.opens.Findings)-1].Repaired = repaired
		return
	}
	report := m.report.Load()
	if report == nil {
		return
	}
	f := finding.Of(m.id, offset, format, args...)
	f.Path, f.Repaired = path, repaired
	(*report)(f)
}

// Report has fn called with what reads meet that is wrong and no reason to fail, by whoever reads. It holds for later views
// (Look) too.
func (d *Dir) Report(fn func(finding.Finding)) { d.report.Store(&fn) }
