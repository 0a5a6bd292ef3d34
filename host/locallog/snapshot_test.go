package locallog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// TestSnapshotOfAnotherOffset: a producer snapshot that is a copy of an older one, or of another partition's, is passed over for an
// older one and the batches behind that: what is undecided is not served as committed, and what is decided is served.
func TestSnapshotOfAnotherOffset(t *testing.T) {
	const txn, end = kafkabytes.Transactional, kafkabytes.Transactional | kafkabytes.Control
	open := func(producer, first int64) []byte {
		return kafkabytes.Snapshot(kafkabytes.OpenTxn{ProducerID: producer, FirstOffset: first})
	}
	for name, tt := range map[string]struct {
		batch    kafkabytes.Batch
		snapshot []byte
		stable   int64
		told     bool
	}{
		"its own":                           {kafkabytes.Batch{Base: 10, Last: 10, Attributes: txn, ProducerID: 1}, open(1, 10), 10, false},
		"a transaction is missing":          {kafkabytes.Batch{Base: 10, Last: 14, Attributes: txn, ProducerID: 1}, kafkabytes.Snapshot(), 10, true},
		"a transaction of another producer": {kafkabytes.Batch{Base: 10, Last: 14, Attributes: txn, ProducerID: 1}, open(2, 5), 10, true},
		"a transaction that has ended":      {kafkabytes.Batch{Base: 10, Last: 10, Attributes: end, ProducerID: 1, Commit: true}, open(1, 5), 15, true},
		"of a later offset":                 {kafkabytes.Batch{Base: 10, Last: 14, ProducerID: -1}, open(1, 15), 15, true},
		"no transaction":                    {kafkabytes.Batch{Base: 10, Last: 14, ProducerID: -1}, kafkabytes.Snapshot(), 15, false},
		"an idle producer that expired":     {kafkabytes.Batch{Base: 10, Last: 14, ProducerID: 1}, kafkabytes.Snapshot(), 15, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 0, Last: 9, ProducerID: -1})
			b := kafkabytes.NewSegment(t, tp, 2, tt.batch)
			kafkabytes.WriteLog(t, dir, tp, a, b)
			last := tt.batch.Last + 1
			kafkabytes.WriteFile(t, filepath.Join(dir, "t-0", format.SegmentFileName(last, ".snapshot")), tt.snapshot)
			kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", fmt.Sprintf("t 0 %d", last))
			l := find(t, openDir(t, dir), "t", 0)
			if l.LastStable != min(tt.stable, last) || named(l.Findings, ".snapshot") != tt.told {
				t.Errorf("last stable offset %d, findings %v; want %d, told %v", l.LastStable, l.Findings, tt.stable, tt.told)
			}
		})
	}
}

// TestTornWhileItIsWritten: a batch that is cut in a file that has grown since is written at this moment, and no finding.
func TestTornWhileItIsWritten(t *testing.T) {
	for _, grows := range []bool{false, true} {
		dir := writeTwo(t, nil)
		l := find(t, openDir(t, dir), "t", 0)
		s := l.segments[len(l.segments)-1]
		f, err := os.OpenFile(s.path, os.O_APPEND|os.O_WRONLY, 0)
		ok(t, err)
		_, err = f.WriteString("no batch")
		ok(t, errors.Join(err, f.Close()))
		if !grows {
			s.disk += int64(len("no batch"))
		}
		was := len(l.Findings)
		if err := l.tellTorn(s, errCut); err != nil || len(l.Findings) > was == grows {
			t.Errorf("grows %v: findings %v, %v", grows, l.Findings, err)
		}
	}
}
