package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// The cases of spec 10.1 and the rows of section 11 that are seen where both tiers come together.

// TestR5TopicID: segments are looked up by the topic's id, and asked for with it. An id that nobody knows is an error.
func TestR5TopicID(t *testing.T) {
	one, two := tens(t, tp("orders", 1), 11, 0, 2, 0), tens(t, tp("orders", 2), 12, 0, 2, 0)
	for id, seg := range map[byte]*segment{1: one, 2: two} {
		store := memrsm.New(memrsm.Inline, one, two)
		h := bucket(t, store, finished(one, two)...)
		p := from("orders", 0)
		p.TopicID = kafkabytes.ID(id)
		want(t, fmt.Sprint("id ", id), read(t, h, p), "NONE [0 10]")
		for _, c := range store.Calls() {
			if c.Segment != seg.Meta.SegmentID {
				t.Errorf("id %d: segment %s of another topic was asked for", id, c.Segment)
			}
		}
		p.TopicID = kafkabytes.ID(3)
		want(t, "an unknown id", read(t, h, p), "UNKNOWN_TOPIC_ID []")
	}
}

// TestDefect21NotReady (KAFKA-19599): Kafka's reads fail at once while the metadata is loaded, and clients storm the broker
// with retries. A Host has its metadata before it answers anything: Open ends with it, or fails. What may come later, the
// leader epochs of a partition that is only in the store, is waited for; if the store has none the client is told to try
// again, and not that its offset is out of range.
func TestDefect21NotReady(t *testing.T) {
	a := tens(t, tp("orders", 1), 11, 0, 2, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if h, err := Open(ctx, Config{RSM: memrsm.New(memrsm.Inline, a), Metadata: metadata(t, finished(a)...)}); h != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a Host without its metadata: %v, %v", h != nil, err)
	}
	synctest.Test(t, func(t *testing.T) {
		store := memrsm.New(memrsm.Inline, a)
		var down atomic.Bool
		store.Before = func(_ context.Context, c memrsm.Call) error {
			time.Sleep(time.Second)
			if down.Load() && c.Index == abi.LeaderEpochIndex {
				return abi.E("fetch_index", "", abi.Unavailable, errors.New("down"))
			}
			return nil
		}
		down.Store(true)
		h := bucket(t, store, finished(a)...)
		began := time.Now()
		want(t, "no epochs yet", read(t, h, from("orders", 0)), "KAFKA_STORAGE_ERROR []")
		if took := time.Since(began); took < time.Second {
			t.Errorf("refused after %v", took)
		}
		down.Store(false)
		want(t, "with them", read(t, h, from("orders", 0)), "NONE [0 10]")
	})
}

// TestDefect23CloseOrder (KAFKA-19597): Kafka closed the store and the index cache under its readers. Here reads that go
// on behind their request end first, and what they read from is closed after them.
func TestDefect23CloseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := tp("orders", 1)
		a, b := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 20, 2, 0)
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, b)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 0")
		store := memrsm.New(memrsm.Inline, a)
		var running atomic.Int32
		store.Before = func(ctx context.Context, _ memrsm.Call) error {
			running.Add(1)
			defer running.Add(-1)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		h, err := Open(context.Background(), Config{RSM: store, Metadata: metadata(t, finished(a)...), LogDirs: []string{dir}, RemoteWait: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "late", read(t, h, from("orders", 0)), "NONE []")
		if running.Load() != 1 {
			t.Fatal("the read does not go on")
		}
		for i, c := range h.closers { // each is told of what runs when its turn comes
			h.closers[i] = func() error {
				if err := c(); err != nil {
					return err
				}
				if n := running.Load(); n != 0 && i < len(h.closers)-1 {
					return fmt.Errorf("closer %d ran while %d reads did", i, n)
				}
				return nil
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d reads outlive the host", n)
		}
	})
}

