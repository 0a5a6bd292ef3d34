package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestFollow: what a broker writes meanwhile is there after the next look: offsets, partitions, topics; a source that is
// gone for a while is taken up again, and logged once.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 5 * time.Second
		a, b := tens(t, tp("orders", 1), 11, 0, 2, 0), tens(t, tp("orders", 1), 12, 20, 2, 0)
		other, c := tens(t, tp("others", 2), 13, 0, 1, 0), tens(t, tp("orders", 1), 14, 40, 1, 0)
		dir := filepath.Join(t.TempDir(), "meta")
		write := func(segs ...*segment) { kafkabytes.WriteMetadata(t, dir, finished(segs...)...) }
		write(a)
		var log bytes.Buffer
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b, other, c), Metadata: "dir:" + dir, RefreshInterval: interval,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		look := func() {
			time.Sleep(interval)
			synctest.Wait()
		}
		want(t, "at first", topics(h), "orders@1 0:0-20 newest")
		want(t, "its end", read(t, h, from("orders", 20)), "NONE []")
		write(a, b)
		want(t, "before the next look", topics(h), "orders@1 0:0-20 newest")
		look()
		want(t, "after it", topics(h), "orders@1 0:0-40 newest")
		want(t, "what came", read(t, h, from("orders", 20)), "NONE [20 30]")
		write(a, b, other)
		look()
		want(t, "another topic", topics(h), "orders@1 0:0-40 newest, others@2 0:0-10 newest")

		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		look()
		look()
		want(t, "gone", read(t, h, from("orders", 20)), "NONE [20 30]")
		if n := strings.Count(log.String(), "NOT_FOUND"); n != 1 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		write(a, b, other, c)
		look()
		want(t, "back", read(t, h, from("orders", 30)), "NONE [30 40]")
		if r := h.Report(); r.Applied != 8 || len(r.Problems) > 0 {
			t.Errorf("report %+v", r)
		}
	})
}

// TestNoFollow: without an interval nothing looks, and no goroutine is there.
func TestNoFollow(t *testing.T) {
	a := tens(t, tp("orders", 1), 11, 0, 1, 0)
	h := open(t, Config{LogDirs: []string{t.TempDir()}, RSM: memrsm.New(memrsm.Inline, a), RefreshInterval: time.Nanosecond})
	if h.Report() != nil || h.Look(context.Background()) != nil {
		t.Error("a look at no source")
	}
}

// TestLookUnderReads: while segments are copied, superseded and deleted, and catalogs are swapped, each read sees the
// partition whole.
func TestLookUnderReads(t *testing.T) {
	const n = 24
	var events []any
	var segs []*segment
	var lineage []abi.LeaderEpoch
	for i := range int64(n) {
		if i%8 == 0 {
			lineage = append(lineage, abi.LeaderEpoch{Epoch: int32(i / 8), StartOffset: 10 * i})
		}
		s := tens(t, tp("orders", 1), byte(10+i), 10*i, 1, int32(i/8))
		again := tens(t, tp("orders", 1), byte(100+i), 10*i, 1, int32(i/8))
		s.Epochs = format.AppendLeaderEpochs(nil, lineage)
		again.Epochs = s.Epochs
		segs = append(segs, s, again)
		events = append(events, finished(s, again)...)
		events = append(events, kafkabytes.Update(s, format.DeleteSegmentStarted, 1), kafkabytes.Update(s, format.DeleteSegmentFinished, 1))
	}
	dir := t.TempDir()
	kafkabytes.WriteMetadata(t, dir, events[:2]...)
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, segs...), Metadata: "dir:" + dir, ReaderPending: 1000})
	var done atomic.Bool
	hammer.Run(t, 4, 1, func(g, _ int) {
		if g == 0 {
			defer done.Store(true)
			for i := 2; i <= len(events); i++ {
				kafkabytes.WriteMetadata(t, dir, events[:i]...)
				if err := h.Look(context.Background()); err != nil {
					t.Error(err)
				}
			}
			return
		}
		for last := int64(0); !done.Load(); {
			topic, err := h.Topic("orders")
			if err != nil {
				t.Error(err)
				return
			}
			o := topic.Partitions[0].Offsets
			if o.LogStart != 0 || o.LogEnd < last {
				t.Errorf("the log is %d to %d, and ended at %d", o.LogStart, o.LogEnd, last)
				return
			}
			last = o.LogEnd
			if got := read(t, h, from("orders", last-10)); !strings.HasPrefix(got, fmt.Sprintf("NONE [%d", last-10)) {
				t.Errorf("a read at %d: %s", last-10, got)
				return
			}
		}
	})
	want(t, "in the end", topics(h), fmt.Sprintf("orders@1 0:0-%d newest", 10*n))
}

