package host

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestObjectThatRetentionDeletedUnderAReader: the object is gone and the metadata says why, but nobody looked since: the
// read looks itself, and the offset is out of range. Where the metadata still promises the object, its absence stays the
// error.
func TestObjectThatRetentionDeletedUnderAReader(t *testing.T) {
	a, b := tens(t, tp("orders", 1), 11, 0, 2, 0), tens(t, tp("orders", 1), 12, 20, 2, 0)
	dir := filepath.Join(t.TempDir(), "meta")
	events := finished(a, b)
	kafkabytes.WriteMetadata(t, dir, events...)
	store := memrsm.New(memrsm.Inline, a, b)
	gone := false
	store.Before = func(_ context.Context, c memrsm.Call) error {
		if gone && c.Segment == a.Meta.SegmentID {
			return abi.Errorf("fetch_log_segment", "a", abi.NotFound, "no such object")
		}
		return nil
	}
	h := open(t, Config{RSM: store, Metadata: "dir:" + dir})
	gone = true
	want(t, "promised and gone", read(t, h, from("orders", 0)), "UNKNOWN_SERVER_ERROR []")
	kafkabytes.WriteMetadata(t, dir, append(events, kafkabytes.Update(a, format.DeleteSegmentStarted, 5000), kafkabytes.Update(a, format.DeleteSegmentFinished, 5001))...)
	want(t, "deleted", read(t, h, from("orders", 0)), "OFFSET_OUT_OF_RANGE []")
	want(t, "what is left", topics(h), "orders@1 0:20-40 newest")
}

// TestLocalLogIsFollowed: what a broker appends, rolls and deletes locally is there after a look.
func TestLocalLogIsFollowed(t *testing.T) {
	id := tp("orders", 1)
	a, b := tens(t, id, 11, 0, 2, 0), tens(t, id, 12, 20, 2, 0)
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, id, a)
	h := open(t, Config{LogDirs: []string{dir}})
	want(t, "at first", read(t, h, from("orders", 10)), "NONE [10]")
	kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", format.SegmentFileName(20, ".log")), b.Log)
	kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", "orders 0 40")
	want(t, "before a look", read(t, h, from("orders", 20)), "NONE []")
	if err := h.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	want(t, "after it", read(t, h, from("orders", 10)), "NONE [10 20 30]")
}