// TestDefect36LogStart (KAFKA-15351): the log start was worked out anew after a restart, from what is local, and the
// remote tier below it could not be read any more. What the checkpoint says is kept, be it lower or higher than either
// tier's begin; where there is none, what the remote tier holds tells.
func TestDefect36LogStart(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 10, 2, 0), tens(t, p, 12, 30, 2, 0), tens(t, p, 13, 50, 2, 0)
	for checkpoint, w := range map[string]struct{ topics, at10 string }{
		"orders 0 10": {"orders@1 0:10-70 newest", "NONE [10 20 30 40 50 60]"},
		"orders 0 30": {"orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"orders 0 60": {"orders@1 0:60-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"others 0 1":  {"orders@1 0:10-70 newest", "NONE [10 20 30 40 50 60]"},
	} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, c)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", checkpoint)
		for range 2 { // and again after a restart
			h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b), Metadata: metadata(t, finished(a, b)...), LogDirs: []string{dir}})
			want(t, checkpoint, topics(h), w.topics)
			want(t, checkpoint, read(t, h, from("orders", 10)), w.at10)
		}
	}
}

// TestLogStartAheadOfCheckpoint: a broker writes its checkpoint once a minute. What it deleted since then is gone: a client
// that is sent to the checkpoint's offset would be told OFFSET_OUT_OF_RANGE, and be sent there again. What is merely not
// there is told as missing; the log begins with the remote tier then, and never with the local one.
func TestLogStartAheadOfCheckpoint(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 10, 2, 0), tens(t, p, 12, 30, 2, 0), tens(t, p, 13, 50, 2, 0)
	gone := func(segs ...*segment) (out []any) {
		for _, s := range segs {
			out = append(out, kafkabytes.Update(s, format.DeleteSegmentStarted, 5000), kafkabytes.Update(s, format.DeleteSegmentFinished, 5001))
		}
		return out
	}
	for name, w := range map[string]struct {
		events   []any
		topics   string
		at10     string
		findings string
	}{
		"nothing deleted":    {finished(a, b), "orders@1 0:10-70 newest", "NONE [10 20 30 40 50 60]", ""},
		"the first":          {append(finished(a, b), gone(a)...), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []", ""},
		"deletion began":     {append(finished(a, b), kafkabytes.Update(a, format.DeleteSegmentStarted, 5000)), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []", ""},
		"all that is remote": {append(finished(a, b), gone(a, b)...), "orders@1 0:50-70 newest", "OFFSET_OUT_OF_RANGE []", ""},
		"never copied": {finished(b), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []",
			"orders-0, offset 10: offsets 10 to 29 are in no tier, and by the log-start checkpoint the log begins with 10: it begins with 30 here"},
		"not all of it": {append(finished(a), gone(a)...), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []", "orders-0, offset 30: offsets 30 to 49 are not local"},
		"nothing": {finished(tens(t, tp("others", 2), 15, 0, 1, 0)), "orders@1 0:10-70 newest, others@2 0:0-10 newest", "NOT_LEADER_OR_FOLLOWER []",
			"orders-0, offset 10: offsets 10 to 49 are not local"},
	} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, c)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 10")
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b), Metadata: metadata(t, w.events...), LogDirs: []string{dir}})
		want(t, name, topics(h), w.topics)
		want(t, name, read(t, h, from("orders", 10)), w.at10)
		wantFinding(t, name, h, w.findings)
	}
}

// wantFinding checks that a host's one finding begins with the text; empty: that it has none.
func wantFinding(t *testing.T, what string, h *Host, text string) {
	t.Helper()
	all := h.Findings()
	if text == "" && len(all) > 0 || text != "" && (len(all) != 1 || !strings.HasPrefix(all[0].String(), text)) {
		t.Errorf("%s: findings %v, want %q", what, all, text)
	}
}

