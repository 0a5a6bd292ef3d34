package reader

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// The letters of spec section 11, defects of Kafka that have no ticket, that are the reader's. They are present tense in
// Kafka: with its policy a test says what a client sees there.

// TestDefectBStreamsAreClosed: Kafka leaves the stream open where the first batch can't be parsed.
func TestDefectBStreamsAreClosed(t *testing.T) {
	for name, policy := range policies {
		for _, at := range []int{0, 1, 3} {
			for what, damage := range map[string]func(b []byte){
				"a tiny size":      func(b []byte) { copy(b[8:], []byte{0, 0, 0, 13}) },
				"an absurd size":   func(b []byte) { b[8] = 0x7f },
				"an unknown magic": func(b []byte) { b[16] = 9 },
				"a flipped bit":    func(b []byte) { b[70] ^= 1 },
			} {
				s := tens(t, 1, 0, 4, 100)
				damage(s.Log[100*at:])
				store := memrsm.New(memrsm.Stream, s)
				r := newReader(t, policy, store, remotePartition(t, s))
				for offset := int64(0); offset < 40; offset += 10 {
					one(t, r, ask("a", offset, 150))
					committed(t, r, ask("a", offset, 1000))
					if n := store.Open(); n != 0 {
						t.Fatalf("%s, %s in batch %d, offset %d: %d streams are open", name, what, at, offset, n)
					}
				}
			}
		}
	}
}

// TestDefectCBufferOfWhatIsLeft: Kafka allocates the whole allowance where 200 bytes are left in the segment.
func TestDefectCBufferOfWhatIsLeft(t *testing.T) {
	for name, policy := range policies {
		s := tens(t, 1, 0, 100, 1000)
		r := newReader(t, policy, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
		for _, tt := range []struct{ offset, allowance, most int64 }{
			{990, 50 << 20, 16 << 10},                  // the segment's last batch
			{0, 50 << 20, 128 << 10},                   // all of it
			{0, 3000, 16 << 10}, {500, 3000, 16 << 10}, // as much as is allowed, and what finds the first batch
		} {
			before := r.buffers.InUse()
			resp := r.Fetch(context.Background(), &FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: math.MaxInt32,
				Partitions: []FetchPartition{ask("a", tt.offset, tt.allowance)}})
			if got := r.buffers.InUse() - before; got > tt.most || len(resp.Partitions[0].Records) == 0 {
				t.Errorf("%s, offset %d, allowance %d: %d bytes are held for %d, want %d at most", name, tt.offset, tt.allowance, got,
					len(resp.Partitions[0].Records), tt.most)
			}
			resp.Release()
		}
		if peak := r.buffers.Peak(); peak > 256<<10 {
			t.Errorf("%s: %d bytes at the peak, for a segment of 100,000", name, peak)
		}
	}
}

// TestDefectDDamagedBatches: Kafka checks no CRC and bounds no size, so that damage in the store goes to the client, or
// allocates up to 2 GiB. We answer with CORRUPT_MESSAGE, and take no memory for what a batch claims.
func TestDefectDDamagedBatches(t *testing.T) {
	crc := tens(t, 1, 0, 2, 100)
	crc.Log[170] ^= 1
	for policy, code := range map[Policy]Code{Better: CorruptMessage, Kafka43: None} {
		r := newReader(t, policy, memrsm.New(memrsm.Inline, crc), remotePartition(t, crc))
		if got := one(t, r, ask("a", 10, 1000)); got.Code != code || (len(got.Records) > 0) != (code == None) {
			t.Errorf("a wrong CRC: %v, %d bytes, want %v", got.Code, len(got.Records), code)
		}
	}
	huge := tens(t, 1, 0, 2, 100)
	copy(huge.Log[108:], []byte{0x7f, 0xff, 0xff, 0xff})
	for name, policy := range policies {
		forms(t, func(t *testing.T, form memrsm.Form) {
			r := newReader(t, policy, memrsm.New(form, huge), remotePartition(t, huge))
			one(t, r, ask("a", 10, math.MaxInt32))
			if peak := r.buffers.Peak(); peak > 1<<20 {
				t.Errorf("%s: %d bytes were taken for a segment of 200", name, peak)
			}
		})
	}
}

