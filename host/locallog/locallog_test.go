package locallog

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/golden"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

func openDir(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func find(t testing.TB, d *Dir, topic string, partition int32) *Log {
	t.Helper()
	for _, l := range d.Logs() {
		if l.ID.Topic == topic && l.ID.Partition == partition {
			return l
		}
	}
	t.Fatalf("no log of %s-%d", topic, partition)
	return nil
}

// TestFixtureOffsets: what six brokers said about their logs is what the files tell.
func TestFixtureOffsets(t *testing.T) {
	golden.Each(t, func(t *testing.T, dir string) {
		d := openDir(t, filepath.Join(dir, "local"))
		if d.NodeID != 1 {
			t.Errorf("node id %d", d.NodeID)
		}
		for _, g := range golden.Partitions(t, dir) {
			l := find(t, d, g.Topic, g.Partition)
			epochs := map[int32]int64{}
			for _, e := range l.Lineage.Entries() {
				epochs[e.Epoch] = e.StartOffset
			}
			start, ok := l.LogStart()
			if g.RemoteStorageEnable && (!ok || start != g.LogStartOffset) {
				t.Errorf("%s: log start %d, %v, want %d", l.ID, start, ok, g.LogStartOffset)
			}
			got := fmt.Sprintln(l.ID.TopicID, max(start, l.FirstBase()), l.HighWatermark, l.LastStable, l.LogEnd, epochs)
			want := fmt.Sprintln(g.TopicID, g.LocalLogStartOffset, g.HighWatermark, g.LastStableOffset, g.HighWatermark, g.LeaderEpochCheckpoint)
			if got != want {
				t.Errorf("%s: %s, want %s", l.ID, got, want)
			}
			var files []string
			for _, s := range l.Segments() {
				files = append(files, fmt.Sprintln(filepath.Base(s.Path()), s.Size))
			}
			var wantFiles []string
			for _, f := range g.LocalSegments {
				wantFiles = append(wantFiles, fmt.Sprintln(f.File, f.Size))
			}
			if !slices.Equal(files, wantFiles) || len(l.Findings) > 0 {
				t.Errorf("%s: files %v, want %v; findings %v", l.ID, files, wantFiles, l.Findings)
			}
		}
	})
}

// TestFixtureFind: for every local batch, its first and last offset and the gap before it lead to it.
func TestFixtureFind(t *testing.T) {
	golden.Each(t, func(t *testing.T, dir string) {
		d := openDir(t, filepath.Join(dir, "local"))
		var prev golden.Batch
		for _, b := range golden.Batches(t, dir) {
			if b.Tier != "local" {
				continue
			}
			l := find(t, d, b.Topic, b.Partition)
			offsets := []int64{b.Base, b.Last}
			if prev.Topic == b.Topic && prev.Partition == b.Partition && prev.Last+1 < b.Base {
				offsets = append(offsets, prev.Last+1, b.Base-1)
			}
			for _, offset := range offsets {
				s, ok, err := l.Find(offset, l.LogEnd)
				if err != nil || !ok || filepath.Base(s.Segment.Path()) != b.File || s.Pos != b.Position || s.First.Size() != b.Size ||
					s.First.BaseOffset != b.Base || s.Limit != s.Segment.Size {
					t.Errorf("%s offset %d: %+v, %v, %v, want %+v", l.ID, offset, s, ok, err, b)
				}
			}
			if s, ok, err := l.Find(b.Base, b.Last); err != nil || !ok || s.Limit != s.Pos { // a bound inside the batch
				t.Errorf("%s: a bound at %d lets %d bytes through, %v, %v", l.ID, b.Last, s.Limit-s.Pos, ok, err)
			}
			if s, ok, err := l.Find(b.Base, b.Last+1); err != nil || !ok || s.Limit != b.Position+b.Size {
				t.Errorf("%s: a bound at %d ends at %d, want %d, %v, %v", l.ID, b.Last+1, s.Limit, b.Position+b.Size, ok, err)
			}
			prev = b
		}
		for _, l := range d.Logs() {
			if s, ok, err := l.Find(l.LogEnd, l.LogEnd+1); ok || err != nil {
				t.Errorf("%s: something at the log end: %+v, %v", l.ID, s, err)
			}
		}
	})
}

var tp = abi.TopicIDPartition{Topic: "t", TopicID: kafkabytes.ID(200), Partition: 0}

const name = "t-0"

// twoSegments is a log of the offsets 0-29 in segments of 0-19 and 20-29.
func twoSegments(t testing.TB) (a, b *kafkabytes.Segment) {
	a = kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 0, Last: 9}, kafkabytes.Batch{Base: 10, Last: 19})
	b = kafkabytes.NewSegment(t, tp, 2, kafkabytes.Batch{Base: 20, Last: 24}, kafkabytes.Batch{Base: 25, Last: 26}, kafkabytes.Batch{Base: 27, Last: 29})
	return a, b
}

