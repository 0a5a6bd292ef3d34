package locallog

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// replacements put something else in the place of a file.
var replacements = map[string]func(t *testing.T, path string, b []byte){
	"empty":  func(t *testing.T, path string, _ []byte) { kafkabytes.WriteFile(t, path, nil) },
	"torn":   func(t *testing.T, path string, b []byte) { kafkabytes.WriteFile(t, path, b[:len(b)*2/3]) },
	"zeros":  func(t *testing.T, path string, b []byte) { kafkabytes.WriteFile(t, path, make([]byte, len(b))) },
	"a pipe": func(t *testing.T, path string, _ []byte) { ok(t, os.Remove(path)); ok(t, syscall.Mkfifo(path, 0o600)) },
	"a directory": func(t *testing.T, path string, _ []byte) {
		ok(t, os.Remove(path))
		ok(t, os.Mkdir(path, 0o700))
	},
	"a link to itself": func(t *testing.T, path string, _ []byte) { ok(t, os.Remove(path)); ok(t, os.Symlink(path, path)) },
	"a device": func(t *testing.T, path string, _ []byte) {
		ok(t, os.Remove(path))
		ok(t, os.Symlink("/dev/zero", path))
	},
	"very large": func(t *testing.T, path string, _ []byte) { ok(t, os.Truncate(path, maxSmall+1)) },
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedSmallFiles: whatever is in the place of a small file, the directory opens and the other partition reads. The one that
// the file belongs to has what it had, or less of what is not known to be committed, or an error; and a finding names the file.
func TestDamagedSmallFiles(t *testing.T) {
	files := []string{logStartName, highWatermarkName, recoveryPointName, compactionName, propertiesName,
		filepath.Join(name, partitionName), filepath.Join(name, epochsName), first(".index"), first(".txnindex"),
		filepath.Join(name, format.SegmentFileName(20, ".snapshot")), first(".log")}
	for _, file := range files {
		for how, replace := range replacements {
			if how == "empty" && (strings.HasSuffix(file, "index") || strings.HasSuffix(file, ".snapshot") || file == recoveryPointName || file == compactionName) {
				continue // as brokers have them
			}
			if how == "zeros" && strings.HasSuffix(file, "index") {
				continue // an offset index without an entry; and an entry of a transaction index, which its marker proves or not
			}
			t.Run(file+" is "+how, func(t *testing.T) {
				dir := smallFiles(t)
				path := filepath.Join(dir, file)
				b, err := os.ReadFile(path)
				ok(t, err)
				replace(t, path, b)
				d := openDir(t, dir)
				other := find(t, d, "t", 1)
				if inDir := filepath.Dir(file) == "."; other.Err != nil || other.LogEnd != 30 || !inDir && (len(other.Findings) > 0 || other.HighWatermark != 30) {
					t.Errorf("the other partition: %v, log end %d, findings %v", other.Err, other.LogEnd, other.Findings)
				}
				l := find(t, d, "t", 0)
				all := append(l.Findings, d.Findings...)
				if !named(all, path) {
					t.Errorf("findings %v", all)
				}
				if l.Err != nil {
					return
				}
				if l.LogEnd != 30 || l.HighWatermark > 28 {
					t.Errorf("log end %d, high watermark %d", l.LogEnd, l.HighWatermark)
				}
				if !strings.HasSuffix(file, ".log") {
					everyOffset(t, l)
				}
				if next, err := d.Look(); err != nil || next != d {
					t.Errorf("a look sees another: %v", err)
				}
			})
		}
	}
}

// smallFiles is a whole log directory with the partitions t-0 and t-1.
func smallFiles(t *testing.T) string {
	t.Helper()
	dir := writeTwo(t, map[string][]byte{
		filepath.Join(name, format.SegmentFileName(20, ".snapshot")): kafkabytes.Snapshot(),
		first(".txnindex"): kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 1, FirstOffset: 3, LastOffset: 15, LastStableOffset: 16}),
	})
	a, b := twoSegments(t)
	other := abi.TopicIDPartition{Topic: "t", TopicID: tp.TopicID, Partition: 1}
	kafkabytes.WriteLog(t, dir, other, a, b)
	kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 28", "t 1 30")
	kafkabytes.WriteCheckpoint(t, dir, logStartName, "t 0 5", "t 1 0")
	kafkabytes.WriteCheckpoint(t, dir, recoveryPointName, "t 0 20", "t 1 20")
	kafkabytes.WriteCheckpoint(t, dir, compactionName, "x 0 20")
	return dir
}