// TestDefectEAbortedList: Kafka's list is in the order of a hash set, and null where a first batch did not fit. Ours is by
// first offset, without doubles, and empty there.
func TestDefectEAbortedList(t *testing.T) {
	end := func(offset, producer int64) batch { return kafkabytes.Marker(offset, producer, false) }
	s := kafkabytes.NewSegment(t, id("a"), 1, txn(0, 1, 6), txn(2, 3, 7), txn(4, 11, 8), txn(12, 14, 9), end(15, 9), end(16, 8), end(17, 7), batch{Base: 18, Last: 39})
	next := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 40, Last: 44}, end(45, 6), batch{Base: 46, Last: 79})
	s.Meta.TxnIndexEmpty, next.Meta.TxnIndexEmpty = false, false
	add := func(s *segment, producer, first, last int64) {
		s.TxnIndex = kafkabytes.AppendAborted(s.TxnIndex, format.AbortedTxn{ProducerID: producer, FirstOffset: first, LastOffset: last})
	}
	add(s, 9, 12, 15)
	add(s, 8, 4, 16)
	add(s, 7, 2, 17)
	add(next, 6, 0, 45)
	wanted := []AbortedTransaction{{6, 0}, {7, 2}, {8, 4}, {9, 12}}
	for name, policy := range policies {
		r := newReader(t, policy, memrsm.New(memrsm.Inline, s, next), withLocal(t, remotePartition(t, s, next), next)) // next is in both
		if got := committed(t, r, ask("a", 0, int64(len(s.Log)))); !slices.Equal(got.Aborted, wanted) {
			t.Errorf("%s: aborted %v, want %v", name, got.Aborted, wanted)
		}
	}
	for policy, null := range map[Policy]bool{Better: false, Kafka43: true} {
		local := kafkabytes.NewSegment(t, id("l"), 9, batch{Base: 0, Last: 9, Size: 1000})
		r := newReader(t, policy, memrsm.New(memrsm.Inline, s), remotePartition(t, s), withLocal(t, remotePartition(t, local), local))
		req := all("ala", 10_000, 50) // only the first may be larger
		req.Isolation = locality.ReadCommitted
		for i, p := range fetch(t, r, context.Background(), req)[1:] {
			if len(p.Records) > 0 || (p.Aborted == nil) != null {
				t.Errorf("too big, %d: %d bytes, aborted %#v, want null: %v", i+1, len(p.Records), p.Aborted, null)
			}
		}
	}
}

// TestDefectHMovedAway: a partition that moves away while it is read is NONE and empty in Kafka, and one whose log is gone
// OFFSET_OUT_OF_RANGE. Here what was begun is answered, and the next fetch is told what the catalog knows.
func TestDefectHMovedAway(t *testing.T) {
	for name, policy := range policies {
		for what, code := range map[string]Code{"moved": NotLeaderOrFollower, "deleted": UnknownTopicOrPartition} {
			store, parts := topics(t, "a")
			r := newReader(t, policy, store)
			var gone atomic.Bool
			r.catalog = finder(func(context.Context) (*Partition, Code, error) {
				if gone.Load() {
					return nil, code, abi.Errorf("fetch", "a-0", abi.Unavailable, "%s", what)
				}
				return parts[0], None, nil
			})
			store.Before = func(context.Context, memrsm.Call) error { gone.Store(true); return nil }
			want(t, name+", "+what, one(t, r, ask("a", 0, 1000)), None, "[0]")
			want(t, name+", "+what+", again", one(t, r, ask("a", 10, 1000)), code, "[]")
		}
	}
}

// TestDefectKContinuation: one read of Kafka's ends with its segment though budget is left; ours goes on over segments and
// into the local log, and not into what the client may not read yet.
func TestDefectKContinuation(t *testing.T) {
	a, b, c := tens(t, 1, 0, 2, 100), tens(t, 2, 20, 2, 100), tens(t, 3, 40, 3, 100)
	for policy, batches := range map[Policy]string{Better: "[0 10 20 30 40 50]", Kafka43: "[0 10]"} {
		p := withLocal(t, remotePartition(t, a, b), c)
		p.Offsets.HighWatermark = 60 // of 70
		r := newReader(t, policy, memrsm.New(memrsm.Stream, a, b), p)
		want(t, "all of it", one(t, r, ask("a", 0, math.MaxInt32)), None, batches)
	}
}