// last and first name the files of twoSegments.
func last(ext string) string  { return filepath.Join(name, format.SegmentFileName(20, ext)) }
func first(ext string) string { return filepath.Join(name, format.SegmentFileName(0, ext)) }

// TestRecovery is what a broker does on start, without writing anything.
func TestRecovery(t *testing.T) {
	_, b := twoSegments(t)
	second := int64(len(kafkabytes.Batch{Base: 20, Last: 24}.Bytes(t)))
	third := second + int64(len(kafkabytes.Batch{Base: 25, Last: 26}.Bytes(t)))
	flip := func(b []byte, at int64) []byte { b = slices.Clone(b); b[at] ^= 1; return b }
	for _, tt := range []struct {
		name    string
		files   map[string][]byte // instead of what twoSegments has; nil: removed
		end     int64             // of what there is
		finding string
	}{
		{"nothing wrong", nil, 30, ""},
		{"a torn tail", map[string][]byte{last(".log"): b.Log[:len(b.Log)-1]}, 27, "torn at byte"},
		{"a tail torn in the header", map[string][]byte{last(".log"): b.Log[:third+20]}, 27, "torn at byte"},
		{"preallocated zeros", map[string][]byte{last(".log"): append(slices.Clone(b.Log), make([]byte, 4096)...)}, 30, ""},
		{"zeros, and something behind them", map[string][]byte{last(".log"): append(append(slices.Clone(b.Log), make([]byte, 99999)...), 1)}, 30, "torn at byte"},
		{"a wrong CRC in the last segment", map[string][]byte{last(".log"): flip(b.Log, second+65)}, 25, "CRC"},
		{"an empty last segment", map[string][]byte{last(".log"): {}, last(".index"): {}}, 20, "missing up to offset 27"},
		{"no last segment", map[string][]byte{last(".log"): nil}, 20, "is not there, and 00000000000000000020.index is"},
		{"no offset index", map[string][]byte{first(".index"): nil}, 30, "made anew"},
		{"no offset index yet", map[string][]byte{last(".index"): nil}, 30, ""},
		{"a preallocated offset index", map[string][]byte{last(".index"): append(slices.Clone(b.OffsetIndex), make([]byte, 800)...)}, 30, ""},
		{"an offset index that is cut", map[string][]byte{last(".index"): b.OffsetIndex[:11]}, 30, "made anew"},
		{"an offset index that points behind the segment", map[string][]byte{last(".index"): kafkabytes.AppendEntry(nil, 5, 1<<30)}, 30, "made anew"},
		{"no checkpoints", map[string][]byte{"replication-offset-checkpoint": nil, "log-start-offset-checkpoint": nil, "meta.properties": nil}, 30, ""},
		{"no leader epochs", map[string][]byte{filepath.Join(name, "leader-epoch-checkpoint"): nil}, 30, "leader-epoch-checkpoint: it is missing"},
		{"broken leader epochs", map[string][]byte{filepath.Join(name, "leader-epoch-checkpoint"): []byte("0\n5\n")}, 30, "leader-epoch-checkpoint"},
		{"no partition.metadata", map[string][]byte{filepath.Join(name, "partition.metadata"): nil}, 30, ""},
		{"marked files", map[string][]byte{last(".log.deleted"): b.Log, filepath.Join("t-0.abc-delete", "x.log"): b.Log, filepath.Join("t-1-stray", "x"): b.Log}, 30, ""},
		{"a broken snapshot and an older one", map[string][]byte{filepath.Join(name, format.SegmentFileName(25, ".snapshot")): []byte("broken"),
			filepath.Join(name, format.SegmentFileName(20, ".snapshot")): emptySnapshot}, 30, "an older one is used"},
		{"a snapshot that is made at this moment", map[string][]byte{filepath.Join(name, format.SegmentFileName(25, ".snapshot")): {},
			filepath.Join(name, format.SegmentFileName(20, ".snapshot")): emptySnapshot}, 30, ""},
		{"an empty snapshot that is not the last", map[string][]byte{filepath.Join(name, format.SegmentFileName(20, ".snapshot")): {},
			filepath.Join(name, format.SegmentFileName(25, ".snapshot")): []byte("broken")}, 30, "an older one is used"},
		{"a snapshot behind the log's end", map[string][]byte{filepath.Join(name, format.SegmentFileName(99, ".snapshot")): []byte("broken")}, 30, "went on to offset 99"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeTwo(t, tt.files)
			before := tree(t, dir)
			d := openDir(t, dir)
			l := find(t, d, "t", 0)
			end, hw := max(tt.end, 28), int64(28) // as the checkpoint has it
			if _, lost := tt.files[highWatermarkName]; lost {
				hw = tt.end
			}
			if l.LogEnd != end || l.HighWatermark != hw || l.LastStable != hw {
				t.Errorf("log end %d, high watermark %d, last stable %d, want %d, %d", l.LogEnd, l.HighWatermark, l.LastStable, end, hw)
			}
			if h, ok := l.Hole(27); ok != (tt.end < 28) || ok && (h.From != tt.end || h.Until != 28) {
				t.Errorf("hole %+v, %v", h, ok)
			}
			if text := findingText(l); (text == "") != (tt.finding == "") || !strings.Contains(text, tt.finding) {
				t.Errorf("findings %q, want %q", text, tt.finding)
			}
			everyOffset(t, l)
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Error("something was written below the log directory")
			}
		})
	}
}