// TestHighWatermarkBehindTheTiers: a broker writes its checkpoint of high watermarks every five seconds, and not when it is
// killed. What it copied or deleted locally since then was committed all the same: a client must be able to read across the
// border of the tiers, and to find the end of what is there. Above that nothing is known to be committed.
func TestHighWatermarkBehindTheTiers(t *testing.T) {
	p := tp("orders", 1)
	a, b, c, d := tens(t, p, 11, 10, 2, 0), tens(t, p, 12, 30, 2, 0), tens(t, p, 13, 50, 2, 0), tens(t, p, 14, 70, 1, 0)
	for name, w := range map[string]struct {
		checkpoint string
		local      []*segment
		remote     []any
		hw         int64
		at30       string
	}{
		"at the end":                  {"orders 0 80", []*segment{c, d}, finished(a, b), 80, "NONE [30 40 50 60 70]"},
		"in the local tier":           {"orders 0 70", []*segment{c, d}, finished(a, b), 70, "NONE [30 40 50 60]"},
		"below the local tier":        {"orders 0 20", []*segment{c, d}, finished(a, b), 50, "NONE [30 40]"},
		"below a copied segment":      {"orders 0 20", []*segment{c, d}, finished(a, b, c), 70, "NONE [30 40 50 60]"},
		"below an overlap":            {"orders 0 20", []*segment{b, c, d}, finished(a, b, c), 70, "NONE [30 40 50 60]"},
		"a copy that is not finished": {"orders 0 20", []*segment{b, c, d}, append(finished(a), kafkabytes.Started(b)), 30, "NONE []"},
		"a log that was cut":          {"orders 0 20", []*segment{b}, finished(a, b, c), 50, "NONE [30 40]"},
	} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, w.local...)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 10")
		kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", w.checkpoint)
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b, c), Metadata: metadata(t, w.remote...), LogDirs: []string{dir}})
		o := h.Topics()[0].Partitions[0].Offsets
		want(t, name, fmt.Sprint(o.HighWatermark, o.LastStableOffset), fmt.Sprint(w.hw, w.hw))
		want(t, name, read(t, h, from("orders", 30)), w.at30)
	}
}

// TestLogStartWhileRetentionBegins: a broker raises the log start first, in memory and in the leader epochs' file, and then
// deletes segment after segment, which may take minutes. Meanwhile what it is about to delete is gone for its clients, and so
// it is here: else one that starts at the log's begin would ask for it and be told to try again.
func TestLogStartWhileRetentionBegins(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 10, 2, 0), tens(t, p, 12, 30, 2, 0), tens(t, p, 13, 50, 2, 0)
	began := kafkabytes.Update(a, format.DeleteSegmentStarted, 5000)
	for name, w := range map[string]struct {
		cut    int64
		events []any
		topics string
		at10   string
	}{
		"not cut":                              {0, finished(a, b), "orders@1 0:10-70 newest", "NONE [10 20 30 40 50 60]"},
		"cut at the log's begin":               {10, finished(a, b), "orders@1 0:10-70 newest", "NONE [10 20 30 40 50 60]"},
		"cut, nothing deleted":                 {30, finished(a, b), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"cut, the deletion began":              {30, append(finished(a, b), began), "orders@1 0:30-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"cut within a segment":                 {40, finished(a, b), "orders@1 0:40-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"cut behind two, one deletion began":   {50, append(finished(a, b), began), "orders@1 0:50-70 newest", "OFFSET_OUT_OF_RANGE []"},
		"lost, and begun anew after a restart": {70, finished(a, b), "orders@1 0:10-70 newest", "NOT_LEADER_OR_FOLLOWER []"},
	} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, c)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 10")
		kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), format.AppendLeaderEpochs(nil, []abi.LeaderEpoch{{Epoch: 0, StartOffset: w.cut}}))
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b), Metadata: metadata(t, w.events...), LogDirs: []string{dir}})
		want(t, name, topics(h), w.topics)
		want(t, name, read(t, h, from("orders", 10)), w.at10)
	}
}