// named reports a finding about a file.
func named(all []finding.Finding, path string) bool {
	for _, f := range all {
		if strings.Contains(f.String(), path) {
			return true
		}
	}
	return false
}

// TestPartitionDirectories: one that can't be listed is its partition's error, whatever else there is; a link to one is one.
func TestPartitionDirectories(t *testing.T) {
	dir := smallFiles(t)
	elsewhere := smallFiles(t)
	ok(t, os.Symlink(filepath.Join(elsewhere, name), filepath.Join(dir, "u-0")))
	ok(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "v-0")))
	ok(t, os.Symlink(filepath.Join(dir, "w-0"), filepath.Join(dir, "w-0")))
	kafkabytes.WriteFile(t, filepath.Join(dir, "x-0"), nil) // a file is no partition
	d := openDir(t, dir)
	for topic, fails := range map[string]bool{"t": false, "u": false, "v": true, "w": true} {
		if l := find(t, d, topic, 0); (l.Err != nil) != fails || fails && !named(l.Findings, l.Path) {
			t.Errorf("%s: %v, findings %v", topic, l.Err, l.Findings)
		}
	}
	if len(d.Logs()) != 5 {
		t.Errorf("%d logs", len(d.Logs()))
	}
}

// TestClusterMetadataHasNoHighWatermark: KRaft keeps that of its own log elsewhere, and nobody is shown it.
func TestClusterMetadataHasNoHighWatermark(t *testing.T) {
	dir := smallFiles(t)
	a, _ := twoSegments(t)
	kafkabytes.WriteLog(t, dir, abi.TopicIDPartition{Topic: clusterMetadata}, a)
	kafkabytes.WriteFile(t, filepath.Join(dir, cleanName), nil)
	if l := find(t, openDir(t, dir), clusterMetadata, 0); len(l.Findings) > 0 {
		t.Errorf("findings %v", l.Findings)
	}
}

// TestLostHighWatermarks: what is not known to be committed is not shown, and that is told; a folder of partitions alone, which no
// broker has, is taken as it is.
func TestLostHighWatermarks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		do       func(t *testing.T, dir string)
		hw       int64
		repaired bool
	}{
		{"it is missing", func(t *testing.T, dir string) { ok(t, os.Remove(filepath.Join(dir, highWatermarkName))) }, 5, false},
		{"it has another partition alone", func(t *testing.T, dir string) { kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 1 30") }, 5, true},
		{"it has another partition alone, and the broker ended in order", func(t *testing.T, dir string) {
			kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 1 30")
			kafkabytes.WriteFile(t, filepath.Join(dir, cleanName), nil)
		}, 5, false},
		{"it is empty", func(t *testing.T, dir string) { kafkabytes.WriteFile(t, filepath.Join(dir, highWatermarkName), nil) }, 5, true},
		{"it is missing, as is what tells of a broker", func(t *testing.T, dir string) {
			ok(t, os.Remove(filepath.Join(dir, highWatermarkName)))
			ok(t, os.Remove(filepath.Join(dir, propertiesName)))
		}, 30, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := smallFiles(t)
			tt.do(t, dir)
			d := openDir(t, dir)
			l := find(t, d, "t", 0)
			all := append(l.Findings, d.Findings...)
			if l.HighWatermark != tt.hw || l.LastStable != tt.hw || (len(all) == 0) != (tt.hw == 30) ||
				len(all) > 0 && (len(all) != 1 || all[0].Repaired != tt.repaired || !named(all, highWatermarkName)) {
				t.Errorf("high watermark %d, last stable offset %d, findings %v", l.HighWatermark, l.LastStable, all)
			}
		})
	}
}