// emptySnapshot is the spec's vector of a producer snapshot without producers.
var emptySnapshot = []byte{0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0}

func writeTwo(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	a, b := twoSegments(t)
	kafkabytes.WriteLog(t, dir, tp, a, b)
	kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", "t 0 28")
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "t 0 5")
	kafkabytes.WriteFile(t, filepath.Join(dir, "meta.properties"), []byte("version=1\nnode.id=3\ncluster.id=x\n"))
	for path, content := range files {
		if content != nil {
			kafkabytes.WriteFile(t, filepath.Join(dir, path), content)
		} else if err := os.Remove(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// everyOffset: each offset below the end is found in the batch that holds it, and none at it.
func everyOffset(t *testing.T, l *Log) {
	t.Helper()
	for offset := int64(0); offset < l.LogEnd; offset++ {
		if _, ok := l.Hole(offset); ok {
			continue
		}
		s, ok, err := l.Find(offset, l.LogEnd)
		if err != nil || !ok || s.First.BaseOffset > offset || s.Pos+s.First.Size() > s.Segment.Size || s.Limit > s.Segment.Size {
			t.Errorf("offset %d: %+v, %v, %v", offset, s, ok, err)
		}
	}
	if s, ok, err := l.Find(l.LogEnd, l.LogEnd); ok || err != nil {
		t.Errorf("at the log end: %+v, %v", s, err)
	}
}

func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		files[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestCleanShutdown: after a clean end the last segment's CRCs are not read again, its tail is found all the same.
func TestCleanShutdown(t *testing.T) {
	_, b := twoSegments(t)
	bad := slices.Clone(b.Log)
	bad[65] ^= 1 // in the first batch, before the last index entry
	l := find(t, openDir(t, writeTwo(t, map[string][]byte{last(".log"): bad, ".kafka_cleanshutdown": {}})), "t", 0)
	if l.LogEnd != 30 || len(l.Findings) > 0 {
		t.Errorf("log end %d, findings %v", l.LogEnd, l.Findings)
	}
}

// TestBadTransactionIndex: a transaction index that is damaged is an error, never "nothing was aborted".
func TestBadTransactionIndex(t *testing.T) {
	entry := kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 1, FirstOffset: 3, LastOffset: 15, LastStableOffset: 16})
	cut := find(t, openDir(t, writeTwo(t, map[string][]byte{first(".txnindex"): entry[:30]})), "t", 0)
	if text := findingText(cut); !strings.Contains(text, ".txnindex") || !strings.Contains(text, "made anew") {
		t.Errorf("a cut index: findings %q", text)
	}
	l := find(t, openDir(t, writeTwo(t, map[string][]byte{first(".txnindex"): entry})), "t", 0)
	for _, tt := range []struct{ from, upper, n int64 }{{0, 30, 1}, {15, 30, 1}, {16, 30, 0}, {0, 3, 0}, {0, 4, 1}} {
		if got := l.Collect(nil, tt.from, tt.upper); int64(len(got)) != tt.n {
			t.Errorf("aborted in %d-%d: %v, want %d", tt.from, tt.upper, got, tt.n)
		}
	}
}

// TestOpenTransaction: the last stable offset is where the oldest open transaction began, also without a snapshot.
func TestOpenTransaction(t *testing.T) {
	const txn, end = kafkabytes.Transactional, kafkabytes.Transactional | kafkabytes.Control
	a := kafkabytes.NewSegment(t, tp, 1,
		kafkabytes.Batch{Base: 0, Last: 4, Attributes: txn, ProducerID: 1},
		kafkabytes.Batch{Base: 5, Last: 9, Attributes: txn, ProducerID: 2},
		kafkabytes.Batch{Base: 10, Last: 10, Attributes: end, ProducerID: 1})
	b := kafkabytes.NewSegment(t, tp, 2,
		kafkabytes.Batch{Base: 11, Last: 14, Attributes: txn, ProducerID: 1},
		kafkabytes.Batch{Base: 15, Last: 15, ProducerID: -1})
	for _, tt := range []struct {
		name string
		segs []*kafkabytes.Segment
		hw   int64
		want int64
	}{
		{"the oldest of two", []*kafkabytes.Segment{a, b}, 16, 5},
		{"not above the high watermark", []*kafkabytes.Segment{a, b}, 3, 3},
		{"one", []*kafkabytes.Segment{b}, 16, 11},
	} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, tp, tt.segs...)
		kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", fmt.Sprintf("t 0 %d", tt.hw))
		if l := find(t, openDir(t, dir), "t", 0); l.LastStable != tt.want {
			t.Errorf("%s: last stable offset %d, want %d", tt.name, l.LastStable, tt.want)
		}
	}
}

