package rlmm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

const million = 1_000_000

// shape is what a segment of a large store looks like.
type shape struct {
	name   string
	custom int  // bytes of custom metadata
	epochs int  // leader epochs a segment
	txn    bool // it may have a transaction index
}

var plain = shape{"plain", 0, 1, false}

// fill makes a store of n segments of 1,000 offsets, spread over partitions.
func fill(t testing.TB, n, partitions int, sh shape) *Store {
	t.Helper()
	s := NewStore()
	for i := range partitions {
		id := abi.TopicIDPartition{Topic: fmt.Sprint("topic-", i/50), TopicID: abi.UUID{15: 1, 14: byte(i / 50)}, Partition: int32(i % 50)}
		fillPartition(t, s.partition(id), n/partitions, i, sh)
	}
	return s
}

func fillPartition(t testing.TB, p *Partition, n, salt int, sh shape) {
	t.Helper()
	for j := range int64(n) {
		if j%5000 == 0 { // as the events of a topic come, not all at once
			runtime.Gosched()
		}
		var id abi.UUID
		binary.BigEndian.PutUint64(id[:], uint64(salt))
		binary.BigEndian.PutUint64(id[8:], uint64(j+1)*0x9e3779b97f4a7c15)
		e := &format.SegmentEvent{SegmentMetadata: abi.SegmentMetadata{TopicIDPartition: p.ID, SegmentID: id, StartOffset: j * 1000,
			EndOffset: j*1000 + 999, SizeBytes: 128 << 20, MaxTimestampMs: j, EventTimestampMs: j, TxnIndexEmpty: !sh.txn}}
		for k := range int64(sh.epochs) {
			e.LeaderEpochs = append(e.LeaderEpochs, abi.LeaderEpoch{Epoch: int32(k), StartOffset: j*1000 + 10*k})
		}
		done := &format.SegmentUpdateEvent{TopicIDPartition: p.ID, SegmentID: id, EventTimestampMs: j, State: format.CopySegmentFinished}
		if sh.custom > 0 {
			done.CustomMetadata = make([]byte, sh.custom)
		}
		if p.apply(e) != nil || p.apply(done) != nil {
			t.Fatal("an event was dropped")
		}
	}
}

// bytesPerSegment is what each of n segments takes of the heap, with all that finds it.
func bytesPerSegment(t testing.TB, n, partitions int, sh shape) float64 {
	t.Helper()
	before := heap()
	s := fill(t, n, partitions, sh)
	used := heap() - before
	runtime.KeepAlive(s)
	return float64(used) / float64(n)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

const (
	atMost  = 512 << 20 // bytes for a million segments
	aimedAt = 200 << 20
)

// TestBytesPerSegment holds a sample against the aim for a million: 209 bytes a segment, and 536 where each has two
// leader epochs, custom metadata and a transaction index.
func TestBytesPerSegment(t *testing.T) {
	for _, tt := range []struct {
		partitions int
		sh         shape
		limit      float64
	}{{1, plain, aimedAt}, {1000, plain, aimedAt}, {1, shape{"full", 64, 2, true}, atMost}} {
		if got := bytesPerSegment(t, 100_000, tt.partitions, tt.sh); got*million > tt.limit {
			t.Errorf("%s segments in %d partitions: %.0f bytes each, want %.0f", tt.sh.name, tt.partitions, got, tt.limit/million)
		}
	}
}

// BenchmarkMemory fails where a million segments take more than 512 MiB.
func BenchmarkMemory(b *testing.B) {
	for _, partitions := range []int{1, 10_000} {
		for _, sh := range []shape{plain, {"full", 64, 2, true}} {
			b.Run(fmt.Sprintf("%s/%d", sh.name, partitions), func(b *testing.B) {
				for b.Loop() {
					each := bytesPerSegment(b, million, partitions, sh)
					if each*million > atMost {
						b.Fatalf("%.0f bytes a segment: more than 512 MiB for a million", each)
					}
					b.ReportMetric(each, "B/segment")
					b.ReportMetric(each*million/(1<<20), "MiB")
				}
			})
		}
	}
}

// BenchmarkLookup finds random offsets among a million segments.
func BenchmarkLookup(b *testing.B) {
	for _, partitions := range []int{1, 10_000} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			s := fill(b, million, partitions, plain)
			var ids []abi.TopicIDPartition
			for _, p := range s.Partitions() {
				ids = append(ids, p.ID)
			}
			r := rand.New(rand.NewPCG(1, 2))
			end := int64(million / partitions * 1000)
			b.ReportAllocs()
			for b.Loop() {
				p, _ := s.Partition(ids[r.IntN(len(ids))])
				if _, ok := p.Lookup(0, r.Int64N(end)); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}

// nested is n segments in a first one that holds them all, each with a hole of half its length behind it.
func nested(t testing.TB, n int64) *Partition {
	t.Helper()
	p := newPartition(tp)
	for i := range n + 1 {
		x := &record{id: abi.UUID{15: byte(i), 14: byte(i >> 8), 13: byte(i >> 16)}, start: i * 1000, end: i*1000 + 499, state: format.CopySegmentFinished}
		if i == 0 {
			x.end = n*1000 + 999
		}
		p.putLocked(x)
	}
	return p
}

// BenchmarkLookupNested asks for what only the first segment has, behind all others: a walk to it from the nearest one
// would be linear. A hundred times as many must not cost a hundred times as much.
func BenchmarkLookupNested(b *testing.B) {
	for _, n := range []int64{10_000, million} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := nested(b, n)
			for b.Loop() {
				if s, ok := p.Lookup(0, n*1000+700); !ok || s.StartOffset != 0 {
					b.Fatal("not found")
				}
			}
		})
	}
}