// TestDefectLLocalErrors: in Kafka a local error waits for the slowest remote read of the same request. Here it waits as
// long as a fetch waits at most, and is not lost.
func TestDefectLLocalErrors(t *testing.T) {
	for name, policy := range policies {
		synctest.Test(t, func(t *testing.T) {
			store, parts := topics(t, "s")
			delays(store, parts, map[string]time.Duration{"s": time.Hour})
			bad, refused := kafkabytes.NewSegment(t, id("b"), 8, batch{Base: 0, Last: 9}), kafkabytes.NewSegment(t, id("o"), 9, batch{Base: 10, Last: 19})
			local := withLocal(t, remotePartition(t, bad), bad)
			if err := os.Truncate(local.Local.Segments()[0].Path(), 20); err != nil { // as a broken disk might
				t.Fatal(err)
			}
			r := newReader(t, policy, store, append(parts, local, remotePartition(t, refused))...)
			r.SetWait(500 * time.Millisecond)
			defer r.Close()
			began := time.Now()
			got := fetch(t, r, context.Background(), all("sbo", 10_000, 1000))
			if took := time.Since(began); took != time.Duration(r.wait.Load()) {
				t.Errorf("%s: answered after %v", name, took)
			}
			want(t, name+", slow", got[0], None, "[]")
			want(t, name+", out of range", got[2], OffsetOutOfRange, "[]")
			if got[1].Code == None || got[1].Err == nil {
				t.Errorf("%s: the failed disk: %v", name, got[1].Code)
			}
		})
	}
}

// TestDefectNUpperBoundIn64Bits: Kafka adds the position and the length of a read in 32 bits: a sum above 2^31 is negative,
// and the first index entry behind it is the index's first. The list of aborted transactions ends far too early then.
func TestDefectNUpperBoundIn64Bits(t *testing.T) {
	s := tens(t, 1, 0, 4, 100)
	r := newReader(t, Kafka43, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
	segs := remotePartition(t, s).Remote.Segments()
	for _, tt := range []struct {
		pos, n int64
		upper  int64
	}{
		{0, 100, 29}, {100, 50, 29}, {200, 100, 39}, // by its entries (19, 100), (29, 200), (39, 300)
		{math.MaxInt32 - 50, 100, 40}, {math.MaxInt32, math.MaxInt32, 40},
	} {
		rd := &read{acc: accumulator{seg: segs[0], pos: tt.pos, n: tt.n}}
		if _, upper, err := r.abortedRange(context.Background(), rd); upper != tt.upper || err != nil {
			t.Errorf("%s: the bound is %d, %v, want %d", fmt.Sprintf("%d bytes at %d", tt.n, tt.pos), upper, err, tt.upper)
		}
	}
}

// TestAbortedOfASegmentThatIsGone: a transaction index that is not there means that nothing was aborted, unless the whole
// segment is gone: then nothing is known, and a read_committed fetch fails instead of delivering what may be aborted.
func TestAbortedOfASegmentThatIsGone(t *testing.T) {
	for _, gone := range []bool{false, true} {
		first := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9, Attributes: kafkabytes.Transactional, ProducerID: 7})
		second := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 10, Last: 19})
		first.Meta.TxnIndexEmpty, second.Meta.TxnIndexEmpty = false, false
		store := memrsm.New(memrsm.Inline, first, second)
		store.Before = func(_ context.Context, c memrsm.Call) error {
			if gone && c.Segment == second.Meta.SegmentID {
				return abi.Errorf("fetch", "", abi.NotFound, "no such segment")
			}
			return nil
		}
		r := newReader(t, Better, store, remotePartition(t, first, second))
		p := committed(t, r, ask("a", 0, int64(len(first.Log))))
		if want := map[bool]Code{false: None, true: KafkaStorageError}[gone]; p.Code != want {
			t.Errorf("gone %v: %v (%v), want %v", gone, p.Code, p.Err, want)
		}
	}
}
