package reader

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestDamagedLocalHeader is TestDamagedHeader in the local tier, where records are copied and where the answer is stretches of
// files, of which only headers are read. Bits that only a CRC could tell are left out for the latter: a client checks it.
func TestDamagedLocalHeader(t *testing.T) {
	for _, files := range []bool{false, true} {
		a, b := tens(t, 1, 0, 4, 100), tens(t, 2, 40, 2, 100)
		for k := range 4 {
			for bit := range 23 * 8 { // up to the last offset's delta
				if at := bit / 8; at == 7 || bit%3 > 0 && at != 15 || files && at >= 17 { // 7: the low byte of the base offset
					continue
				}
				bad := *a
				bad.Log = slices.Clone(a.Log)
				bad.Log[100*k+bit/8] ^= 0x80 >> (bit % 8)
				p := withLocal(t, remotePartition(t, a), &bad, b)
				p.Remote, p.Offsets.LogStart, p.Offsets.Remote = nil, 0, false
				r := newReader(t, Better, memrsm.New(memrsm.Inline), p)
				for _, offset := range []int64{0, int64(10 * k), int64(10*k + 9), int64(10*k + 10)} {
					got := oneLocal(t, r, ask("a", offset, 1<<20), files)
					checkDamaged(t, fmt.Sprintf("bit %d of batch %d, files %v, from %d", bit, k, files, offset), got, offset, int64(10*k))
				}
			}
		}
	}
}

// oneLocal is one, with the bytes of files in Records.
func oneLocal(t *testing.T, r *Reader, p FetchPartition, files bool) PartitionData {
	t.Helper()
	resp := r.Fetch(context.Background(), &FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: 1 << 20, Files: files, Partitions: []FetchPartition{p}})
	t.Cleanup(resp.Release)
	got := resp.Partitions[0]
	for _, f := range got.Files {
		b, err := io.ReadAll(io.NewSectionReader(f.Segment, f.Pos, f.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		got.Records = append(got.Records, b...)
	}
	return got
}
