package locallog

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/golden"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// copyDir copies a broker's log directory without the files that skip names.
func copyDir(t *testing.T, from string, skip func(name string) bool) string {
	t.Helper()
	to := t.TempDir()
	if err := filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || skip(e.Name()) {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		kafkabytes.WriteFile(t, filepath.Join(to, rel), b)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestRebuiltTransactionIndexesAreTheBrokers takes every recorded broker's transaction indexes away or damages them, and
// holds what is made in memory against what the broker wrote.
func TestRebuiltTransactionIndexesAreTheBrokers(t *testing.T) {
	compared := 0
	golden.Each(t, func(t *testing.T, dir string) {
		want := openDir(t, filepath.Join(dir, "local"))
		damaged := copyDir(t, filepath.Join(dir, "local"), func(string) bool { return false })
		files, err := filepath.Glob(filepath.Join(damaged, "*", "*.txnindex"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Truncate(f, 33); err != nil {
				t.Fatal(err)
			}
		}
		got := openDir(t, damaged)
		for i, l := range want.Logs() {
			for j, s := range l.Segments() {
				if g := got.Logs()[i].Segments()[j]; !bytes.Equal(g.Aborted(), s.Aborted()) {
					t.Errorf("%s segment %d: made %d entries, the broker wrote %d", l.ID, s.Base, g.Aborted().Len(), s.Aborted().Len())
				}
				compared += s.Aborted().Len()
			}
		}
	})
	if compared == 0 {
		t.Error("no broker has an aborted transaction in its local tier")
	}
}

// TestUncleanEndGivesTheSameOffsets: without the mark of a clean shutdown, with no index at all, a log reads as before.
func TestUncleanEndGivesTheSameOffsets(t *testing.T) {
	entries := 0
	golden.Each(t, func(t *testing.T, dir string) {
		want := openDir(t, filepath.Join(dir, "local"))
		got := openDir(t, copyDir(t, filepath.Join(dir, "local"), func(name string) bool {
			return name == ".kafka_cleanshutdown" || strings.HasSuffix(name, ".index") || strings.HasSuffix(name, ".timeindex")
		}))
		for i, l := range want.Logs() {
			g := got.Logs()[i]
			if g.LogEnd != l.LogEnd || g.HighWatermark != l.HighWatermark || g.LastStable != l.LastStable {
				t.Errorf("%s: %d, %d, %d, want %d, %d, %d", l.ID, g.LogEnd, g.HighWatermark, g.LastStable, l.LogEnd, l.HighWatermark, l.LastStable)
			}
			for _, s := range g.Segments() {
				if err := s.Index().Check(s.Base); err != nil {
					t.Errorf("%s segment %d: %v", l.ID, s.Base, err)
				}
				entries += s.Index().Len()
			}
		}
	})
	if entries == 0 {
		t.Error("no index has an entry")
	}
}

// TestTransactionIndexThatCannotBeMade: an abort whose begin lies before everything that is left is never passed over.
func TestTransactionIndexThatCannotBeMade(t *testing.T) {
	const marker = kafkabytes.Transactional | kafkabytes.Control
	seg := kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 20, Last: 24, ProducerID: -1}, kafkabytes.Batch{Base: 25, Last: 25, Attributes: marker, ProducerID: 7})
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp, seg)
	kafkabytes.WriteFile(t, filepath.Join(dir, last(".txnindex")), make([]byte, 33))
	l := find(t, openDir(t, dir), "t", 0)
	if abi.KindOf(l.Err) != abi.Precondition || !strings.Contains(findingText(l), "producer 7") || l.ID.TopicID != tp.TopicID {
		t.Errorf("%v of %v, findings %q", l.Err, l.ID, findingText(l))
	}
}