// BenchmarkNextWithTxnIndex looks for a transaction index where a million segments have none.
func BenchmarkNextWithTxnIndex(b *testing.B) {
	s := fill(b, million, 1, plain)
	p := s.Partitions()[0]
	for b.Loop() {
		if _, ok := p.NextWithTxnIndex(0, 5); ok {
			b.Fatal("found")
		}
	}
}

// BenchmarkApply is a segment that is announced, finishes, and is deleted while a million others stay: the oldest is
// deleted, or one in the middle.
func BenchmarkApply(b *testing.B) {
	for _, at := range []string{"oldest", "middle"} {
		b.Run(at, func(b *testing.B) {
			s := fill(b, million, 1, plain)
			p := s.Partitions()[0]
			live := p.recordsLocked()
			if at == "middle" {
				live = live[len(live)/2:]
			}
			n := int64(million)
			for i := 0; b.Loop(); i++ {
				id := abi.UUID{0: 1, 15: byte(n), 14: byte(n >> 8), 13: byte(n >> 16), 12: byte(n >> 24)}
				e := &format.SegmentEvent{SegmentMetadata: abi.SegmentMetadata{SegmentID: id, StartOffset: n * 1000, EndOffset: n*1000 + 999,
					LeaderEpochs: []abi.LeaderEpoch{{StartOffset: n * 1000}}}}
				update := func(id abi.UUID, to format.SegmentState) {
					if err := p.apply(&format.SegmentUpdateEvent{SegmentID: id, State: to}); err != nil {
						b.Fatal(err)
					}
				}
				if err := p.apply(e); err != nil {
					b.Fatal(err)
				}
				update(id, format.CopySegmentFinished)
				if i < len(live) {
					update(live[i].id, format.DeleteSegmentStarted)
					update(live[i].id, format.DeleteSegmentFinished)
				}
				n++
			}
		})
	}
}

func (p *Partition) recordsLocked() []*record {
	var out []*record
	for x := range p.order.at(0) {
		out = append(out, x.rec)
	}
	return out
}

// BenchmarkLook reads the metadata log of 50,000 segments, with one record a batch.
func BenchmarkLook(b *testing.B) {
	var events []any
	for i := range int64(50_000) {
		e := announce(0, i*10, i*10+9)
		binary.BigEndian.PutUint64(e.SegmentID[:], uint64(i+1))
		done := move(0, format.CopySegmentFinished)
		done.SegmentID = e.SegmentID
		events = append(events, e, done)
	}
	dir := b.TempDir()
	kafkabytes.WriteMetadata(b, dir, events...)
	for b.Loop() {
		r, err := NewDir(dir).Look(b.Context())
		if err != nil || r.Applied != len(events) {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(events))/b.Elapsed().Seconds(), "records/s")
}
