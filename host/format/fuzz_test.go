package format

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// fuzzLimit keeps what a fuzzer can make a decompressor do within a fuzzer's patience.
const fuzzLimit = 1 << 20

// seed adds up to n of the fixtures' files that match, each cut to a size that a fuzzer can work with.
func seed(f *testing.F, n int, pattern string, add func(b []byte)) {
	f.Helper()
	found, err := filepath.Glob(fixtures + "/" + pattern)
	if err != nil || len(found) == 0 {
		f.Fatalf("no fixture matches %s: %v", pattern, err)
	}
	step := max(1, len(found)/n)
	for i := 0; i < len(found) && i/step < n; i += step {
		b := read(f, found[i])
		add(b[:min(len(b), 3000)])
	}
}

// ours demands that an error is one that a caller can act on.
func ours(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, ok := err.(*abi.Error); !ok {
		t.Fatalf("error %v is a %T", err, err)
	}
	switch k := abi.KindOf(err); k {
	case abi.Corrupt, abi.Unsupported, abi.Exhausted:
	default:
		t.Fatalf("error %v has kind %v", err, k)
	}
}

func FuzzWalk(f *testing.F) {
	f.Add(allVectors(f))
	seed(f, 6, "*/remote/*/*/*.log", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := int64(0)
		w := Walk(b)
		for w.Next() {
			h := w.Header()
			if w.Pos() != sum || h.Size() != int64(len(w.Bytes())) || h.BaseOffset < 0 || h.LastOffset < h.BaseOffset {
				t.Fatalf("at %d: %+v at %d, %d bytes", sum, h, w.Pos(), len(w.Bytes()))
			}
			sum += h.Size()
			ours(t, VerifyBatch(h, w.Bytes()))
		}
		ours(t, w.Err())
		if w.Pos() != sum || sum+int64(len(w.Rest())) != int64(len(b)) {
			t.Fatalf("%d bytes walked, %d rest, of %d", sum, len(w.Rest()), len(b))
		}
	})
}

// FuzzRecords decodes whatever looks like a batch, CRC or not.
func FuzzRecords(f *testing.F) {
	for _, v := range batchVectors {
		f.Add(unhex(f, v.hex))
	}
	recs := someRecords(20, 5)
	for _, p := range packings[1:] {
		f.Add(recompress(f, newBatch(f, plainHeader(20), recs), p))
		if p.codec != CodecZstd {
			f.Add(legacyWrapper(f, 0, p, asLegacy(recs, 0)))
			f.Add(legacyWrapper(f, 1, p, asLegacy(recs, 1)))
		}
	}
	seed(f, 6, "*/remote/*/*/*.log", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		recs, err := Records(b, fuzzLimit)
		ours(t, err)
		ours(t, RecordHeads(b, fuzzLimit, func(RecordHead) bool { return true }))
		if err != nil {
			return
		}
		sameHeads(t, b, recs)
		h, err := ParseBatchHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if h.Magic < 2 {
			if base, err := LegacyBaseOffset(b); err != nil || base != recs[0].Offset {
				t.Fatalf("base offset %d, %v, first record %d", base, err, recs[0].Offset)
			}
			return
		}
		if len(recs) != int(h.Count) {
			t.Fatalf("%d records of %d", len(recs), h.Count)
		}
		if h.TimestampType() == CreateTime {
			writeAgain(t, h, recs)
		}
	})
}

// writeAgain demands that records survive being written.
func writeAgain(t *testing.T, h BatchHeader, recs []Record) {
	t.Helper()
	h.Attributes &^= attrCodec
	b, err := AppendBatch(nil, h, recs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Records(b, 0); err != nil || len(again) != len(recs) || len(recs) > 0 && !reflect.DeepEqual(again, recs) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, again, recs)
	}
}

func FuzzDecompress(f *testing.F) {
	for _, p := range packings {
		packed := p.pack(f, []byte("some text, some text and some text"))
		f.Add(int8(p.codec), int8(2), packed)
		f.Add(int8(p.codec), int8(0), packed)
	}
	f.Fuzz(func(t *testing.T, codec, magic int8, src []byte) {
		before := bytes.Clone(src)
		out, err := Decompress(Codec(codec), magic, src, fuzzLimit)
		ours(t, err)
		if len(out) > fuzzLimit && Codec(codec) != CodecNone || err != nil && out != nil {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		if !bytes.Equal(before, src) {
			t.Fatal("the source was changed")
		}
	})
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add([]byte(offsetIndex(1, 0, 3, 500, 10, 1000)), int64(100), int64(103))
	seed(f, 3, "*/remote/*/*/*.index", func(b []byte) { f.Add(b, int64(0), int64(20)) })
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		base &= 1<<48 - 1
		x := OffsetIndex(b)
		err := x.Check(base)
		ours(t, err)
		offset, pos := x.Lookup(base, target)
		bound, ok := x.UpperBound(base, target)
		x.KafkaUpperBound(base, target)
		if err != nil {
			return // any answer will do, but it must come
		}
		wantOffset, wantPos, wantBound, wantOK := base, int64(0), int64(0), false
		for i := range x.Len() {
			o, p := x.Entry(i, base)
			if o <= target {
				wantOffset, wantPos = o, p
			}
			if p >= target && !wantOK {
				wantBound, wantOK = o, true
			}
		}
		if offset != wantOffset || pos != wantPos || bound != wantBound || ok != wantOK {
			t.Fatalf("lookup (%d, %d), want (%d, %d); bound %d, %v, want %d, %v", offset, pos, wantOffset, wantPos, bound, ok, wantBound, wantOK)
		}
	})
}