// TestGaps: compacted offsets lead to what follows, over the end of a segment.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	a := kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 3, Last: 5}, kafkabytes.Batch{Base: 9, Last: 10})
	a.Meta.StartOffset = 0
	a.OffsetIndex = nil
	b := kafkabytes.NewSegment(t, tp, 2, kafkabytes.Batch{Base: 25, Last: 26})
	b.Meta.StartOffset = 20
	kafkabytes.WriteLog(t, dir, tp, a, b)
	l := find(t, openDir(t, dir), "t", 0)
	for offset, base := range map[int64]int64{0: 3, 5: 3, 6: 9, 10: 9, 11: 25, 19: 25, 20: 25, 26: 25} {
		if s, ok, err := l.Find(offset, l.LogEnd); err != nil || !ok || s.First.BaseOffset != base {
			t.Errorf("offset %d: batch at %d, %v, %v, want %d", offset, s.First.BaseOffset, ok, err, base)
		}
	}
	if l.LogEnd != 27 || l.Lineage.Latest() != 0 {
		t.Errorf("log end %d, epoch %d", l.LogEnd, l.Lineage.Latest())
	}
}

// TestBadMiddle: a bad batch in the middle of the log does not keep the log from opening; who comes to it is told.
func TestBadMiddle(t *testing.T) {
	a, _ := twoSegments(t)
	bad := slices.Clone(a.Log)
	size := int64(len(kafkabytes.Batch{Base: 0, Last: 9}.Bytes(t)))
	bad[size+16] = 9 // the magic of the second batch
	l := find(t, openDir(t, writeTwo(t, map[string][]byte{first(".log"): bad})), "t", 0)
	if _, ok, err := l.Find(5, l.LogEnd); !ok || err != nil {
		t.Errorf("before it: %v, %v", ok, err)
	}
	_, _, err := l.Find(12, l.LogEnd)
	if abi.KindOf(err) != abi.Corrupt || !strings.Contains(err.Error(), first(".log")) {
		t.Errorf("at it: %v", err)
	}
	if _, ok, err := l.Find(22, l.LogEnd); !ok || err != nil {
		t.Errorf("behind it: %v, %v", ok, err)
	}
}

