package format

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// fixtures is six brokers' data and what those brokers said about it.
const fixtures = "../../testdata/kafka"

// eachBroker runs test for each broker's folder.
func eachBroker(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	golden, err := filepath.Glob(fixtures + "/*/golden")
	if err != nil || len(golden) == 0 {
		t.Fatalf("no fixtures in %s: %v", fixtures, err)
	}
	for _, g := range golden {
		dir := filepath.Dir(g)
		t.Run(filepath.Base(dir), func(t *testing.T) { test(t, dir) })
	}
}

// eachLine decodes each line of a file of JSON objects.
func eachLine[L any](t *testing.T, path string, use func(l *L)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		l := new(L)
		if err := json.Unmarshal(s.Bytes(), l); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		use(l)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// findLog gives the path of a log that a golden file names.
func findLog(t *testing.T, dir, tier, topic string, partition int32, file string) string {
	t.Helper()
	pattern := fmt.Sprintf("%s/local/%s-%d/%s", dir, topic, partition, file)
	if tier == "remote" {
		pattern = fmt.Sprintf("%s/remote/kafka-tiered-storage/%s-%d-??????????????????????/%s", dir, topic, partition, file)
	}
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %v, %v", pattern, found, err)
	}
	return found[0]
}

// goldenBatch is a line of batches.jsonl.
type goldenBatch struct {
	Topic, Tier, File, Codec string
	Partition, Epoch         int32
	Position, Size           int64
	Base, Last               int64
	Count                    int32
	MaxTs, ProducerID        int64
	Gaps                     int64
	Txn, Control, LogAppend  bool
}

// as is what the golden line says, of a batch that was parsed here.
func (g *goldenBatch) as(w *Walker) goldenBatch {
	h := w.Header()
	got := goldenBatch{
		Topic: g.Topic, Tier: g.Tier, File: g.File, Partition: g.Partition,
		Codec: h.Codec().String(), Epoch: h.LeaderEpoch, Position: w.Pos(), Size: h.Size(), Base: h.BaseOffset, Last: h.LastOffset,
		Count: h.Count, MaxTs: h.MaxTimestamp, ProducerID: h.ProducerID,
		Gaps: h.LastOffset - h.BaseOffset + 1 - int64(h.Count),
		Txn:  h.IsTransactional(), Control: h.IsControl(), LogAppend: h.TimestampType() == LogAppendTime,
	}
	return got
}

// TestFixtureBatches: every batch is what Kafka's own classes found, its CRC is good, its records decode, and written
// again they are the same.
func TestFixtureBatches(t *testing.T) {
	eachBroker(t, func(t *testing.T, dir string) {
		path, w, n := "", Walker{}, 0
		finish := func() {
			if w.Next() || w.Err() != nil || len(w.Rest()) > 0 {
				t.Errorf("%s: more after the last batch: %v, %d bytes", path, w.Err(), len(w.Rest()))
			}
		}
		eachLine(t, dir+"/golden/batches.jsonl", func(g *goldenBatch) {
			if p := findLog(t, dir, g.Tier, g.Topic, g.Partition, g.File); p != path {
				finish()
				path, w = p, Walk(read(t, p))
			}
			n++
			if !w.Next() {
				t.Fatalf("%s: the walk ended before %+v: %v", path, g, w.Err())
			}
			if got := g.as(&w); got != *g {
				t.Errorf("%s:\n got %+v\nwant %+v", path, got, *g)
			}
			checkBatch(t, &w)
		})
		finish()
		if n == 0 {
			t.Error("no batches")
		}
	})
}

