package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type segment = kafkabytes.Segment

func tp(topic string, id byte) abi.TopicIDPartition {
	return abi.TopicIDPartition{Topic: topic, TopicID: kafkabytes.ID(id)}
}

// tens is a segment of n batches of ten offsets from start on, in one epoch.
func tens(t testing.TB, p abi.TopicIDPartition, number byte, start int64, n int, epoch int32) *segment {
	t.Helper()
	var bs []kafkabytes.Batch
	for i := range int64(n) {
		bs = append(bs, kafkabytes.Batch{Base: start + 10*i, Last: start + 10*i + 9, Size: 100, Epoch: epoch})
	}
	return kafkabytes.NewSegment(t, p, number, bs...)
}

func metadata(t testing.TB, events ...any) string {
	t.Helper()
	dir := t.TempDir()
	kafkabytes.WriteMetadata(t, dir, events...)
	return "dir:" + dir
}

// bucket opens a host over a store and metadata alone.
func bucket(t testing.TB, store *memrsm.Store, events ...any) *Host {
	t.Helper()
	return open(t, Config{RSM: store, Metadata: metadata(t, events...)})
}

func open(t testing.TB, cfg Config) *Host {
	t.Helper()
	h, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// read says what a fetch of everything from offset on gives: the code, and the base offsets of its batches.
func read(t testing.TB, h *Host, p reader.FetchPartition) string {
	t.Helper()
	if p.MaxBytes == 0 {
		p.MaxBytes = math.MaxInt32
	}
	p.LastFetchedEpoch = epoch.Undefined
	resp := h.Fetch(context.Background(), &reader.FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: math.MaxInt32,
		Partitions: []reader.FetchPartition{p}})
	defer resp.Release()
	out := []int64{}
	w := format.Walk(resp.Partitions[0].Records)
	for w.Next() {
		out = append(out, w.Header().BaseOffset)
	}
	return fmt.Sprint(resp.Partitions[0].Code, " ", out)
}

func from(topic string, offset int64) reader.FetchPartition {
	return reader.FetchPartition{Topic: topic, Offset: offset, CurrentLeaderEpoch: epoch.Undefined}
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// topics shows Topics: "name@id offsets newest".
func topics(h *Host) string {
	var out []string
	for _, t := range h.Topics() {
		s := fmt.Sprintf("%s@%d", t.Name, t.ID[15])
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d:%d-%d", p.ID.Partition, p.Offsets.LogStart, p.Offsets.LogEnd)
		}
		if t.Newest {
			s += " newest"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func finished(segs ...*segment) []any { return kafkabytes.Finished(segs...) }

// TestRecreatedTopic: the name means what was copied last, though deletions of the old one come later.
func TestRecreatedTopic(t *testing.T) {
	old, renewed := tens(t, tp("orders", 1), 11, 0, 3, 0), tens(t, tp("orders", 2), 12, 0, 1, 0)
	gone := tens(t, tp("orders", 1), 10, 0, 1, 0)
	gone.Meta.StartOffset, gone.Meta.EndOffset = 100, 109
	gone.Meta.LeaderEpochs[0].StartOffset = 100
	events := append(finished(old, gone), finished(renewed)...)
	events = append(events, kafkabytes.Update(gone, format.DeleteSegmentStarted, 1<<40), kafkabytes.Update(gone, format.DeleteSegmentFinished, 1<<40))
	h := bucket(t, memrsm.New(memrsm.Inline, old, renewed), events...)
	want(t, "topics", topics(h), "orders@2 0:0-10 newest, orders@1 0:0-30")
	want(t, "by name", read(t, h, from("orders", 0)), "NONE [0]")
	byID := from("", 0)
	byID.TopicID = kafkabytes.ID(1)
	want(t, "by the old id", read(t, h, byID), "NONE [0 10 20]")
	byID.Topic = "other"
	want(t, "another topic's id", read(t, h, byID), "UNKNOWN_TOPIC_ID []")
	for ref, id := range map[string]byte{"orders": 2, "orders@" + kafkabytes.ID(1).String(): 1} {
		if topic, err := h.Topic(ref); err != nil || topic.ID != kafkabytes.ID(id) {
			t.Errorf("%s: %v, %v, want id %d", ref, topic, err, id)
		}
	}
	for ref, kind := range map[string]abi.Kind{"orders@" + kafkabytes.ID(3).String(): abi.NotFound, "orders@x": abi.Invalid, "none": abi.NotFound} {
		if _, err := h.Topic(ref); abi.KindOf(err) != kind {
			t.Errorf("%s: %v, want %v", ref, err, kind)
		}
	}
}

// TestLocalIncarnation: what lies locally is what the name means, whatever was copied later under another id.
func TestLocalIncarnation(t *testing.T) {
	other, mine := tens(t, tp("orders", 1), 12, 0, 1, 0), tens(t, tp("orders", 2), 11, 0, 2, 0)
	local := tens(t, tp("orders", 2), 13, 20, 1, 0)
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp("orders", 2), local)
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, other, mine), Metadata: metadata(t, finished(other, mine)...), LogDirs: []string{dir}})
	want(t, "topics", topics(h), "orders@2 0:0-30 newest, orders@1 0:0-10")
	want(t, "over the border", read(t, h, from("orders", 5)), "NONE [0 10 20]")
}

