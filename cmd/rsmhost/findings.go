package main

import (
	"fmt"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/finding"
)

// whole gives status 1 to a command that did what it was asked for, where something is known to be missing or wrong in the
// partitions that it read. The findings themselves are in the log, which goes to stderr. nil: nothing is.
func whole(h *host.Host, topic string, partitions []int32) error {
	return findingsError(h.Findings(), func(f finding.Finding) bool {
		for _, p := range partitions {
			if f.Concerns(topic, p) {
				return true
			}
		}
		return false
	})
}

// wholeHost is whole, of all that a host reads.
func wholeHost(h *host.Host) error {
	return findingsError(h.Findings(), func(finding.Finding) bool { return true })
}

// findingsError is an error for the findings that concern a command and are not repaired.
func findingsError(all []finding.Finding, concerns func(finding.Finding) bool) error {
	var first finding.Finding
	n := 0
	for _, f := range all {
		if f.Repaired || !concerns(f) {
			continue
		}
		if n == 0 {
			first = f
		}
		n++
	}
	switch n {
	case 0:
		return nil
	case 1:
		return statusOne{fmt.Errorf("what was read is not whole: %s", first)}
	}
	return statusOne{fmt.Errorf("what was read is not whole: %s, the first of which is %s", count(n, "finding"), first)}
}
