package locallog

import (
	"os"
	"path/filepath"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// The files of a broker beside its partitions, and of a partition beside its segments.
const (
	logStartName      = "log-start-offset-checkpoint"
	highWatermarkName = "replication-offset-checkpoint"
	recoveryPointName = "recovery-point-offset-checkpoint"
	compactionName    = "cleaner-offset-checkpoint"
	propertiesName    = "meta.properties"
	cleanName         = ".kafka_cleanshutdown"
	partitionName     = "partition.metadata"
	epochsName        = "leader-epoch-checkpoint"
)

// checkpoints is what a broker keeps beside its partitions. A file that is missing or can't be read has no entries.
type checkpoints struct {
	logStart      map[format.CheckpointKey]int64
	highWatermark map[format.CheckpointKey]int64
	recoveryPoint map[format.CheckpointKey]int64
	compaction    map[format.CheckpointKey]int64 // where the cleaner has come to
	// committed: all that partitions hold is taken for committed: the directory has neither high watermarks nor a broker's
	// properties. It is a copy of partitions that somebody made, and no broker's.
	committed bool
	// told: that there is none is a finding of the directory.
	told bool
}

// readCheckpoints reads the files beside the partitions. One that can't be read is a finding, and as if it were not there. A
// broker makes them empty when it first starts, writes them every five seconds or every minute, and when it ends in order.
func (d *Dir) readCheckpoints() {
	_, err := os.Stat(filepath.Join(d.Path, cleanName))
	d.Clean = err == nil
	node := d.properties()
	const start, committed = "logs start where the rest says", "what is not known to be committed is not shown"
	var state fileState
	if d.logStart, state = d.checkpoint(logStartName, false, start); state < written && node {
		d.note(logStartName, !d.Clean, "it is %s; %s", state, start)
	}
	d.recoveryPoint, _ = d.checkpoint(recoveryPointName, true, "nothing else depends on it")
	d.compaction, _ = d.checkpoint(compactionName, true, "what was compacted is told by the batches")
	d.highWatermark, state = d.checkpoint(highWatermarkName, false, committed)
	d.committed, d.told = state == missing && !node, state != written
	if state < written && !d.committed {
		d.note(highWatermarkName, !d.Clean && state == empty, "it is %s; %s", state, committed)
	}
}

// fileState is what there is of a file.
type fileState int8

const (
	missing fileState = iota
	empty
	written
	damaged
)

// String is for people.
func (s fileState) String() string { return [...]string{"missing", "empty", "written", "damaged"}[s] }

// checkpoint reads a file of offsets. One that is damaged is a finding; instead says what is done then; harmless: readers see no
// other data.
func (d *Dir) checkpoint(name string, harmless bool, instead string) (map[format.CheckpointKey]int64, fileState) {
	state := missing
	offsets, _, err := readFile(d.Path, name, maxCheckpoint, func(b []byte) (map[format.CheckpointKey]int64, error) {
		state = written
		if len(b) == 0 {
			state = empty
		}
		return lines(format.ParseOffsetCheckpoint)(b)
	})
	if err != nil {
		d.note(name, harmless, "%v; %s", pathless(err), instead)
		return nil, damaged
	}
	return offsets, state
}

// properties reads what the directory says of its broker. It reports false where it says nothing.
func (d *Dir) properties() (there bool) {
	meta, there, err := readFile(d.Path, propertiesName, maxProperties, lines(format.ParseMetaProperties))
	switch {
	case err != nil:
		d.note(propertiesName, false, "%v; the broker's node id and the cluster's are not known", pathless(err))
	case there:
		d.NodeID, d.ClusterID = meta.NodeID, meta.ClusterID
	}
	return there
}

func (d *Dir) note(name string, repaired bool, format string, args ...any) {
	f := finding.At(filepath.Join(d.Path, name), format, args...)
	f.Repaired = repaired
	d.Findings = append(d.Findings, f)
}

// cleaned reports that the broker's cleaner went over a partition: compaction leaves out offsets.
func (d *Dir) cleaned(key format.CheckpointKey) bool {
	_, ok := d.compaction[key]
	return ok
}