// TestRetentionThatReachesTheLocalTier: where all of the remote tier has expired, retention goes on in the local one: that the leader
// epochs begin with a later local segment, and the metadata has no segment below the local tier any more, is no finding.
func TestRetentionThatReachesTheLocalTier(t *testing.T) {
	p := tp("orders", 1)
	b, c, d := tens(t, p, 12, 30, 2, 0), tens(t, p, 13, 50, 2, 0), tens(t, p, 14, 70, 2, 0)
	for cut, found := range map[int64]int{50: 0, 60: 1, 90: 1} {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, p, b, c, d)
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 10")
		kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), format.AppendLeaderEpochs(nil, []abi.LeaderEpoch{{Epoch: 0, StartOffset: cut}}))
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, b), Metadata: metadata(t, finished(b)...), LogDirs: []string{dir}})
		if got := h.Topics()[0].Partitions[0].Findings; len(got) != found {
			t.Errorf("leader epochs from %d: %v, want %d", cut, got, found)
		}
	}
}

// TestDefect2ColdPartition: the leader epochs of a partition that is only in the store come from there, and a store that is
// slow at it holds back neither the rest of the request beyond the wait nor another request: the one is told to try again,
// as Kafka does while metadata is loaded, and what was begun goes on for the retry.
func TestDefect2ColdPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, local := tens(t, tp("cold", 1), 11, 0, 2, 0), tens(t, tp("cool", 3), 12, 0, 2, 0), tens(t, tp("near", 2), 13, 0, 1, 0)
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, tp("near", 2), local)
		store := memrsm.New(memrsm.Inline, a, b)
		store.Before = func(_ context.Context, c memrsm.Call) error {
			if c.Index == abi.LeaderEpochIndex {
				time.Sleep(2 * time.Second)
			}
			return nil
		}
		h := open(t, Config{RSM: store, Metadata: metadata(t, finished(a, b)...), LogDirs: []string{dir}, RemoteWait: 500 * time.Millisecond})
		round := func() (codes []string, took time.Duration) {
			began := time.Now()
			req := &reader.FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: 10_000}
			for _, topic := range []string{"cold", "near", "cool"} {
				p := from(topic, 0)
				p.MaxBytes, p.LastFetchedEpoch = 1000, epoch.Undefined
				req.Partitions = append(req.Partitions, p)
			}
			resp := h.Fetch(context.Background(), req)
			defer resp.Release()
			for _, p := range resp.Partitions {
				codes = append(codes, fmt.Sprint(p.Code, " ", len(p.Records)))
			}
			return codes, time.Since(began)
		}
		codes, took := round()
		want(t, "at first", fmt.Sprint(codes, took), "[REPLICA_NOT_AVAILABLE 0 NONE 100 REPLICA_NOT_AVAILABLE 0] 500ms")
		hurried, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := h.Partition(hurried, h.Topics()[0], 0); !errors.Is(err, abi.Deadline) {
			t.Errorf("one in a hurry: %v", err)
		}
		time.Sleep(2 * time.Second)
		codes, took = round()
		want(t, "then", fmt.Sprint(codes, took), "[NONE 200 NONE 100 NONE 200] 0s")
		epochs := 0
		for _, c := range store.Calls() {
			if c.Index == abi.LeaderEpochIndex {
				epochs++
			}
		}
		if epochs != 2 {
			t.Errorf("leader epochs were read %d times, want once a partition", epochs)
		}
		if err := h.Close(); err != nil { // while nothing is read
			t.Error(err)
		}
	})
}

// TestCloseEndsEpochReads: a read of leader epochs that nobody waits for any more ends with the host.
func TestCloseEndsEpochReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := tens(t, tp("cold", 1), 11, 0, 2, 0)
		store := memrsm.New(memrsm.Inline, a)
		store.Before = func(ctx context.Context, _ memrsm.Call) error { <-ctx.Done(); return context.Cause(ctx) }
		h, err := Open(context.Background(), Config{RSM: store, Metadata: metadata(t, finished(a)...), RemoteWait: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "cold", read(t, h, from("cold", 0)), "REPLICA_NOT_AVAILABLE []")
		began := time.Now()
		if err := h.Close(); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
