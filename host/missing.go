package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locallog"
)

// missingLogs is the partitions that a log directory's checkpoint knows, and that lie in none of the directories: who
// reads what is left would take them for partitions that never were, or that the remote tier alone holds. Deleted ones leave the
// checkpoint within seconds. Topics of the broker's own may be kept elsewhere.
func missingLogs(dirs []*locallog.Dir) (all []finding.Finding) {
	there := map[string]bool{}
	for _, d := range dirs {
		for _, l := range d.Logs() {
			there[partitionName(l.ID.Topic, l.ID.Partition)] = true
		}
	}
	for _, d := range dirs {
		for _, c := range d.Checkpointed() {
			name := partitionName(c.Topic, c.Partition)
			if there[name] || strings.HasPrefix(c.Topic, "__") || setAside(dirs, name) {
				continue
			}
			all = append(all, finding.Finding{Topic: c.Topic, Partition: c.Partition, Path: filepath.Join(d.Path, name), Offset: finding.Unknown,
				What: "it holds no log, and the checkpoint of high watermarks says that its " + records(c.HighWatermark)})
		}
	}
	return all
}

func records(highWatermark int64) string {
	if highWatermark <= 0 {
		return "log is there, without a record"
	}
	return fmt.Sprintf("records go up to offset %d", highWatermark-1)
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// tellMissing logs the partitions that are missing, without those that were before.
func (h *Host) tellMissing(before []finding.Finding) {
	for _, f := range missingLogs(h.dirs) {
		if !slices.Contains(before, f) {
			h.tellFinding("local log", f)
		}
	}
}

// setAside reports a partition that a broker is deleting, or has put away: its directory has another name then.
func setAside(dirs []*locallog.Dir, name string) bool {
	return slices.ContainsFunc(dirs, func(d *locallog.Dir) bool {
		found, err := filepath.Glob(filepath.Join(d.Path, name+".*"))
		return err == nil && len(found) > 0
	})
}
