// Package golden reads what six Apache Kafka brokers recorded about their own data (testdata/kafka): tests hold the
// host against it.
package golden

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Each runs test for each recorded broker, with its folder.
func Each(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root(t), "testdata", "kafka", "*", "golden"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no recorded brokers: %v", err)
	}
	for _, g := range found {
		dir := filepath.Dir(g)
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

// root is the module's folder: the nearest above the test's that has a go.mod.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// Segment is a remote segment as the broker's metadata had it at the end.
type Segment struct {
	SegmentID        string
	StartOffset      int64
	EndOffset        int64
	LeaderEpochs     map[int32]int64
	SizeInBytes      int64
	MaxTimestampMs   int64
	TxnIdxEmpty      bool
	State            string
	BrokerID         int32
	EventTimestampMs int64
	ObjectName       string
}

// Partition is what a broker said of one of its partitions.
type Partition struct {
	Topic                 string
	TopicID               string
	Partition             int32
	LeaderEpoch           int32
	RemoteStorageEnable   bool
	LogStartOffset        int64
	LocalLogStartOffset   int64
	HighWatermark         int64
	LastStableOffset      int64
	HighestRemoteOffset   int64
	LeaderEpochCheckpoint map[int32]int64
	RemoteSegments        []Segment
	LocalSegments         []struct {
		File string
		Size int64
	}
}

// Partitions reads a broker's partitions.json.
func Partitions(t testing.TB, dir string) []Partition {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "golden", "partitions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Partitions []Partition }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Partitions) == 0 {
		t.Fatal("the broker recorded no partition")
	}
	return all.Partitions
}

// Batch is one batch that Kafka's own classes found in a segment.
type Batch struct {
	Topic     string
	Partition int32
	Tier      string // local or remote
	File      string
	Position  int64
	Size      int64
	Base      int64
	Last      int64
}

// Batches reads a broker's batches.jsonl, in its order: by file, then position.
func Batches(t testing.TB, dir string) []Batch {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "golden", "batches.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []Batch
	for s := bufio.NewScanner(f); s.Scan(); {
		var b Batch
		if err := json.Unmarshal(s.Bytes(), &b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		t.Fatal("the broker recorded no batch")
	}
	return all
}
