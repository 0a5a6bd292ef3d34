package locallog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// The files of a broker beside its partitions, and of a partition beside its segments.
const (
	logStartName      = "log-start-offset-checkpoint"
	highWatermarkName = "replication-offset-checkpoint"
	recoveryPointName = "recovery-point-offset-checkpoint"
	compactionName    = "cleaner-offset-checkpoint"
	epochsName        = "leader-epoch-checkpoint"
)

// Dir is one log directory of a broker.
type Dir struct {
	Path      string
	NodeID    int32  // node.id of meta.properties; -1: not known
	ClusterID string // cluster.id of meta.properties; empty: not known
	Clean     bool   // the broker shut down cleanly

	logStart      map[format.CheckpointKey]int64
	highWatermark map[format.CheckpointKey]int64
	recoveryPoint map[format.CheckpointKey]int64
	compaction    map[format.CheckpointKey]int64 // where the cleaner has come to
	logs          []*Log
	report        *atomic.Pointer[func(finding.Finding)]
}

// OpenDir opens every partition below path. The caller closes it.
func OpenDir(path string) (*Dir, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, abi.E("open log directory", path, abi.FileKind(err), err)
	}
	d := &Dir{Path: path, NodeID: -1, report: new(atomic.Pointer[func(finding.Finding)])}
	if err := d.readCheckpoints(); err != nil {
		return nil, err
	}
	for _, e := range entries {
		topic, partition, ok := format.ParsePartitionDir(e.Name())
		if !e.IsDir() || !ok {
			continue
		}
		at := filepath.Join(path, e.Name())
		l, err := settled(at, func() (*Log, error) { return openLog(d, at, topic, partition) })
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		if l != nil {
			d.logs = append(d.logs, l)
		}
	}
	d.sort()
	return d, nil
}

// settleTries bounds how often a partition is looked at that changes meanwhile.
const settleTries = 10

// settled opens a partition's directory, again where a broker deleted a file of it between the listing and the opening: the
// rest is still there. It gives nil where the partition itself was deleted. An error is NOT_FOUND where a file that is listed
// is never there, else open's.
func settled(dir string, open func() (*Log, error)) (l *Log, err error) {
	for range settleTries {
		if l, err = open(); !errors.Is(err, abi.NotFound) {
			return l, err
		}
		if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return nil, err
}

func (d *Dir) sort() {
	sort.Slice(d.logs, func(i, j int) bool {
		a, b := d.logs[i].ID, d.logs[j].ID
		return a.Topic < b.Topic || a.Topic == b.Topic && a.Partition < b.Partition
	})
}

// Logs gives the partitions by topic and number.
func (d *Dir) Logs() []*Log { return d.logs }

// HighWatermarks is what the directory's checkpoint says of a topic, by partition, also of those that lie elsewhere.
func (d *Dir) HighWatermarks(topic string) map[int32]int64 {
	ends := map[int32]int64{}
	for key, end := range d.highWatermark {
		if key.Topic == topic {
			ends[key.Partition] = end
		}
	}
	return ends
}

// Close closes all files.
func (d *Dir) Close() error {
	var errs []error
	for _, l := range d.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

func (d *Dir) readCheckpoints() (err error) {
	if d.logStart, err = readFile(d.Path, logStartName, format.ParseOffsetCheckpoint); err != nil {
		return err
	}
	if d.highWatermark, err = readFile(d.Path, highWatermarkName, format.ParseOffsetCheckpoint); err != nil {
		return err
	}
	if d.recoveryPoint, err = readFile(d.Path, recoveryPointName, format.ParseOffsetCheckpoint); err != nil {
		return err
	}
	if d.compaction, err = readFile(d.Path, compactionName, format.ParseOffsetCheckpoint); err != nil {
		return err
	}
	meta, err := readFile(d.Path, "meta.properties", format.ParseMetaProperties)
	if err != nil {
		return err
	}
	if meta != (format.MetaProperties{}) {
		d.NodeID, d.ClusterID = meta.NodeID, meta.ClusterID
	}
	_, err = os.Stat(filepath.Join(d.Path, ".kafka_cleanshutdown"))
	d.Clean = err == nil
	return nil
}

// cleaned reports that the broker's cleaner went over a partition: compaction leaves out offsets.
func (d *Dir) cleaned(key format.CheckpointKey) bool {
	_, ok := d.compaction[key]
	return ok
}

// readFile parses a small file of a directory; one that does not exist is the zero value.
func readFile[T any](dir, name string, parse func([]byte) (T, error)) (v T, err error) {
	path := filepath.Join(dir, name)
	b, err := readAll("read", path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if v, err = parse(b); err != nil {
		return v, abi.E("read", path, abi.KindOf(err), err)
	}
	return v, nil
}