// TestHeadersReadsNoneTwice: of the headers of a span those are read that lie before its limit, and not the first, which Find has
// read: bytes that went bad there since are not noticed.
func TestHeadersReadsNoneTwice(t *testing.T) {
	a, _ := twoSegments(t)
	dir := writeTwo(t, nil)
	l := find(t, openDir(t, dir), "t", 0)
	s, ok, err := l.Find(5, l.LogEnd)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	first, second := s.First.Size(), int64(len(a.Log))
	kafkabytes.WriteFile(t, s.Segment.Path(), make([]byte, len(a.Log))) // no batch is left
	for _, tt := range []struct {
		limit int64
		want  string
		fails bool
	}{{first - 1, "", false}, {first, " 0", false}, {first + 1, " 0", true}, {second, " 0", true}} {
		got := ""
		err := s.Headers(tt.limit, func(h *format.BatchHeader) bool {
			got += fmt.Sprintf(" %d", h.BaseOffset)
			return false
		})
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("up to %d: batches at%s, %v, want at%s", tt.limit, got, err, tt.want)
		}
	}
}

func TestOpenDirErrors(t *testing.T) {
	if _, err := OpenDir(filepath.Join(t.TempDir(), "none")); abi.KindOf(err) != abi.NotFound {
		t.Errorf("a directory that is not there: %v", err)
	}
	d := openDir(t, t.TempDir())
	if len(d.Logs()) != 0 || d.NodeID != -1 {
		t.Errorf("an empty directory: %v, %d", d.Logs(), d.NodeID)
	}
}

// TestEmptyLog: a partition without a segment file begins, and ends, where its checkpoint says.
func TestEmptyLog(t *testing.T) {
	dir := t.TempDir()
	kafkabytes.WriteFile(t, filepath.Join(dir, name, "partition.metadata"), fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", tp.TopicID))
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "t 0 7")
	l := find(t, openDir(t, dir), "t", 0)
	if l.FirstBase() != -1 || l.LogEnd != 7 || l.HighWatermark != 7 {
		t.Errorf("first base %d, end %d, high watermark %d", l.FirstBase(), l.LogEnd, l.HighWatermark)
	}
	if _, ok, err := l.Find(0, 7); ok || err != nil {
		t.Errorf("found something: %v", err)
	}
}

// findingText is all findings of a log on one line.
func findingText(l *Log) string {
	var all []string
	for _, f := range l.Findings {
		all = append(all, f.String())
	}
	return strings.Join(all, "; ")
}
