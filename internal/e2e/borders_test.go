package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/golden"
)

// TestReadGoesOn reads partitions from the remote tier with more budget than they have bytes: what comes are the remote
// segments from the first batch that is wanted, then the local ones that begin where those ended, byte for byte.
func TestReadGoesOn(t *testing.T) {
	for _, c := range []struct {
		fixture   string
		topic     string
		partition int32
		offset    int64
		local     int64 // base of the first local segment of the answer
	}{
		{"basic", "telemetry", 0, 20, 141},
		{"basic", "audit-log", 0, 0, 134},
		{"txn", "payments", 0, 900, 1129},
		{"epochs", "sensor.events", 0, 0, 939},
		{"epochs", "sensor.events", 1, 100, 155},
		{"retention", "clicks", 0, 600, 831}, // inside a batch
		{"empty-and-edge", "we.ird_topic-name.v1-0", 0, 1, 302},
		{"compacted-then-tiered", "copy-stopped-at-gap", 0, 3, 276},
	} {
		for placement, config := range placements {
			t.Run(fmt.Sprintf("%s/%s-%d/%s", c.fixture, c.topic, c.partition, placement), func(t *testing.T) {
				t.Parallel()
				cfg := fixtureConfig(config(t, filepath.Join(fixtures, c.fixture, "remote"), "location"), c.fixture)
				h := openHost(t, cfg)
				resp := h.Fetch(context.Background(), &reader.FetchRequest{ReplicaID: locality.Consumer, MaxBytes: math.MaxInt32,
					Partitions: []reader.FetchPartition{{Topic: c.topic, Partition: c.partition, Offset: c.offset, MaxBytes: math.MaxInt32,
						CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}}})
				defer resp.Release()
				p := &resp.Partitions[0]
				want, segments := filesFrom(t, filepath.Join(fixtures, c.fixture), c.topic, c.partition, c.offset, c.local)
				if p.Err != nil || !bytes.Equal(p.Records, want) {
					t.Errorf("%d bytes, want the %d of %d files: %v", len(p.Records), len(want), segments, p.Err)
				}
			})
		}
	}
}

// filesFrom puts together what a partition's files hold from offset on: remote segments up to base local, then local ones.
func filesFrom(t *testing.T, dir, topic string, partition int32, offset, local int64) (b []byte, segments int) {
	t.Helper()
	name := fmt.Sprintf("%s-%d", topic, partition)
	for _, p := range golden.Partitions(t, dir) {
		if p.Topic != topic || p.Partition != partition {
			continue
		}
		for _, s := range p.RemoteSegments { // by start offset
			if s.State != format.CopySegmentFinished.String() || s.EndOffset < offset || s.StartOffset >= local {
				continue
			}
			log := readFile(t, filepath.Join(dir, "remote", "kafka-tiered-storage", s.ObjectName+".log"))
			for w := format.Walk(log); w.Next(); {
				if w.Header().LastOffset >= offset {
					b = append(b, w.Bytes()...)
				}
			}
			segments++
		}
		for _, s := range p.LocalSegments { // by file name
			if s.File >= format.SegmentFileName(local, ".log") {
				b = append(b, readFile(t, filepath.Join(dir, "local", name, s.File))...)
				segments++
			}
		}
	}
	if segments < 2 {
		t.Fatalf("%s has %d files from %d on: there is no border to cross", name, segments, offset)
	}
	return b, segments
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
