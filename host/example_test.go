package host_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

const data = "../testdata/kafka/basic/"

// tiered is a storage backend in the program itself. It says in which file an object lies; the host reads it.
type tiered struct{}

func (tiered) FetchLogSegment(_ context.Context, seg *abi.SegmentMetadata, _ abi.Range) (*abi.Source, error) {
	return file(seg, ".log"), nil
}

func (tiered) FetchIndex(_ context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	suffix := map[abi.IndexType]string{abi.OffsetIndex: ".index", abi.TimeIndex: ".timeindex", abi.LeaderEpochIndex: ".leader_epoch_checkpoint"}[t]
	if suffix == "" {
		return nil, abi.Errorf("fetch_index", seg.Key(), abi.NotFound, "no %v index", t)
	}
	return file(seg, suffix), nil
}

func file(seg *abi.SegmentMetadata, suffix string) *abi.Source {
	path := fmt.Sprintf("%s-%d-%s/%020d-%s%s", seg.Topic, seg.Partition, seg.TopicID, seg.StartOffset, seg.SegmentID, suffix)
	return &abi.Source{OriginalSize: -1, Location: &abi.Location{Scope: abi.ScopeObject,
		Parts: []abi.Part{{File: &abi.FilePart{Root: "tiered", Path: path, Length: -1}}}}}
}

// A host reads a tiered topic through a backend that is built into the program; with Config.Plugin instead of RSM and
// Roots it would be a plugin.
func ExampleOpen() {
	ctx := context.Background()
	h, err := host.Open(ctx, host.Config{
		RSM:      tiered{},
		Roots:    map[string]string{"tiered": data + "remote/kafka-tiered-storage"},
		Metadata: "dir:" + data + "rlmm",
		LogDirs:  []string{data + "local"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	resp := h.Fetch(ctx, &reader.FetchRequest{
		ReplicaID: locality.Consumer,
		MaxBytes:  1 << 20,
		Partitions: []reader.FetchPartition{{
			Topic: "telemetry", Partition: 0, Offset: 138, MaxBytes: 4096,
			CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined,
		}},
	})
	defer resp.Release()
	p := &resp.Partitions[0]
	if p.Err != nil {
		log.Fatal(p.Err)
	}
	records, next, err := host.Consume(p, 138, locality.ReadUncommitted)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d records of %d to %d\n", len(records), p.LogStartOffset, p.HighWatermark-1)
	for _, r := range records {
		fmt.Printf("%d %s %.24s\n", r.Offset, r.Key, r.Value)
	}
	fmt.Println("next", next)
	// Output:
	// 3 records of 0 to 481
	// 138 dev-41 {"device":"dev-000","seq
	// 139 dev-59 {"device":"dev-054","seq
	// 140 dev-10 {"device":"dev-024","seq
	// next 141
}
