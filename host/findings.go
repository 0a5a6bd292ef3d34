package host

import (
	"slices"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// Findings is all that is known now to be wrong or missing in what this Host reads: what the last look at the metadata and
// the log directories found, what the two say of each other, and what reads met, in this order. It is safe for concurrent use.
func (h *Host) Findings() []finding.Finding {
	h.looking.Lock()
	all := h.standingLocked()
	h.looking.Unlock()
	met, _ := h.met.All()
	for _, f := range met {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// standingLocked is the findings of the last look; looking is held.
func (h *Host) standingLocked() []finding.Finding {
	var all []finding.Finding
	if h.meta != nil {
		total := h.meta.Total()
		for _, p := range total.Problems {
			all = append(all, problemFinding(p))
		}
	}
	c := h.catalog.Load()
	for _, d := range h.dirs {
		for _, f := range logFindings(d, nil) {
			if c.tiered[f] {
				f.Repaired = true
			}
			all = append(all, f)
		}
	}
	all = append(all, missingLogs(h.dirs)...)
	return append(all, c.findings()...)
}

// findings is what the two tiers and the checkpoints say against each other.
func (c *catalog) findings() (all []finding.Finding) {
	for _, t := range c.list() {
		all = append(all, t.Findings...)
		for _, p := range t.Partitions {
			all = append(all, p.Findings...)
		}
	}
	return all
}

// maxLogged bounds the findings of one look that are logged one by one.
const maxLogged = 100

// tellCatalogLocked logs what is new and what is no longer so in the catalog's findings; looking is held.
func (h *Host) tellCatalogLocked() {
	was, now, lines := h.standing, map[finding.Finding]bool{}, 0
	for _, f := range h.catalog.Load().findings() {
		now[f] = true
		if was[f] {
			continue
		}
		if lines++; lines <= maxLogged {
			h.tellFinding("catalog", f)
		}
	}
	for f := range was {
		if now[f] {
			continue
		}
		if lines++; lines <= maxLogged {
			h.log.Info("catalog: no longer so", "finding", f.String())
		}
	}
	if lines > maxLogged {
		h.log.Warn("catalog: more findings than are logged; rsmhost topics counts them", "more", lines-maxLogged)
	}
	h.standing = now
}

// problemFinding is a finding about a file of the metadata topic. An event that a broker would drop as well changes nothing.
func problemFinding(p rlmm.Problem) finding.Finding {
	f := finding.At(p.Path, "%v", p.What)
	f.Offset = p.Offset
	f.Repaired = p.Repaired
	return f
}

// logFindings is the findings about a log directory, without those that an older view has too.
func logFindings(d, old *locallog.Dir) []finding.Finding {
	known := map[finding.Finding]bool{}
	if old != nil {
		for _, f := range logFindings(old, nil) {
			known[f] = true
		}
	}
	var all []finding.Finding
	add := func(fs []finding.Finding) {
		for _, f := range fs {
			if !known[f] {
				all = append(all, f)
			}
		}
	}
	add(d.Findings)
	for _, l := range d.Logs() {
		add(l.Findings)
	}
	return all
}

// tellFindings logs what is wrong with a log directory, of what an older view did not have.
func (h *Host) tellFindings(d, old *locallog.Dir) {
	for _, f := range logFindings(d, old) {
		h.tellFinding("local log", f)
	}
}

func (h *Host) tellFinding(where string, f finding.Finding) {
	h.log.Warn(where, "finding", f.String(), "repaired", f.Repaired)
}

// foundByRead takes in what a read met. Each thing is logged once.
func (h *Host) foundByRead(f finding.Finding) {
	if h.met.Add(f) {
		h.tellFinding("read", f)
	}
}
