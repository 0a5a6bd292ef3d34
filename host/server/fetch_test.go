package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

func tp(topic string) abi.TopicIDPartition {
	return abi.TopicIDPartition{TopicID: kafkabytes.ID(1), Topic: topic}
}

// TestWaitForData: a fetch at the end is answered when a look finds data, and not before.
func TestWaitForData(t *testing.T) {
	dir := t.TempDir()
	batch := func(base int64) kafkabytes.Batch { return kafkabytes.Batch{Base: base, Last: base + 9} }
	kafkabytes.WriteLog(t, dir, tp("orders"), kafkabytes.NewSegment(t, tp("orders"), 1, batch(0)))
	v := serve(t, dir, Options{})
	w := v.dial(t)
	w.send(frame(fetchOf(v.host.Topics()[0], 10, 1<<30), 4))
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
	kafkabytes.WriteLog(t, dir, tp("orders"), kafkabytes.NewSegment(t, tp("orders"), 1, batch(0), batch(10)))
	if err := v.host.Look(context.Background()); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(18)
	if w.receive(resp) != 4 {
		t.Error("another answer")
	}
	got := resp.Topics[0].Partitions[0]
	if h, err := format.ParseBatchHeader(got.RecordBatches); err != nil || h.BaseOffset != 10 || got.HighWatermark != 20 {
		t.Errorf("%+v, %v, high watermark %d", h, err, got.HighWatermark)
	}
}

// TestMinBytes: what is there and too little is answered when the wait is over.
func TestMinBytes(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	topic := v.host.Topics()[0]
	for name, tt := range map[string]struct{ min, wait int32 }{"enough": {1, 1 << 30}, "no wait": {1 << 30, 0}, "too little": {1 << 30, 20}} {
		q := fetchOf(topic, topic.Partitions[0].Offsets.LogStart, tt.wait)
		q.MinBytes = tt.min
		if resp := ask[*kmsg.FetchResponse](w, q, 18); len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Errorf("%s: nothing", name)
		}
	}
}

// TestNothingLeftRemotely: where all from an offset on was compacted away, and the remote tier ends there, a client waits as at
// the end of a log, and does not have the store read for nothing as fast as it can ask.
func TestNothingLeftRemotely(t *testing.T) {
	seg := kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 9})
	seg.Meta.EndOffset = 19
	meta := t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(seg)...)
	v := serveHost(t, host.Config{RSM: memrsm.New(memrsm.Inline, seg), Metadata: "dir:" + meta}, Options{})
	topic := v.host.Topics()[0]
	got := ask[*kmsg.FetchResponse](v.dial(t), fetchOf(topic, 15, 0), 18).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || len(got.RecordBatches) > 0 || got.HighWatermark != 20 {
		t.Errorf("without a wait: %+v", got)
	}
	v.dial(t).send(frame(fetchOf(topic, 15, 1<<30), 4))
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
	exact := serveHost(t, host.Config{RSM: memrsm.New(memrsm.Inline, seg), Metadata: "dir:" + meta, KafkaExact: true}, Options{KafkaExact: true})
	got = ask[*kmsg.FetchResponse](exact.dial(t), fetchOf(exact.host.Topics()[0], 15, 1<<30), 18).Topics[0].Partitions[0]
	if got.ErrorCode != 0 || len(got.RecordBatches) > 0 {
		t.Errorf("as Kafka, which answers at once: %+v", got)
	}
}

// entry is one of magic 0 or 1.
func entry(magic, attributes byte, offset, timestamp int64, value []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = append(b, make([]byte, 8)...) // length and CRC
	b = append(b, magic, attributes)
	if magic == 1 {
		b = binary.BigEndian.AppendUint64(b, uint64(timestamp))
	}
	b = append(b, 0xff, 0xff, 0xff, 0xff) // no key
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], crc32.ChecksumIEEE(b[16:]))
	return b
}

