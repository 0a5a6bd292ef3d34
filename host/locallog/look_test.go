package locallog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/golden"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// summary is what a reader can learn of a log, in a form that compares.
func summary(t *testing.T, d *Dir) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, l := range d.Logs() {
		all, complete := l.CollectAll(nil, 0, l.LogEnd)
		text := fmt.Sprint(l.LogEnd, l.HighWatermark, l.LastStable, l.Lineage, all, complete)
		for _, s := range l.Segments() {
			text += fmt.Sprintf(" %d:%d", s.Base, s.Size)
		}
		out[l.ID.String()] = text
	}
	return out
}

// TestLookFollowsALiveLog writes a real broker's log bit by bit, cut anywhere, as a broker writes it, and holds what a look
// sees each time against a log directory that is opened anew.
func TestLookFollowsALiveLog(t *testing.T) {
	golden.Each(t, func(t *testing.T, dir string) {
		rng := rand.New(rand.NewPCG(1, 2))
		live := copyDir(t, filepath.Join(dir, "local"), func(name string) bool {
			return strings.HasSuffix(name, ".log") || strings.HasSuffix(name, "index") || name == ".kafka_cleanshutdown"
		})
		logs, err := filepath.Glob(filepath.Join(dir, "local", "*", "*.log"))
		if err != nil || len(logs) == 0 {
			t.Fatal("no logs", err)
		}
		var d *Dir
		for _, from := range logs { // by partition and base
			b, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(live, filepath.Base(filepath.Dir(from)), filepath.Base(from))
			for n := 0; ; n = min(len(b), n+1+rng.IntN(9000)) {
				appendTo(t, to, b[:n])
				d = looked(t, d, live)
				if n == len(b) {
					break
				}
			}
			if b, err := os.ReadFile(strings.TrimSuffix(from, ".log") + ".txnindex"); err == nil { // as a broker has it at a roll
				kafkabytes.WriteFile(t, strings.TrimSuffix(to, ".log")+".txnindex", b)
			}
		}
		same, err := d.Look()
		if err != nil || same != d {
			t.Errorf("a look at what did not change gives another view: %v", err)
		}
	})
}

// TestLookFollowsAPreallocatedLog is a broker with log.preallocate: files have their greatest size from the begin, and are cut
// when the next one is begun. What is garbage in them stays the same view.
func TestLookFollowsAPreallocatedLog(t *testing.T) {
	segs := threeSegments(t)
	size := len(kafkabytes.Batch{Base: 0, Last: 2, ProducerID: -1}.Bytes(t))
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp, &kafkabytes.Segment{Meta: segs[0].Meta})
	kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 0")
	var d *Dir
	for n, s := range segs {
		path := filepath.Join(dir, name, format.SegmentFileName(int64(30*n), ".log"))
		whole := make([]byte, 1<<20)
		kafkabytes.WriteFile(t, path, whole)
		for k := 0; k < 10; k++ {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			write := func(b []byte, at int) {
				if _, err := f.WriteAt(b, int64(at)); err != nil {
					t.Fatal(err)
				}
			}
			write(s.Log[k*size:k*size+70], k*size) // a part of the batch
			d = looked(t, d, dir)
			write(s.Log[k*size:(k+1)*size], k*size)
			d = looked(t, d, dir)
			if l := find(t, d, "t", 0); l.LogEnd != int64(30*n+3*k+3) || findingText(l) != "" {
				t.Fatalf("segment %d batch %d: log end %d, findings %q", n, k, l.LogEnd, findingText(l))
			}
			if same, err := d.Look(); same != d || err != nil {
				t.Errorf("another view of the same: %v", err)
			}
			f.Close()
		}
		if err := os.Truncate(path, int64(len(s.Log))); err != nil {
			t.Fatal(err)
		}
	}
}

// appendTo makes the file at path have the content b, by appending.
func appendTo(t *testing.T, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b[st.Size():], st.Size()); err != nil {
		t.Fatal(err)
	}
}

// looked looks again and holds the view against a new one.
func looked(t *testing.T, d *Dir, path string) *Dir {
	t.Helper()
	var err error
	if d == nil {
		d, err = OpenDir(path)
	} else {
		d, err = d.Look()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := summary(t, d), summary(t, openDir(t, path)); !maps.Equal(got, want) {
		for k := range want {
			if got[k] != want[k] {
				t.Fatalf("%s: a look sees\n%s\nand a new view\n%s", k, got[k], want[k])
			}
		}
		t.Fatalf("partitions: %d, want %d", len(got), len(want))
	}
	return d
}

// TestLookNoticesWhatABrokerDoes: a roll, deleted segments in front, a truncation with other batches behind it, a deleted
// partition, another incarnation.
func TestLookNoticesWhatABrokerDoes(t *testing.T) {
	dir := writeTwo(t, nil)
	d := looked(t, nil, dir)
	step := func(what string, do func()) {
		t.Helper()
		do()
		old := d
		if d = looked(t, d, dir); d == old {
			t.Errorf("%s: not noticed", what)
		}
	}
	c := kafkabytes.NewSegment(t, tp, 3, kafkabytes.Batch{Base: 30, Last: 34}, kafkabytes.Batch{Base: 35, Last: 35})
	third := filepath.Join(dir, name, "00000000000000000030.log")
	step("a roll", func() { kafkabytes.WriteFile(t, third, c.Log) })
	step("a deleted segment", func() { remove(t, filepath.Join(dir, first(".log"))) })
	step("a truncation", func() {
		if err := os.Truncate(third, 0); err != nil {
			t.Fatal(err)
		}
	})
	other := kafkabytes.NewSegment(t, tp, 4, kafkabytes.Batch{Base: 30, Last: 37, Epoch: 5})
	step("other batches in its place", func() { kafkabytes.WriteFile(t, third, other.Log) })
	step("other batches of the same size in their place", func() {
		other := kafkabytes.NewSegment(t, tp, 4, kafkabytes.Batch{Base: 30, Last: 37, Epoch: 6})
		f, err := os.OpenFile(third, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(other.Log, 0); err != nil {
			t.Fatal(err)
		}
	})
	step("a raised high watermark", func() {
		kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", "t 0 31")
	})
	step("a deleted partition", func() {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+".0123456789abcdef-delete")); err != nil {
			t.Fatal(err)
		}
	})
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
