package locallog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
)

// Dir is one log directory of a broker.
type Dir struct {
	Path      string
	NodeID    int32             // node.id of meta.properties; -1: not known
	ClusterID string            // cluster.id of meta.properties; empty: not known
	Clean     bool              // the broker shut down cleanly
	Findings  []finding.Finding // what is wrong or missing beside the partitions

	checkpoints
	logs   []*Log
	report *atomic.Pointer[func(finding.Finding)]
}

// OpenDir opens every partition below path. The caller closes it. A partition that can't be opened is among Logs with its Err.
func OpenDir(path string) (*Dir, error) {
	d := &Dir{Path: path, NodeID: -1, report: new(atomic.Pointer[func(finding.Finding)])}
	err := d.open(func(at, topic string, partition int32) (*Log, error) { return openLog(d, at, topic, partition) })
	if err != nil {
		return nil, err
	}
	return d, nil
}

// open reads what lies in the directory; each opens a partition's.
func (d *Dir) open(each func(path, topic string, partition int32) (*Log, error)) error {
	d.readCheckpoints()
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return abi.E("open log directory", d.Path, abi.FileKind(err), err)
	}
	for _, e := range entries {
		topic, partition, ok := format.ParsePartitionDir(e.Name())
		at := filepath.Join(d.Path, e.Name())
		if !ok || !leadsToDir(at, e) {
			continue
		}
		l, err := settled(at, func() (*Log, error) { return each(at, topic, partition) })
		if err != nil {
			l = brokenLog(at, topic, partition, err)
		}
		if l != nil {
			d.logs = append(d.logs, l)
		}
	}
	d.sort()
	return nil
}

// leadsToDir reports a directory, and a link that is none to a file: one that leads nowhere may be to a disk that is not there.
func leadsToDir(path string, e os.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	st, err := os.Stat(path)
	return err != nil || st.IsDir()
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
		if _, gone := os.Lstat(dir); errors.Is(gone, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return nil, err
}

// brokenLog is a partition that can't be opened.
func brokenLog(path, topic string, partition int32, err error) *Log {
	l := &Log{ID: abi.TopicIDPartition{Topic: topic, Partition: partition}, Path: path, Err: err}
	if id, _, err := readFile(path, partitionName, maxProperties, format.ParsePartitionMetadata); err == nil {
		l.ID.TopicID = id
	}
	l.note("", "the partition can't be read: %v", err)
	return l
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

// same reports two views that tell readers the same.
func (d *Dir) same(o *Dir) bool {
	return slices.Equal(d.logs, o.logs) && slices.Equal(d.Findings, o.Findings)
}

// Close closes all files.
func (d *Dir) Close() error {
	var errs []error
	for _, l := range d.logs {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
