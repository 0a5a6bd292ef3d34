// Package kafkabytes writes small pieces of Kafka's files for tests: segments with their indexes, log directories and the
// metadata topic, in states that a recorded broker does not have.
package kafkabytes

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Transactional, Control are the attribute bits of a batch.
const (
	Transactional int16 = 0x10
	Control       int16 = 0x20
)

// Batch describes a batch to write.
type Batch struct {
	Base, Last int64 // both inclusive; one record at each end
	Size       int   // bytes of the whole batch, one more where a length field grows just there; 0: as small as it is
	Epoch      int32
	Attributes int16
	ProducerID int64
	Timestamp  int64 // of its records, in ms; 0: 1000
	Commit     bool  // of a control batch: a commit marker; else it is an abort marker
}

// Marker is the batch that ends a transaction of a producer.
func Marker(offset, producer int64, commit bool) Batch {
	return Batch{Base: offset, Last: offset, Attributes: Transactional | Control, ProducerID: producer, Commit: commit}
}

// timestamp is that of all records of the batch.
func (b Batch) timestamp() int64 {
	if b.Timestamp == 0 {
		return 1000
	}
	return b.Timestamp
}

// Bytes is the batch as Kafka writes it.
func (b Batch) Bytes(t testing.TB) []byte {
	t.Helper()
	value := []byte("v")
	out := b.encode(t, value)
	if b.Size <= len(out) {
		return out
	}
	value = make([]byte, len(value)+b.Size-len(out))
	for out = b.encode(t, value); len(out) > b.Size; out = b.encode(t, value) { // the value's length field grew with it
		shorter := b.encode(t, value[1:])
		if len(shorter) < b.Size {
			return out
		}
		value = value[1:]
	}
	return out
}

func (b Batch) encode(t testing.TB, value []byte) []byte {
	t.Helper()
	h := format.BatchHeader{BaseOffset: b.Base, LastOffset: b.Last, LeaderEpoch: b.Epoch, Attributes: b.Attributes,
		ProducerID: b.ProducerID, BaseTimestamp: b.timestamp(), MaxTimestamp: b.timestamp(), BaseSequence: -1}
	key := []byte{0, 0, 0, byte(format.ControlAbort)}
	if b.Commit {
		key[3] = byte(format.ControlCommit)
	}
	recs := []format.Record{{Offset: b.Base, Timestamp: b.timestamp(), Key: key, Value: value}}
	if b.Last > b.Base {
		recs = append(recs, format.Record{Offset: b.Last, Timestamp: b.timestamp(), Value: []byte("last")})
	}
	out, err := format.AppendBatch(nil, h, recs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Segment is a segment in memory: what a broker has on disk and uploads.
type Segment struct {
	Meta        abi.SegmentMetadata
	Log         []byte
	OffsetIndex []byte
	TimeIndex   []byte
	TxnIndex    []byte // nil: none
	Epochs      []byte // LEADER_EPOCH index; nil: none
	Snapshot    []byte // PRODUCER_SNAPSHOT index; nil: none, as no broker leaves it
}

// NewSegment writes batches into a segment whose offset and time index have an entry for each batch but the first, and whose producer
// snapshot has what the batches leave open. Its start is the
// first batch's base, its end the last one's last offset; both may be changed, as may all else.
func NewSegment(t testing.TB, id abi.TopicIDPartition, number byte, batches ...Batch) *Segment {
	t.Helper()
	s := &Segment{}
	start := batches[0].Base
	newest := int64(-1)
	epochs := []abi.LeaderEpoch{{Epoch: batches[0].Epoch, StartOffset: start}}
	for i, b := range batches {
		newest = max(newest, b.timestamp())
		if i > 0 {
			s.OffsetIndex = AppendEntry(s.OffsetIndex, b.Last-start, int64(len(s.Log)))
			s.TimeIndex = appendTime(s.TimeIndex, newest, b.Last-start)
		}
		if b.Epoch != epochs[len(epochs)-1].Epoch {
			epochs = append(epochs, abi.LeaderEpoch{Epoch: b.Epoch, StartOffset: b.Base})
		}
		s.Log = append(s.Log, b.Bytes(t)...)
	}
	s.Meta = abi.SegmentMetadata{TopicIDPartition: id, SegmentID: ID(number), StartOffset: start,
		EndOffset: batches[len(batches)-1].Last, SizeBytes: int64(len(s.Log)), MaxTimestampMs: newest, BrokerID: 1,
		EventTimestampMs: 1000 + int64(number), LeaderEpochs: epochs, TxnIndexEmpty: true}
	s.Epochs = format.AppendLeaderEpochs(nil, fromZero(epochs))
	s.Snapshot = Snapshot(openAtEnd(batches)...)
	return s
}

// openAtEnd is the transactions that batches begin and do not end.
func openAtEnd(batches []Batch) (open []OpenTxn) {
	for _, b := range batches {
		i := slices.IndexFunc(open, func(o OpenTxn) bool { return o.ProducerID == b.ProducerID })
		switch {
		case b.Attributes&Transactional == 0:
		case b.Attributes&Control == 0 && i < 0:
			open = append(open, OpenTxn{b.ProducerID, b.Base, b.Last})
		case b.Attributes&Control == 0:
			open[i].LastOffset = b.Last
		case b.Attributes&Control != 0 && i >= 0:
			open = slices.Delete(open, i, i+1)
		}
	}
	return open
}

// fromZero is a lineage that reaches back to the log's begin, as those on disk and in the LEADER_EPOCH index do.
func fromZero(epochs []abi.LeaderEpoch) []abi.LeaderEpoch {
	out := slices.Clone(epochs)
	out[0].StartOffset = 0
	return out
}

// ID is a topic's or segment's id for tests.
func ID(n byte) abi.UUID { return abi.UUID{15: n} }

// AppendEntry appends an entry to an offset index; offset is relative to the segment's base.
func AppendEntry(index []byte, offset, pos int64) []byte {
	return format.AppendOffsetEntry(index, 0, offset, pos)
}

// appendTime appends an entry to a time index; offset is relative to the segment's base.
func appendTime(index []byte, ms, offset int64) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(index, uint64(ms)), uint32(offset))
}