func checkBatch(t *testing.T, w *Walker) {
	t.Helper()
	h := *w.Header()
	if err := VerifyBatch(&h, w.Bytes()); err != nil {
		t.Error(err)
	}
	recs, err := Records(w.Bytes(), 0)
	if err != nil || len(recs) != int(h.Count) {
		t.Errorf("%d records of %d, %v", len(recs), h.Count, err)
	}
	sameHeads(t, w.Bytes(), recs)
	for _, r := range recs {
		if r.Offset < h.BaseOffset || r.Offset > h.LastOffset || r.Timestamp > h.MaxTimestamp {
			t.Errorf("record %d at %d in a batch of %d-%d up to %d", r.Offset, r.Timestamp, h.BaseOffset, h.LastOffset, h.MaxTimestamp)
		}
	}
	if h.IsControl() {
		if typ, err := ControlRecord(recs[0].Key); err != nil || typ != ControlAbort && typ != ControlCommit {
			t.Errorf("control record: %v, %v", typ, err)
		}
	}
	if h.Codec() == CodecNone && h.TimestampType() == CreateTime {
		if again, err := AppendBatch(nil, h, recs); err != nil || !bytes.Equal(again, w.Bytes()) {
			t.Errorf("batch of %d-%d: written again it differs: %v", h.BaseOffset, h.LastOffset, err)
		}
	}
}

// goldenBytes is a key or a value: null, short as base64, or long as a hash.
type goldenBytes struct {
	B64    *string
	Len    int
	SHA256 string
}

func (g *goldenBytes) is(b []byte) bool {
	switch {
	case g == nil:
		return b == nil
	case g.B64 != nil:
		return b != nil && base64.StdEncoding.EncodeToString(b) == *g.B64
	}
	sum := sha256.Sum256(b)
	return len(b) == g.Len && hex.EncodeToString(sum[:]) == g.SHA256
}

type goldenRecord struct {
	Topic         string
	Partition     int32
	Offset        *int64 // nil: a line that is no record
	Timestamp     int64
	TimestampType string
	Key, Value    *goldenBytes
	Headers       []struct {
		K string
		V *goldenBytes
	}
	LeaderEpoch int32
}

func (g *goldenRecord) is(r *Record) bool {
	ok := r.Timestamp == g.Timestamp && r.TimestampType.String() == g.TimestampType && r.LeaderEpoch == g.LeaderEpoch &&
		g.Key.is(r.Key) && g.Value.is(r.Value) && len(r.Headers) == len(g.Headers)
	for i := 0; ok && i < len(g.Headers); i++ {
		ok = r.Headers[i].Key == g.Headers[i].K && g.Headers[i].V.is(r.Headers[i].Value)
	}
	return ok
}

// TestFixtureRecords: every record that a Java consumer got is in the logs, and is the same.
func TestFixtureRecords(t *testing.T) {
	eachBroker(t, func(t *testing.T, dir string) {
		type place struct {
			topic     string
			partition int32
			offset    int64
		}
		all := make(map[place]Record)
		seen := make(map[string]bool)
		eachLine(t, dir+"/golden/batches.jsonl", func(g *goldenBatch) {
			path := findLog(t, dir, g.Tier, g.Topic, g.Partition, g.File)
			if seen[path] {
				return
			}
			seen[path] = true
			w := Walk(read(t, path))
			for w.Next() {
				recs, err := Records(w.Bytes(), 0)
				if err != nil {
					t.Fatal(path, err)
				}
				for _, r := range recs {
					all[place{g.Topic, g.Partition, r.Offset}] = r
				}
			}
		})
		n := 0
		eachLine(t, dir+"/golden/records-uncommitted.jsonl", func(g *goldenRecord) {
			if g.Offset == nil {
				return
			}
			n++
			r, ok := all[place{g.Topic, g.Partition, *g.Offset}]
			if !ok || !g.is(&r) {
				t.Errorf("%s-%d offset %d: got %+v (%v), want %+v", g.Topic, g.Partition, *g.Offset, r, ok, g)
			}
		})
		if n == 0 {
			t.Error("no records")
		}
	})
}

// goldenEvent is a line of rlmm-events.jsonl.
type goldenEvent struct {
	Topic, TopicID, Type, State, SegmentID string
	Partition, BrokerID                    int32
	EventTimestampMs                       int64
	StartOffset, EndOffset                 int64
	LeaderEpochs                           map[int32]int64
	SizeInBytes, MaxTimestampMs            int64
	TxnIdxEmpty                            bool
	CustomMetadata                         *string
	ValueHex                               string
	MetaPartition                          int32
}

