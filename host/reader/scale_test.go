package reader

import (
	"context"
	"fmt"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// BenchmarkSeek shows how the cost of a lookup grows with the number of segments, each of which has a leader epoch of its own:
// not faster than it.
func BenchmarkSeek(b *testing.B) {
	for _, n := range []int64{1_000, 4_000, 16_000} {
		var segs []*segment
		for i := range n {
			s := kafkabytes.NewSegment(b, id("a"), 0, batch{Base: 10 * i, Last: 10*i + 9, Epoch: int32(i), Timestamp: 1000 + i})
			s.Meta.SegmentID = abi.UUID{0: 1, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
			segs = append(segs, s)
		}
		r := newReader(b, Better, memrsm.New(memrsm.Inline, segs...), remotePartition(b, segs...))
		for name, look := range map[string]func() error{
			"a fetch in the middle": func() error {
				req := FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: 1000, Partitions: []FetchPartition{ask("a", 5*n, 100)}}
				resp := r.Fetch(context.Background(), &req)
				defer resp.Release()
				return resp.Partitions[0].Err
			},
			"the last timestamp":     func() error { return lookUp(r, 1000+n-1).Err },
			"the greatest timestamp": func() error { return lookUp(r, MaxTimestamp).Err },
			"the last tiered offset": func() error { return lookUp(r, LatestTiered).Err },
			"a leader epoch": func() error {
				return r.OffsetForLeaderEpoch(context.Background(), &EpochRequest{Topic: "a", LeaderEpoch: int32(n / 2), CurrentLeaderEpoch: -1}).Err
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if err := look(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