// TestLogsWithoutID: logs that lost their partition.metadata belong to their siblings, else to the newest incarnation.
func TestLogsWithoutID(t *testing.T) {
	for _, siblings := range []bool{true, false} {
		old, mine := tens(t, tp("orders", 1), 11, 0, 1, 0), tens(t, tp("orders", 2), 12, 0, 2, 0)
		nameless := abi.TopicIDPartition{Topic: "orders"}
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, nameless, tens(t, nameless, 13, 20, 1, 0))
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
		id := byte(2)
		if siblings {
			id = 1
			sibling := tp("orders", 1)
			sibling.Partition = 1
			kafkabytes.WriteLog(t, dir, sibling, tens(t, sibling, 14, 0, 1, 0))
		}
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, old, mine), Metadata: metadata(t, finished(old, mine)...), LogDirs: []string{dir}})
		topic, err := h.Topic("orders")
		if err != nil || topic.ID != kafkabytes.ID(id) || topic.Partitions[0].Local == nil || topic.Partitions[0].Remote == nil {
			t.Errorf("siblings %v: %s, %v, want id %d with both tiers", siblings, topics(h), err, id)
		}
	}
}

// TestLongNames: topics without ids whose names begin alike are still two topics.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"telemetry-data-production", "telemetry-data-production-2"} {
		p := abi.TopicIDPartition{Topic: name}
		kafkabytes.WriteLog(t, dir, p, tens(t, p, 1, 0, i+1, 0))
	}
	h := open(t, Config{LogDirs: []string{dir}})
	want(t, "topics", topics(h), "telemetry-data-production@0 0:0-10 newest, telemetry-data-production-2@0 0:0-20 newest")
	want(t, "the second", read(t, h, from("telemetry-data-production-2", 0)), "NONE [0 10]")
}

// TestFailedCopies: a copy that was given up is passed over; its retry has another id and holds the same offsets.
func TestFailedCopies(t *testing.T) {
	p := tp("orders", 1)
	a, failed, retry, running := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 20, 2, 0), tens(t, p, 13, 20, 2, 0), tens(t, p, 14, 40, 2, 0)
	events := append(finished(a), kafkabytes.Started(failed))
	events = append(append(events, finished(retry)...), kafkabytes.Started(running))
	store := memrsm.New(memrsm.Inline, a, retry)
	h := bucket(t, store, events...)
	want(t, "topics", topics(h), "orders@1 0:0-40 newest")
	for offset, w := range map[int64]string{0: "NONE [0 10 20 30]", 20: "NONE [20 30]", 39: "NONE [30]", 40: "NONE []", 41: "NOT_LEADER_OR_FOLLOWER []", 59: "NOT_LEADER_OR_FOLLOWER []", 60: "OFFSET_OUT_OF_RANGE []"} {
		want(t, fmt.Sprint("offset ", offset), read(t, h, from("orders", offset)), w)
	}
	only := bucket(t, memrsm.New(memrsm.Inline), kafkabytes.Started(failed))
	want(t, "nothing finished", topics(only), "orders@1 0:0-0 newest")
	want(t, "its begin", read(t, only, from("orders", 0)), "NONE []")

	// The failed copy came first and the local log still has it: KAFKA-16088's neighbour.
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, p, running)
	kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
	h = open(t, Config{RSM: store, Metadata: metadata(t, events...), LogDirs: []string{dir}})
	want(t, "with a local tier", read(t, h, from("orders", 15)), "NONE [10 20 30 40 50]")
}