// TestFixtureMetadataRecords: every record of the metadata topic has Kafka's fields, comes back byte for byte, and lies
// in the partition where it must.
func TestFixtureMetadataRecords(t *testing.T) {
	eachBroker(t, func(t *testing.T, dir string) {
		n := 0
		eachLine(t, dir+"/golden/rlmm-events.jsonl", func(g *goldenEvent) {
			n++
			b := unhex(t, g.ValueHex)
			event, err := ParseRemoteLogMetadata(b)
			if err != nil {
				t.Fatal(err)
			}
			tp, got := describe(t, event)
			got.ValueHex, got.MetaPartition = g.ValueHex, MetadataPartition(tp.TopicID, tp.Partition, 3)
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", *g) {
				t.Errorf("got  %+v\nwant %+v", got, *g)
			}
			if again, err := AppendRemoteLogMetadata(nil, event); err != nil || !bytes.Equal(again, b) {
				t.Errorf("encoded again: %x, %v", again, err)
			}
		})
		if n == 0 {
			t.Error("no events")
		}
	})
}

// describe writes an event as the golden file does. Custom metadata is null in all of them.
func describe(t *testing.T, event any) (abi.TopicIDPartition, goldenEvent) {
	t.Helper()
	switch e := event.(type) {
	case *SegmentEvent:
		g := goldenEvent{Topic: e.Topic, TopicID: e.TopicID.String(), Partition: e.Partition, Type: "segment", State: e.State.String(),
			SegmentID: e.SegmentID.String(), BrokerID: e.BrokerID, EventTimestampMs: e.EventTimestampMs, StartOffset: e.StartOffset,
			EndOffset: e.EndOffset, SizeInBytes: e.SizeBytes, MaxTimestampMs: e.MaxTimestampMs, TxnIdxEmpty: e.TxnIndexEmpty,
			LeaderEpochs: make(map[int32]int64)}
		for _, le := range e.LeaderEpochs {
			g.LeaderEpochs[le.Epoch] = le.StartOffset
		}
		return e.TopicIDPartition, g
	case *SegmentUpdateEvent:
		return e.TopicIDPartition, goldenEvent{Topic: e.Topic, TopicID: e.TopicID.String(), Partition: e.Partition, Type: "update",
			State: e.State.String(), SegmentID: e.SegmentID.String(), BrokerID: e.BrokerID, EventTimestampMs: e.EventTimestampMs}
	}
	t.Fatalf("an event of type %T", event)
	return abi.TopicIDPartition{}, goldenEvent{}
}

// baseOffset is the base offset in the name of a segment's file, or of a tiered object: that has the segment's id too.
func baseOffset(name string) int64 {
	if i := strings.IndexByte(name, '-'); i == segmentDigits {
		name = name[:i] + filepath.Ext(name)
	}
	base, _, _ := ParseSegmentFile(name)
	return base
}

// checkFile parses a file of a broker by its name. known is false for names that are not this package's.
func checkFile(name string, b []byte) (known bool, err error) {
	base := baseOffset(name)
	switch {
	case strings.HasSuffix(name, ".index"):
		err = OffsetIndex(b).Check(base)
	case strings.HasSuffix(name, ".timeindex"):
		err = TimeIndex(b).Check(base)
	case strings.HasSuffix(name, ".txnindex"):
		err = TxnIndex(b).Check(base)
	case strings.HasSuffix(name, ".snapshot"):
		_, err = ParseProducerSnapshot(b)
	case strings.HasSuffix(name, "leader-epoch-checkpoint"), strings.HasSuffix(name, ".leader_epoch_checkpoint"):
		_, err = ParseLeaderEpochs(b)
	case strings.HasSuffix(name, "-offset-checkpoint"):
		_, err = ParseOffsetCheckpoint(b)
	case name == "partition.metadata":
		_, err = ParsePartitionMetadata(b)
	case name == "meta.properties":
		var m MetaProperties
		if m, err = ParseMetaProperties(b); err == nil && (m.NodeID != 1 || len(m.ClusterID) != 22 || len(m.DirectoryID) != 22) {
			err = fmt.Errorf("meta.properties has %+v", m)
		}
	case strings.HasSuffix(name, ".log"):
		w := Walk(b)
		for w.Next() {
		}
		if err = w.Err(); err == nil && len(w.Rest()) > 0 {
			err = fmt.Errorf("%d bytes are left", len(w.Rest()))
		}
	default:
		return false, nil
	}
	return true, err
}