// TestLineageOfLaterSegments: the store is asked for the leader epochs when a new one begins, not with every segment.
func TestLineageOfLaterSegments(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 0, 1, 3), tens(t, p, 12, 10, 1, 3), tens(t, p, 13, 20, 1, 5)
	c.Epochs = format.AppendLeaderEpochs(nil, []abi.LeaderEpoch{{Epoch: 3}, {Epoch: 5, StartOffset: 20}})
	store := memrsm.New(memrsm.Inline, a, b, c)
	dir := t.TempDir()
	h := (*Host)(nil)
	for i, tt := range []struct {
		segs []*segment
		read string
		asks int
	}{{[]*segment{a}, "NONE [0]", 1}, {[]*segment{a, b}, "NONE [0 10]", 1}, {[]*segment{a, b, c}, "NONE [0 10 20]", 2}} {
		kafkabytes.WriteMetadata(t, dir, finished(tt.segs...)...)
		if i == 0 {
			h = open(t, Config{RSM: store, Metadata: "dir:" + dir})
		} else if err := h.Look(context.Background()); err != nil {
			t.Fatal(err)
		}
		want(t, "read", read(t, h, from("orders", 0)), tt.read)
		asks := len(slices.DeleteFunc(store.Calls(), func(c memrsm.Call) bool { return c.Index != abi.LeaderEpochIndex }))
		if asks != tt.asks {
			t.Errorf("with %d segments the store was asked %d times, want %d", len(tt.segs), asks, tt.asks)
		}
	}
}

// TestO5LogStartAtStart: where the checkpoint is lost, the log begins where the remote tier has the lineage's first
// segment; one of a dead leader does not count.
func TestO5LogStartAtStart(t *testing.T) {
	p := tp("orders", 1)
	dead, a := tens(t, p, 11, 0, 1, 0), tens(t, p, 12, 10, 1, 2)
	b := tens(t, p, 13, 20, 1, 2)
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, p, b)
	kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), format.AppendLeaderEpochs(nil, []abi.LeaderEpoch{{Epoch: 2, StartOffset: 10}}))
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, dead, a), Metadata: metadata(t, finished(dead, a)...), LogDirs: []string{dir}})
	want(t, "topics", topics(h), "orders@1 0:10-30 newest")
}

// TestBrokerMovesSegments: a broker finishes a copy and then deletes the local segment. Whenever a look comes between, what
// it moved can be read, in one tier or the other.
func TestBrokerMovesSegments(t *testing.T) {
	const n = 25
	p := tp("orders", 1)
	var segs []*segment
	var begun, ended []any
	for i := range n {
		s := tens(t, p, byte(11+i), int64(10*i), 1, 0)
		segs, begun = append(segs, s), append(begun, kafkabytes.Started(s))
		ended = append(ended, kafkabytes.Update(s, format.CopySegmentFinished, s.Meta.EventTimestampMs))
	}
	log := kafkabytes.MetadataLog(t, append(begun, ended...)...)
	var ends []int
	at := 0
	for w := format.Walk(log); w.Next(); {
		at += len(w.Bytes())
		ends = append(ends, at)
	}
	meta, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(meta, "__remote_log_metadata-0", format.SegmentFileName(0, ".log"))
	kafkabytes.WriteFile(t, file, log[:ends[n-1]])
	kafkabytes.WriteLog(t, dir, p, segs...)
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, segs...), Metadata: "dir:" + meta, LogDirs: []string{dir}})
	events, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	var moved, looks atomic.Int64
	hammer.Run(t, 2, 1, func(worker, _ int) {
		if worker == 0 { // the broker
			for i := range n - 1 {
				if _, err := events.Write(log[ends[n-1+i]:ends[n+i]]); err != nil {
					t.Error(err)
				}
				if err := os.Remove(filepath.Join(dir, "orders-0", format.SegmentFileName(int64(10*i), ".log"))); err != nil {
					t.Error(err)
				}
				moved.Store(int64(i + 1))
				for seen := looks.Load(); looks.Load() == seen && !t.Failed(); { // so that each move meets another moment of a look
					runtime.Gosched()
				}
			}
			return
		}
		for done := int64(0); done < n-1 && !t.Failed(); { // the host
			done = moved.Load()
			if err := h.Look(context.Background()); err != nil {
				t.Error(err)
			}
			looks.Add(1)
			for offset := max(0, done-2); offset < min(done+3, n); offset++ {
				if got, good := read(t, h, from("orders", 10*offset)), fmt.Sprintf("NONE [%d", 10*offset); !strings.HasPrefix(got, good) {
					t.Fatalf("%d are moved, offset %d: %s", moved.Load(), 10*offset, got)
				}
			}
		}
	})
}