// TestDeletedFront: the log starts with the first segment that is not being deleted.
func TestDeletedFront(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 0, 1, 0), tens(t, p, 12, 10, 1, 0), tens(t, p, 13, 20, 1, 0)
	events := append(finished(a, b, c), kafkabytes.Update(a, format.DeleteSegmentStarted, 5000),
		kafkabytes.Update(a, format.DeleteSegmentFinished, 5001), kafkabytes.Update(b, format.DeleteSegmentStarted, 5002))
	h := bucket(t, memrsm.New(memrsm.Inline, b, c), events...)
	want(t, "topics", topics(h), "orders@1 0:20-30 newest")
	want(t, "what is being deleted", read(t, h, from("orders", 10)), "OFFSET_OUT_OF_RANGE []")
	want(t, "the rest", read(t, h, from("orders", 20)), "NONE [20]")
}

// TestSupersededSegments: overlapping and nested segments, of one leader and of two, hide no offset.
func TestSupersededSegments(t *testing.T) {
	p := tp("orders", 1)
	for name, segs := range map[string][]*segment{
		"nested":           {tens(t, p, 11, 0, 6, 0), tens(t, p, 12, 20, 2, 0)},
		"same start":       {tens(t, p, 11, 0, 6, 0), tens(t, p, 12, 0, 2, 0)},
		"covered":          {tens(t, p, 11, 20, 2, 0), tens(t, p, 12, 0, 6, 0)},
		"overlapping":      {tens(t, p, 11, 0, 4, 0), tens(t, p, 12, 20, 4, 0)},
		"copied twice":     {tens(t, p, 11, 0, 6, 0), tens(t, p, 12, 0, 6, 0)},
		"in another order": {tens(t, p, 11, 40, 2, 0), tens(t, p, 12, 0, 4, 0)},
	} {
		h := bucket(t, memrsm.New(memrsm.Stream, segs...), finished(segs...)...)
		want(t, name, topics(h), "orders@1 0:0-60 newest")
		for offset := int64(0); offset < 60; offset++ {
			one := from("orders", offset)
			one.MaxBytes = 100
			want(t, fmt.Sprintf("%s, offset %d", name, offset), read(t, h, one), fmt.Sprintf("NONE [%d]", offset/10*10))
		}
		want(t, name+", all of it", read(t, h, from("orders", 0)), "NONE [0 10 20 30 40 50]")
	}
}

// TestFencedLeader: what a leader that was fenced had uploaded is never read; the lineage says which one counts.
func TestFencedLeader(t *testing.T) {
	p := tp("orders", 1)
	good := kafkabytes.NewSegment(t, p, 11, kafkabytes.Batch{Base: 0, Last: 9, Epoch: 0}, kafkabytes.Batch{Base: 10, Last: 19, Epoch: 2})
	fenced := tens(t, p, 12, 10, 1, 1)
	h := bucket(t, memrsm.New(memrsm.Inline, good, fenced), finished(good, fenced)...)
	part, err := h.Partition(context.Background(), h.Topics()[0], 0)
	if err != nil || fmt.Sprint(part.Lineage.Entries()) != "[{0 0} {2 10}]" {
		t.Fatalf("lineage %v, %v", part, err)
	}
	seg, _ := part.Remote.Lookup(2, 10)
	if seg.SegmentID != good.Meta.SegmentID {
		t.Errorf("offset 10 is in %v", seg.SegmentID)
	}
	want(t, "read", read(t, h, from("orders", 10)), "NONE [10]")
}

// TestLeaderEpochs: without a local tier they come from the newest segment's index, and from the metadata where that is
// missing, empty or damaged. A store that is down is an error that can be tried again.
func TestLeaderEpochs(t *testing.T) {
	p := tp("orders", 1)
	for name, index := range map[string][]byte{"there": []byte("0\n2\n0 0\n4 10\n"), "missing": nil, "empty": {}, "damaged": []byte("0\n7\n1 x\n"),
		"of another version": []byte("9\n0\n")} {
		a, b := tens(t, p, 11, 0, 1, 0), tens(t, p, 12, 10, 2, 4)
		b.Epochs = index
		h := bucket(t, memrsm.New(memrsm.Inline, a, b), finished(a, b)...)
		want(t, name, read(t, h, from("orders", 0)), "NONE [0 10 20]")
		for current, code := range map[int32]string{3: "FENCED_LEADER_EPOCH []", 4: "NONE [10 20]", 5: "UNKNOWN_LEADER_EPOCH []"} {
			r := from("orders", 10)
			r.CurrentLeaderEpoch = current
			want(t, fmt.Sprintf("%s, epoch %d", name, current), read(t, h, r), code)
		}
	}
	a := tens(t, p, 11, 0, 1, 0)
	store := memrsm.New(memrsm.Inline, a)
	down := true
	store.Before = func(context.Context, memrsm.Call) error {
		if down {
			return abi.E("fetch_index", "", abi.Unavailable, errors.New("down"))
		}
		return nil
	}
	h := bucket(t, store, finished(a)...)
	want(t, "down", read(t, h, from("orders", 0)), "KAFKA_STORAGE_ERROR []")
	down = false
	want(t, "up again", read(t, h, from("orders", 0)), "NONE [0]")
}