// wrapper compresses entries of magic 1 with the offsets 0 to n-1 into one.
func wrapper(t *testing.T, attributes byte, last, timestamp int64, entries ...[]byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for _, e := range entries {
		z.Write(e)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return entry(1, attributes|1, last, timestamp, packed.Bytes())
}

// legacyLog is a log with all forms of before magic 2, and a batch of magic 2 behind them.
func legacyLog(t *testing.T) []byte {
	t.Helper()
	log := entry(0, 0, 0, -1, []byte("a"))
	log = append(log, entry(0, 0, 1, -1, []byte("b"))...)
	log = append(log, entry(1, 0, 2, 500, []byte("c"))...)
	log = append(log, entry(1, 0, 4, 400, nil)...) // 3 was compacted away
	log = append(log, wrapper(t, 8, 6, 900, entry(1, 0, 0, 1, []byte("e")), entry(1, 0, 1, 2, []byte("f")))...)
	log = append(log, wrapper(t, 8, 8, 901, entry(1, 0, 0, 1, []byte("g")), entry(1, 0, 1, 2, []byte("h")))...)
	return append(log, kafkabytes.Batch{Base: 9, Last: 19}.Bytes(t)...)
}

func records(t *testing.T, b []byte) (out []format.Record, magics []int8) {
	t.Helper()
	w := format.Walk(b)
	for w.Next() {
		h := *w.Header()
		if err := format.VerifyBatch(&h, w.Bytes()); err != nil {
			t.Error(err)
		}
		recs, err := format.Records(w.Bytes(), 0)
		if err != nil {
			t.Fatal(err)
		}
		out, magics = append(out, recs...), append(magics, h.Magic)
	}
	if len(w.Rest()) > 0 {
		t.Errorf("%d bytes are left", len(w.Rest()))
	}
	return out, magics
}

// TestReframe: the same records, in batches of magic 2.
func TestReframe(t *testing.T) {
	log := legacyLog(t)
	left := int64(reframeMost)
	got, err := reframe(log, &left)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := records(t, log)
	have, magics := records(t, got)
	for i := range want {
		if want[i].TimestampType == format.NoTimestampType { // which magic 2 doesn't know
			want[i].TimestampType = format.CreateTime
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int8{2, 2, 2, 2}, magics); diff != "" {
		t.Errorf("batches %v", magics)
	}
	if b, err := reframe(kafkabytes.Batch{Base: 9, Last: 19}.Bytes(t), &left); b != nil || err != nil {
		t.Errorf("nothing of before magic 2: %v, %v", b, err)
	}
}

// TestLegacyServed: what a client gets of a log of before magic 2, by the version of its Fetch.
func TestLegacyServed(t *testing.T) {
	dir := t.TempDir()
	kafkabytes.WriteFile(t, filepath.Join(dir, "old-0", format.SegmentFileName(0, "")+".log"), legacyLog(t))
	for name, tt := range map[string]struct {
		exact   bool
		version int16
		magic   int8
	}{"old client": {false, 11, 0}, "new client": {false, 12, 2}, "as Kafka": {true, 12, 0}} {
		v := serve(t, dir, Options{KafkaExact: tt.exact})
		resp := ask[*kmsg.FetchResponse](v.dial(t), fetchOf(v.host.Topics()[0], 0, 0), tt.version)
		recs, magics := records(t, resp.Topics[0].Partitions[0].RecordBatches)
		if len(recs) < 9 || magics[0] != tt.magic {
			t.Errorf("%s: %d records, batches %v", name, len(recs), magics)
		}
	}
}

// TestLegacyBehindFiles: a log whose format was set back: a segment of magic 2, given as a stretch of its file, and behind it
// one of before. All versions of Fetch get the records in their order, none left out.
func TestLegacyBehindFiles(t *testing.T) {
	dir := t.TempDir()
	for base, log := range map[int64][]byte{0: kafkabytes.Batch{Base: 0, Last: 0, ProducerID: -1}.Bytes(t), 1: entry(1, 0, 1, 5, []byte("b"))} {
		kafkabytes.WriteFile(t, filepath.Join(dir, "old-0", format.SegmentFileName(base, "")+".log"), log)
	}
	for _, exact := range []bool{false, true} {
		v := serve(t, dir, Options{KafkaExact: exact})
		w := v.dial(t)
		for _, version := range []int16{11, 12} {
			for at := int64(0); at < 2; {
				resp := ask[*kmsg.FetchResponse](w, fetchOf(v.host.Topics()[0], at, 0), version)
				recs, _ := records(t, resp.Topics[0].Partitions[0].RecordBatches)
				if len(recs) == 0 {
					t.Fatalf("exact %t, version %d: nothing at %d", exact, version, at)
				}
				for _, r := range recs {
					if r.Offset != at {
						t.Errorf("exact %t, version %d: offset %d, want %d", exact, version, r.Offset, at)
					}
					at = r.Offset + 1
				}
			}
		}
	}
}

// TestReframeIsBounded: an answer ends before what would be inflated beyond the request's bound, and the next one begins with it;
// an entry that is too large for any request is an error that names it.
func TestReframeIsBounded(t *testing.T) {
	large := func(offset int64, size int) []byte {
		return wrapper(t, 8, offset, 900, entry(1, 0, 0, 1, make([]byte, size)))
	}
	log := append(large(0, 20<<20), large(1, 20<<20)...)
	left := int64(reframeMost)
	got, err := reframe(log, &left)
	if err != nil {
		t.Fatal(err)
	}
	if recs, _ := records(t, got); len(recs) != 1 || recs[0].Offset != 0 {
		t.Errorf("%d records", len(recs))
	}
	if got, err := reframe(large(1, 20<<20), &left); got == nil || len(got) != 0 || err != nil {
		t.Errorf("with nothing left: %d bytes, %v", len(got), err)
	}
	left = reframeMost
	if _, err := reframe(large(7, reframeMost+1), &left); abi.KindOf(err) != abi.Exhausted || !strings.Contains(err.Error(), "7-7") {
		t.Errorf("too large: %v", err)
	}
}
