package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

type timedRecord struct {
	Topic     string
	Partition int32
	Offset    *int64
	Timestamp int64
}

// TestOffsetsByTimeFindDataRecords holds -3 and lookups by time against the records that a consumer read: the first with
// the greatest timestamp, and the first at or after a time. No marker and nothing below the log start counts.
func TestOffsetsByTimeFindDataRecords(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		h := openHost(t, fixtureConfig(builtIn(t, filepath.Join(fixtures, fixture, "remote"), "location"), fixture))
		for part, records := range goldenTimes(t, fixture) {
			ask := func(ts int64) reader.OffsetData {
				return h.ListOffsets(context.Background(), &reader.ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer, Partitions: []reader.ListOffsetsPartition{
					{Topic: part.Topic, Partition: part.Partition, Timestamp: ts, CurrentLeaderEpoch: epoch.Undefined}}})[0]
			}
			best := records[0]
			for _, r := range records {
				if r.Timestamp > best.Timestamp {
					best = r
				}
			}
			if got := ask(reader.MaxTimestamp); got.Offset != *best.Offset || got.Timestamp != best.Timestamp {
				t.Errorf("%s %v -3: want %d at %d, got %d at %d (%v)", fixture, part, *best.Offset, best.Timestamp, got.Offset, got.Timestamp, got.Err)
			}
			for i := 0; i < len(records); i += 37 {
				ts := records[i].Timestamp
				want := firstAt(records, ts)
				if got := ask(ts); got.Offset != *want.Offset || got.Timestamp != want.Timestamp {
					t.Errorf("%s %v time %d: want %d at %d, got %d at %d (%v)", fixture, part, ts, *want.Offset, want.Timestamp, got.Offset, got.Timestamp, got.Err)
				}
			}
			if got := ask(best.Timestamp + 1); got.Offset != -1 || got.Err != nil {
				t.Errorf("%s %v behind the last time: got %d (%v)", fixture, part, got.Offset, got.Err)
			}
		}
	}
}

type partitionKey struct {
	Topic     string
	Partition int32
}

func goldenTimes(t *testing.T, fixture string) map[partitionKey][]timedRecord {
	t.Helper()
	f, err := os.Open(filepath.Join(fixtures, fixture, "golden", "records-uncommitted.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[partitionKey][]timedRecord{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var r timedRecord
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Offset != nil {
			out[partitionKey{r.Topic, r.Partition}] = append(out[partitionKey{r.Topic, r.Partition}], r)
		}
	}
	return out
}

func firstAt(records []timedRecord, ts int64) timedRecord {
	for _, r := range records {
		if r.Timestamp >= ts {
			return r
		}
	}
	return timedRecord{}
}