func FuzzTimeIndex(f *testing.F) {
	f.Add([]byte(timeIndex(T, 1, T+10, 10)), int64(100), int64(T+3))
	seed(f, 3, "*/remote/*/*/*.timeindex", func(b []byte) { f.Add(b, int64(0), int64(T)) })
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		base &= 1<<48 - 1
		x := TimeIndex(b)
		err := x.Check(base)
		ours(t, err)
		ts, offset := x.Lookup(base, target)
		if err != nil {
			return
		}
		wantTs, wantOffset := int64(-1), base
		for i := range x.Len() {
			if e, o := x.Entry(i, base); e <= target {
				wantTs, wantOffset = e, o
			}
		}
		if ts != wantTs || offset != wantOffset {
			t.Fatalf("lookup (%d, %d), want (%d, %d)", ts, offset, wantTs, wantOffset)
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Add([]byte(txnIndex(AbortedTxn{4000, 102, 103, 104}, AbortedTxn{4001, 105, 109, 107})), int64(100), int64(104))
	seed(f, 3, "*/remote/*/*/*.txnindex", func(b []byte) { f.Add(b, int64(0), int64(50)) })
	f.Fuzz(func(t *testing.T, b []byte, from, upper int64) {
		x := TxnIndex(b)
		ours(t, x.Check(from))
		got, complete := x.Collect(nil, from, upper)
		for _, e := range got {
			if e.LastOffset < from || e.FirstOffset >= upper {
				t.Fatalf("[%d, %d): %+v", from, upper, e)
			}
		}
		if n := x.Len(); n > 0 && !complete && x.Entry(n-1).LastStableOffset >= upper {
			t.Fatal("not complete")
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	f.Add(unhex(f, hexSnapshot))
	f.Add(unhex(f, hexEmptySnapshot))
	seed(f, 3, "*/remote/*/*/*.snapshot", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := ParseProducerSnapshot(b)
		ours(t, err)
		if err == nil && snapshotHeader+len(states)*snapshotEntry != len(b) {
			t.Fatalf("%d producers in %d bytes", len(states), len(b))
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	seed(f, 3, "*/local/replication-offset-checkpoint", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseOffsetCheckpoint(b)
		ours(t, err)
		for k, o := range m {
			if k.Topic == "" || k.Partition < 0 || o < 0 {
				t.Fatalf("%+v: %d", k, o)
			}
		}
	})
}

func FuzzLeaderEpochs(f *testing.F) {
	seed(f, 3, "epochs/local/*/leader-epoch-checkpoint", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		es, err := ParseLeaderEpochs(b)
		ours(t, err)
		if err != nil {
			return
		}
		if again, err := ParseLeaderEpochs(AppendLeaderEpochs(nil, es)); err != nil || !reflect.DeepEqual(again, es) {
			t.Fatalf("%v, %v, want %v", again, err, es)
		}
	})
}

func FuzzPartitionMetadata(f *testing.F) {
	seed(f, 3, "*/local/*/partition.metadata", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := ParsePartitionMetadata(b)
		ours(t, err)
		if (err == nil) == id.IsZero() {
			t.Fatalf("%v, %v", id, err)
		}
	})
}

func FuzzMetaProperties(f *testing.F) {
	seed(f, 3, "*/local/meta.properties", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMetaProperties(b)
		ours(t, err)
		if err == nil && m.NodeID < -1 {
			t.Fatalf("%+v", m)
		}
	})
}

func FuzzRemoteLogMetadata(f *testing.F) {
	for _, v := range rlmVectors {
		f.Add(unhex(f, v.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		event, err := ParseRemoteLogMetadata(b)
		ours(t, err)
		if err != nil {
			return
		}
		written, err := AppendRemoteLogMetadata(nil, event)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseRemoteLogMetadata(written); err != nil || !reflect.DeepEqual(again, event) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, again, event)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("00000000000000000123.log")
	f.Add("we.ird_topic-name.v1-0-1")
	f.Fuzz(func(t *testing.T, name string) {
		if base, ext, ok := ParseSegmentFile(name); ok && SegmentFileName(base, ext) != name {
			t.Fatalf("%q comes back as %q", name, SegmentFileName(base, ext))
		}
		topic, p, ok := ParsePartitionDir(name)
		tp := abi.TopicIDPartition{Topic: topic, Partition: p}
		if ok && tp.String() != name {
			t.Fatalf("%q comes back as %q", name, tp)
		}
	})
}

// TestErrorsAreKinds: the errors of this package answer errors.Is with their kind.
func TestErrorsAreKinds(t *testing.T) {
	_, err := ParseLeaderEpochs([]byte("7"))
	if !errors.Is(err, abi.Unsupported) {
		t.Errorf("%v is not UNSUPPORTED", err)
	}
}
