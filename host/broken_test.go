package host

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// TestPartitionThatCannotBeRead: it answers with a storage error that says why, and is a finding; others are read.
func TestPartitionThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	a := kafkabytes.NewSegment(t, tp("orders", 1), 1, kafkabytes.Batch{Base: 0, Last: 9, ProducerID: -1})
	other := tp("orders", 1)
	other.Partition = 1
	kafkabytes.WriteLog(t, dir, tp("orders", 1), a)
	kafkabytes.WriteLog(t, dir, other, a)
	log := filepath.Join(dir, "orders-0", "00000000000000000000.log")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	h := open(t, Config{LogDirs: []string{dir}})
	for partition, want := range map[int32]reader.Code{0: reader.KafkaStorageError, 1: reader.None} {
		resp := h.Fetch(context.Background(), &reader.FetchRequest{ReplicaID: locality.Consumer, MaxBytes: 1 << 20, Partitions: []reader.FetchPartition{
			{Topic: "orders", Partition: partition, MaxBytes: 1 << 20, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}}})
		if p := resp.Partitions[0]; p.Code != want || want != reader.None && (abi.KindOf(p.Err) != abi.Invalid || !strings.Contains(p.Err.Error(), log)) {
			t.Errorf("partition %d: %v, %v", partition, p.Code, p.Err)
		}
		resp.Release()
	}
	all := h.Findings()
	if len(all) != 1 || all[0].Repaired || all[0].Partition != 0 || !strings.Contains(all[0].String(), log) {
		t.Errorf("findings %v", all)
	}
}

// TestStandingFindingsAreLoggedOnce: what is wrong with a log that grows is logged when it begins, and not with each look.
func TestStandingFindingsAreLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	batches := []kafkabytes.Batch{{Base: 0, Last: 9, ProducerID: -1}, {Base: 10, Last: 19, ProducerID: -1}}
	kafkabytes.WriteLog(t, dir, tp("orders", 1), kafkabytes.NewSegment(t, tp("orders", 1), 1, batches[0]))
	kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), []byte("0\n7\n"))
	var log strings.Builder
	h := open(t, Config{LogDirs: []string{dir}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "00000000000000000000.log"), kafkabytes.NewSegment(t, tp("orders", 1), 1, batches...).Log)
	if err := h.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	topic, err := h.Topic("orders")
	if err != nil || topic.Partitions[0].Offsets.LogEnd != 20 {
		t.Fatalf("the log did not grow: %v", err)
	}
	if n := strings.Count(log.String(), "leader-epoch-checkpoint"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}