// AppendAborted appends an entry to a transaction index.
func AppendAborted(index []byte, a format.AbortedTxn) []byte { return format.AppendAborted(index, a) }

// OpenTxn is a transaction that has no marker yet: where its first batch begins, and its last one ends; 0: there as well.
type OpenTxn struct{ ProducerID, FirstOffset, LastOffset int64 }

// Snapshot is a producer snapshot that holds open transactions.
func Snapshot(open ...OpenTxn) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 6), uint32(len(open)))
	for _, t := range open {
		b = binary.BigEndian.AppendUint64(b, uint64(t.ProducerID))
		b = append(b, make([]byte, 2+4)...) // epoch, last sequence
		b = binary.BigEndian.AppendUint64(b, uint64(max(t.FirstOffset, t.LastOffset)))
		b = append(b, make([]byte, 4+8+4)...)                       // delta, timestamp, coordinator epoch
		b = binary.BigEndian.AppendUint64(b, uint64(t.FirstOffset)) // first offset of the transaction
	}
	b[1] = 1 // version
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Started and Update are the events of a segment's life.
func Started(s *Segment) *format.SegmentEvent {
	return &format.SegmentEvent{SegmentMetadata: s.Meta, State: format.CopySegmentStarted}
}

// Update moves a segment to a state, at a time.
func Update(s *Segment, state format.SegmentState, ms int64) *format.SegmentUpdateEvent {
	return &format.SegmentUpdateEvent{TopicIDPartition: s.Meta.TopicIDPartition, SegmentID: s.Meta.SegmentID, BrokerID: 1,
		EventTimestampMs: ms, CustomMetadata: s.Meta.CustomMetadata, State: state}
}

// Finished is the two events of each segment that was copied.
func Finished(segs ...*Segment) []any {
	var out []any
	for _, s := range segs {
		out = append(out, Started(s), Update(s, format.CopySegmentFinished, s.Meta.EventTimestampMs))
	}
	return out
}

// MetadataLog is a log of the metadata topic that holds events, one a batch: values of format, or raw bytes.
func MetadataLog(t testing.TB, events ...any) []byte { return MetadataLogAt(t, 0, events...) }

// MetadataLogAt is MetadataLog that begins with an offset.
func MetadataLogAt(t testing.TB, base int64, events ...any) []byte {
	t.Helper()
	var log []byte
	for i, e := range events {
		value, raw := e.([]byte)
		if !raw {
			var err error
			if value, err = format.AppendRemoteLogMetadata(nil, e); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		offset := base + int64(i)
		h := format.BatchHeader{BaseOffset: offset, LastOffset: offset, ProducerID: -1, BaseSequence: -1}
		if log, err = format.AppendBatch(log, h, []format.Record{{Offset: offset, Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// WriteMetadata writes the metadata topic's partition 0 below dir.
func WriteMetadata(t testing.TB, dir string, events ...any) {
	t.Helper()
	WriteFile(t, filepath.Join(dir, "__remote_log_metadata-0", format.SegmentFileName(0, ".log")), MetadataLog(t, events...))
}

// WriteLog writes segments as a partition of a broker's log directory.
func WriteLog(t testing.TB, dir string, id abi.TopicIDPartition, segs ...*Segment) {
	t.Helper()
	part := filepath.Join(dir, id.String())
	if !id.TopicID.IsZero() {
		WriteFile(t, filepath.Join(part, "partition.metadata"), fmt.Appendf(nil, "version: 0\ntopic_id: %s\n", id.TopicID))
	}
	var epochs []abi.LeaderEpoch
	for _, s := range segs {
		name := filepath.Join(part, format.SegmentFileName(s.Meta.StartOffset, ""))
		WriteFile(t, name+".log", s.Log)
		WriteFile(t, name+".index", s.OffsetIndex)
		if s.TxnIndex != nil {
			WriteFile(t, name+".txnindex", s.TxnIndex)
		}
		for _, e := range s.Meta.LeaderEpochs {
			if n := len(epochs); n == 0 || epochs[n-1].Epoch != e.Epoch {
				epochs = append(epochs, e)
			}
		}
	}
	WriteFile(t, filepath.Join(part, "leader-epoch-checkpoint"), format.AppendLeaderEpochs(nil, fromZero(epochs)))
}

// WriteCheckpoint writes an offset checkpoint of a log directory, of lines "topic partition offset".
func WriteCheckpoint(t testing.TB, dir, name string, lines ...string) {
	t.Helper()
	WriteFile(t, filepath.Join(dir, name), fmt.Appendf(nil, "0\n%d\n%s\n", len(lines), strings.Join(lines, "\n")))
}

// WriteFile writes a file and the directories above it.
func WriteFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
