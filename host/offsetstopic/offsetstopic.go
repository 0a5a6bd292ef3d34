// Package offsetstopic reads what consumer groups committed at a broker: the records of the topic __consumer_offsets, as that
// broker's group coordinator reads them when it starts. It is told the batches of one partition, in order, and knows then which
// offset stands for which group and partition.
//
// Of what the records say, offsets alone are kept: who was a member of a group is nobody any more when its broker is gone.
// Transactional commits count when their marker says so, in the order of Kafka: one that was committed after an offset that
// came behind it does not undo that.
//
// # Errors
//
// A batch that can't be read is CORRUPT, UNSUPPORTED or EXHAUSTED as format.Records has it, and changes nothing; what comes
// behind it can be read. Records that can't be read are counted.
//
// # Concurrency
//
// A State belongs to one goroutine. The package does no I/O.
package offsetstopic

import (
	"cmp"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// Name is the topic's.
const Name = "__consumer_offsets"

// Commit is an offset that a group committed.
type Commit struct {
	Group, Topic string
	Partition    int32
	TopicID      abi.UUID // zero: the record does not say (brokers before 4.1)
	Offset       int64
	LeaderEpoch  int32 // -1: not known
	Metadata     string
	At           int64 // milliseconds since 1970
}

// key is what a record's key names.
type key struct {
	group, topic string
	partition    int32
}

// entry is what stands for a key.
type entry struct {
	Commit
	record  int64 // its offset in __consumer_offsets
	expires int64 // milliseconds since 1970; -1: it does not say
}

// maxDecoded bounds the bytes of a batch's records. A broker writes at most 1 MiB at once where nothing else is configured.
const maxDecoded = 64 << 20

// entryBytes is what an entry takes beside its strings, about.
const entryBytes = 300

func (e *entry) bytes() int64 {
	return entryBytes + 2*int64(len(e.Group)+len(e.Topic)) + int64(len(e.Metadata))
}

// State is what the batches of one partition said so far.
type State struct {
	most    int64
	bytes   int64
	kept    map[key]entry
	pending map[int64]map[key]entry // by producer id: of transactions that have no marker yet
	newest  int64                   // timestamp of all records
	strange int                     // records that can't be read, or that nobody here knows
	full    bool
}

// New makes a State of at most so many bytes. What is beyond is left out, and Full says so.
func New(most int64) *State {
	return &State{most: most, kept: map[key]entry{}, pending: map[int64]map[key]entry{}, newest: -1}
}

// Batch takes in the next batch.
func (s *State) Batch(h *format.BatchHeader, b []byte) error {
	if err := format.VerifyBatch(h, b); err != nil {
		return err
	}
	records, err := format.Records(b, maxDecoded)
	if err != nil {
		return err
	}
	if h.IsControl() {
		return s.control(h, records)
	}
	for i := range records {
		s.newest = max(s.newest, records[i].Timestamp)
		s.record(h, &records[i])
	}
	return nil
}

// control ends the transaction of a producer.
func (s *State) control(h *format.BatchHeader, records []format.Record) error {
	for i := range records {
		is, err := format.ControlRecord(records[i].Key)
		if err != nil {
			return err
		}
		if is != format.ControlCommit && is != format.ControlAbort {
			continue
		}
		for at, e := range s.pending[h.ProducerID] {
			s.bytes -= e.bytes()
			if old, ok := s.kept[at]; is == format.ControlCommit && (!ok || old.record < e.record) {
				s.put(s.kept, at, e)
			}
		}
		delete(s.pending, h.ProducerID)
	}
	return nil
}

// record takes in one record.
func (s *State) record(h *format.BatchHeader, r *format.Record) {
	at, kind := parseKey(r.Key)
	if kind != offsetKey {
		if kind == strangeKey {
			s.strange++
		}
		return
	}
	into := s.kept
	if h.IsTransactional() {
		if into = s.pending[h.ProducerID]; into == nil {
			into = map[key]entry{}
			s.pending[h.ProducerID] = into
		}
	}
	if r.Value == nil {
		s.remove(into, at)
		return
	}
	e, ok := parseValue(r.Value)
	if !ok {
		s.strange++
		return
	}
	e.Group, e.Topic, e.Partition, e.record = at.group, at.topic, at.partition, r.Offset
	s.put(into, at, e)
}

func (s *State) put(into map[key]entry, at key, e entry) {
	s.remove(into, at)
	if s.bytes+e.bytes() > s.most {
		s.full = true
		return
	}
	s.bytes += e.bytes()
	into[at] = e
}

func (s *State) remove(from map[key]entry, at key) {
	if old, ok := from[at]; ok {
		s.bytes -= old.bytes()
		delete(from, at)
	}
}

// Commits is what stands, of records at or after from, by group, topic and partition: without what was tombstoned, aborted,
// or had run out when the last record was written.
func (s *State) Commits(from int64) []Commit {
	var out []Commit
	for _, e := range s.kept {
		if e.record >= from && (e.expires < 0 || e.expires > s.newest) {
			out = append(out, e.Commit)
		}
	}
	slices.SortFunc(out, func(a, b Commit) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// Undecided is how many offsets belong to transactions that no marker ended: a broker would wait for those.
func (s *State) Undecided() int {
	n := 0
	for _, of := range s.pending {
		n += len(of)
	}
	return n
}

// Strange is how many records could not be read, or have keys of a kind that is not known here.
func (s *State) Strange() int { return s.strange }

// Full reports that offsets were left out because there was no room.
func (s *State) Full() bool { return s.full }

// kind is what a record's key is about.
type kind int

const (
	strangeKey kind = iota
	offsetKey
	groupKey // members, assignments and patterns, of groups of all types
)

// lastGroupKey is the highest version of a key that Kafka 4.3 writes: of streams groups.
const lastGroupKey = 22

// parseKey reads a record's key.
func parseKey(b []byte) (key, kind) {
	if len(b) < 2 {
		return key{}, strangeKey
	}
	switch version := int16(b[0])<<8 | int16(b[1]); {
	case version == 0 || version == 1:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(b); err != nil || k.Partition < 0 {
			return key{}, strangeKey
		}
		return key{k.Group, k.Topic, k.Partition}, offsetKey
	case version >= 2 && version <= lastGroupKey:
		return key{}, groupKey
	}
	return key{}, strangeKey
}

var errVersion = errors.New("a version that is not known")

// lastValue is the highest version of an offset's value that is known.
const lastValue = 4

// parseValue reads the value of an offset's record.
func parseValue(b []byte) (entry, bool) {
	v, err := readValue(b)
	if err != nil || v.Offset < 0 {
		return entry{}, false
	}
	e := entry{Commit: Commit{Offset: v.Offset, LeaderEpoch: -1, Metadata: v.Metadata, At: v.CommitTimestamp}, expires: -1}
	if v.Version >= 3 {
		e.LeaderEpoch = v.LeaderEpoch
	}
	if v.Version >= 4 {
		e.TopicID = v.TopicID
	}
	if v.Version == 1 && v.ExpireTimestamp != -1 {
		e.expires = v.ExpireTimestamp
	}
	return e, true
}

func readValue(b []byte) (*kmsg.OffsetCommitValue, error) {
	v := &kmsg.OffsetCommitValue{}
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	if v.Version < 0 || v.Version > lastValue {
		return nil, errVersion
	}
	return v, nil
}
