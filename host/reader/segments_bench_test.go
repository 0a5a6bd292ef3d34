package reader

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// BenchmarkReadCommitted is what a consumer's read of a whole partition costs, a segment a fetch: each commits what the one before
// it began, and the metadata does not tell empty transaction indexes, as before Kafka 4.0. ns/segment shows the growth.
func BenchmarkReadCommitted(b *testing.B) {
	for _, n := range []int64{1000, 4000, 16_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			segs := make([]*segment, n)
			for i := range segs {
				base := 10 * int64(i)
				s := kafkabytes.NewSegment(b, id("a"), 1, batch{Base: base, Last: base + 4, Attributes: kafkabytes.Transactional, ProducerID: 1 + int64(i)})
				if i > 0 {
					s = kafkabytes.NewSegment(b, id("a"), 1, kafkabytes.Marker(base, int64(i), true), txn(base+1, base+9, 1+int64(i)))
				}
				s.Meta.SegmentID = abi.UUID{13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
				s.Meta.StartOffset, s.Meta.EndOffset, s.Meta.TxnIndexEmpty = base, base+9, false
				segs[i] = s
			}
			part := remotePartition(b, segs...)
			for b.Loop() {
				r := newReader(b, Better, memrsm.New(memrsm.Inline, segs...), part)
				for _, s := range segs {
					resp := r.Fetch(context.Background(), &FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: math.MaxInt32,
						Isolation: locality.ReadCommitted, Partitions: []FetchPartition{ask("a", s.Meta.StartOffset, 1)}})
					if p := resp.Partitions[0]; len(p.Records) == 0 {
						b.Fatal(p.Err)
					}
					resp.Release()
				}
				r.indexes.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/segment")
		})
	}
}