// TestCheckpointLost is spec 10.9, X9: without checkpoints everything can still be read from the earliest offset.
func TestCheckpointLost(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 20, 2, 0), tens(t, p, 13, 40, 2, 0)
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, p, b, c)
	kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), nil)
	h := open(t, Config{RSM: memrsm.New(memrsm.Stream, a, b), Metadata: metadata(t, finished(a, b)...), LogDirs: []string{dir}})
	want(t, "topics", topics(h), "orders@1 0:0-60 newest")
	want(t, "from the begin", read(t, h, from("orders", 0)), "NONE [0 10 20 30 40 50]")
}

// TestDamagedMetadata: what can't be used is named in the report, and the rest is served.
func TestDamagedMetadata(t *testing.T) {
	a := tens(t, tp("orders", 1), 11, 0, 1, 0)
	var log bytes.Buffer
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a), Metadata: metadata(t, append([]any{[]byte{9, 9, 9}}, finished(a)...)...),
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	want(t, "read", read(t, h, from("orders", 0)), "NONE [0]")
	if r := h.Report(); len(r.Problems) != 1 || r.Applied != 2 || !strings.Contains(log.String(), "offset 0") {
		t.Errorf("report %+v, log %s", r, log.String())
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		cfg   Config
		kind  abi.Kind
		words string
	}{
		"nothing":               {Config{}, abi.Invalid, "nothing to read"},
		"an unknown source":     {Config{Metadata: "kafka:x"}, abi.Invalid, "dir:PATH"},
		"no source":             {Config{Metadata: dir}, abi.Invalid, "dir:PATH"},
		"no metadata there":     {Config{Metadata: "dir:" + dir}, abi.NotFound, "__remote_log_metadata-N"},
		"no log directory":      {Config{LogDirs: []string{dir, filepath.Join(dir, "none")}}, abi.NotFound, "none"},
		"no root":               {Config{RSM: memrsm.New(memrsm.Inline), Roots: map[string]string{"root": dir + "/none"}, LogDirs: []string{dir}}, abi.NotFound, "root"},
		"a cache that can't be": {Config{LogDirs: []string{dir}, CacheDir: "/dev/null/cache"}, abi.NotFound, "cache"},
	} {
		h, err := Open(context.Background(), tt.cfg)
		if h != nil || abi.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want %v and %q", name, err, tt.kind, tt.words)
		}
	}
}

// TestCacheDir: a second host finds the directory taken and keeps its caches in memory; a later one finds the indexes.
func TestCacheDir(t *testing.T) {
	a := tens(t, tp("orders", 1), 11, 0, 3, 0)
	store := memrsm.New(memrsm.Inline, a)
	var log bytes.Buffer
	cfg := Config{RSM: store, Metadata: metadata(t, finished(a)...), CacheDir: filepath.Join(t.TempDir(), "cache"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	index := func() (n int) {
		for _, c := range store.Calls() {
			if c.Index == abi.OffsetIndex {
				n++
			}
		}
		return n
	}
	first, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, cfg)
	if !strings.Contains(log.String(), "in use") {
		t.Errorf("log: %s", log.String())
	}
	for _, h := range []*Host{first, second} {
		want(t, "read", read(t, h, from("orders", 25)), "NONE [20]")
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	third := open(t, cfg)
	want(t, "read", read(t, third, from("orders", 25)), "NONE [20]")
	if index() != 2 {
		t.Errorf("the index was fetched %d times, want 2: the third host found it on disk", index())
	}
	kafkabytes.WriteFile(t, filepath.Join(cfg.CacheDir+"2", stampName), []byte("rsmhost cache 99\n"))
	cfg.CacheDir += "2"
	if _, err := Open(context.Background(), cfg); abi.KindOf(err) != abi.Precondition {
		t.Errorf("a directory of a later version: %v", err)
	}
}