// TestFixtureFiles: every other file of every broker is sound.
func TestFixtureFiles(t *testing.T) {
	eachBroker(t, func(t *testing.T, dir string) {
		kinds := make(map[string]int)
		for _, tree := range []string{"remote", "local", "rlmm"} {
			err := filepath.WalkDir(filepath.Join(dir, tree), func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				known, err := checkFile(d.Name(), read(t, path))
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if !known && !strings.HasPrefix(d.Name(), ".kafka_") {
					t.Errorf("%s: nobody read it", path)
				}
				kinds[filepath.Ext(path)]++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, ext := range []string{".log", ".index", ".timeindex", ".snapshot", ".metadata", ".leader_epoch_checkpoint"} {
			if kinds[ext] == 0 {
				t.Errorf("no %s among %v", ext, kinds)
			}
		}
	})
}

// TestFixtureIndexEntries: an offset index names the last offset of the batch at the position, a time index the largest
// timestamp so far, a transaction index an abort marker.
func TestFixtureIndexEntries(t *testing.T) {
	logs, err := filepath.Glob(fixtures + "/*/remote/*/*/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	entries := 0
	for _, path := range logs {
		log, stem, base := read(t, path), strings.TrimSuffix(path, ".log"), baseOffset(filepath.Base(path))
		offsets := OffsetIndex(read(t, stem+".index"))
		for i := range offsets.Len() {
			o, pos := offsets.Entry(i, base)
			if h, err := ParseBatchHeader(log[pos:]); err != nil || h.LastOffset != o {
				t.Errorf("%s: entry %d has offset %d, the batch at %d %+v, %v", path, i, o, pos, h, err)
			}
			entries++
		}
		times := TimeIndex(read(t, stem+".timeindex"))
		for i := range times.Len() {
			ts, o := times.Entry(i, base)
			if got := maxTimestamp(log, o); got != ts {
				t.Errorf("%s: largest timestamp up to offset %d is %d, the index says %d", path, o, got, ts)
			}
			entries++
		}
		entries += checkAborts(t, path, log)
	}
	if entries < 500 {
		t.Errorf("only %d entries", entries)
	}
}

// maxTimestamp is the largest timestamp of the batches up to and including the one that holds offset.
func maxTimestamp(log []byte, offset int64) int64 {
	got := int64(-1)
	w := Walk(log)
	for w.Next() && w.Header().BaseOffset <= offset {
		got = max(got, w.Header().MaxTimestamp)
	}
	return got
}

func checkAborts(t *testing.T, path string, log []byte) int {
	aborts := make(map[int64]int64) // offset of a marker: its producer
	w := Walk(log)
	for w.Next() {
		if !w.Header().IsControl() {
			continue
		}
		recs, err := Records(w.Bytes(), 0)
		if err != nil {
			t.Fatal(path, err)
		}
		if typ, err := ControlRecord(recs[0].Key); err == nil && typ == ControlAbort {
			aborts[recs[0].Offset] = w.Header().ProducerID
		}
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".log") + ".txnindex")
	if err != nil && (!os.IsNotExist(err) || len(aborts) > 0) {
		t.Fatalf("%s has aborts %v: %v", path, aborts, err)
	}
	x := TxnIndex(b)
	if x.Len() != len(aborts) {
		t.Errorf("%s: %d entries for %d aborts", path, x.Len(), len(aborts))
	}
	for i := range x.Len() {
		if e := x.Entry(i); aborts[e.LastOffset] != e.ProducerID {
			t.Errorf("%s: entry %+v, aborts %v", path, e, aborts)
		}
	}
	return x.Len()
}
