package randomops

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
)

// undecided is the end of a transaction that has no marker yet.
const undecided = int64(-1)

// txn is one transaction of a producer.
type txn struct {
	pid     int64
	first   int64
	end     int64 // of its marker; undecided: none
	aborted bool
}

// batch is one batch of the log. It does not change; what compaction leaves of it is another.
type batch struct {
	base, last int64
	epoch      int32
	txn        *txn // nil: not transactional
	marker     bool
	entry      *format.AbortedTxn // of an abort marker: what goes into the transaction index
	recs       []format.Record
	raw        []byte
}

// encode makes the bytes of b, which has all but these.
func (b *batch) encode() *batch {
	h := format.BatchHeader{BaseOffset: b.base, LastOffset: b.last, LeaderEpoch: b.epoch, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	if b.txn != nil {
		h.ProducerID, h.ProducerEpoch, h.Attributes = b.txn.pid, 0, 0x10
	}
	if b.marker {
		h.Attributes |= 0x20
	}
	if len(b.recs) > 0 {
		h.BaseTimestamp = b.recs[0].Timestamp
	}
	raw, err := format.AppendBatch(nil, h, b.recs)
	if err != nil { // a defect of the model
		panic(err)
	}
	b.raw = raw
	return b
}

// delivered says whether a consumer gets the batch's records.
func (b *batch) delivered(iso locality.Isolation) bool {
	return !b.marker && (iso != locality.ReadCommitted || b.txn == nil || !b.txn.aborted)
}

// data makes a batch of n records from base on, of which no other batch has the keys or values.
func data(r *rand.Rand, name string, base int64, epoch int32, t *txn) *batch {
	n, size := 1+r.IntN(4), 10+r.IntN(150)
	if r.IntN(14) == 0 { // larger than what is read at first, and than an interval of the index
		size = 2000 + r.IntN(9000)
	}
	b := &batch{base: base, last: base + int64(n) - 1, epoch: epoch, txn: t}
	for i := range n {
		offset := base + int64(i)
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(offset) + byte(j)
		}
		b.recs = append(b.recs, format.Record{Offset: offset, Timestamp: 1000 + offset, Key: fmt.Appendf(nil, "%s@%d", name, offset), Value: value})
	}
	return b.encode()
}

// end makes the marker that ends t at offset. open are the transactions that stay open, the oldest first.
func (t *txn) marker(offset int64, epoch int32, aborted bool, open []*txn) *batch {
	key := []byte{0, 0, 0, byte(format.ControlCommit)}
	b := &batch{base: offset, last: offset, epoch: epoch, txn: t, marker: true}
	if aborted {
		key[3] = byte(format.ControlAbort)
		stable := offset + 1
		if len(open) > 0 {
			stable = open[0].first
		}
		b.entry = &format.AbortedTxn{ProducerID: t.pid, FirstOffset: t.first, LastOffset: offset, LastStableOffset: stable}
	}
	b.recs = []format.Record{{Offset: offset, Timestamp: 1000 + offset, Key: key, Value: make([]byte, 6)}}
	return b.encode()
}

// segment is one segment of the local tier.
type segment struct {
	base    int64
	batches []*batch
}

// partition is the log of one partition as its leader has it, with what lies in each tier.
type partition struct {
	id       abi.TopicIDPartition
	batches  []*batch // all that was ever written and not compacted away
	local    []*segment
	remote   []*upload
	epochs   []abi.LeaderEpoch
	open     []*txn // undecided ones, the oldest first
	logStart int64
	hw, end  int64
	tiered   int64 // exclusive end of what lies in the remote tier
	cleaned  bool  // compaction was there
}

func newPartition(id abi.TopicIDPartition) *partition {
	return &partition{id: id, local: []*segment{{}}, epochs: []abi.LeaderEpoch{{}}}
}

// epoch is the current leader epoch.
func (p *partition) epoch() int32 { return p.epochs[len(p.epochs)-1].Epoch }

// stable is the last stable offset.
func (p *partition) stable() int64 {
	if len(p.open) > 0 {
		return min(p.open[0].first, p.hw)
	}
	return p.hw
}

func (p *partition) active() *segment { return p.local[len(p.local)-1] }

// bump begins a leader epoch at the log end. Epochs of the log are even: odd ones are left for leaders of dead lineages.
func (p *partition) bump() {
	next := abi.LeaderEpoch{Epoch: p.epoch() + 2, StartOffset: p.end}
	if last := &p.epochs[len(p.epochs)-1]; last.StartOffset == p.end { // it wrote nothing
		*last = next
		return
	}
	p.epochs = append(p.epochs, next)
}

// produce makes the next data batch.
func (p *partition) produce(r *rand.Rand) *batch {
	var t *txn
	if r.IntN(5) < 2 {
		pid := int64(1 + r.IntN(3))
		i := slices.IndexFunc(p.open, func(t *txn) bool { return t.pid == pid })
		if i < 0 {
			i = len(p.open)
			p.open = append(p.open, &txn{pid: pid, first: p.end, end: undecided})
		}
		t = p.open[i]
	}
	return data(r, p.id.String(), p.end, p.epoch(), t)
}

// decide makes the marker of one of the open transactions; nil where there is none.
func (p *partition) decide(r *rand.Rand) *batch {
	if len(p.open) == 0 {
		return nil
	}
	i := r.IntN(len(p.open))
	t := p.open[i]
	p.open = slices.Delete(slices.Clone(p.open), i, i+1)
	t.end, t.aborted = p.end, r.IntN(2) == 0
	return t.marker(p.end, p.epoch(), t.aborted, p.open)
}

// take puts a batch at the log's end.
func (p *partition) take(b *batch) {
	p.batches = append(p.batches, b)
	p.active().batches = append(p.active().batches, b)
	p.end = b.last + 1
}

// at is the index of the first batch that ends at or after offset.
func at(batches []*batch, offset int64) int {
	i, _ := slices.BinarySearchFunc(batches, offset, func(b *batch, o int64) int {
		if b.last < o {
			return -1
		}
		return 1
	})
	return i
}

// within gives the batches that lie between two offsets, both inclusive.
func within(batches []*batch, start, end int64) []*batch {
	from := at(batches, start)
	to := from
	for to < len(batches) && batches[to].last <= end {
		to++
	}
	return batches[from:to]
}

// compact cleans a closed segment that was not uploaded: batches go, records go, and what is left keeps its offsets. The
// batches at the end go more often than others. It reports false where nothing may be cleaned.
func (p *partition) compact(r *rand.Rand) (*segment, bool) {
	var clean []*segment
	for i, s := range p.local[:len(p.local)-1] {
		if s.base >= p.tiered && s.base >= p.uploaded() && p.local[i+1].base <= p.stable() && len(s.batches) > 1 {
			clean = append(clean, s)
		}
	}
	if len(clean) == 0 {
		return nil, false
	}
	s := clean[r.IntN(len(clean))]
	tail := 1 + r.IntN(len(s.batches))
	var kept []*batch
	for i, b := range s.batches {
		if b = b.compacted(r, i >= tail); b != nil {
			kept = append(kept, b)
		}
	}
	if len(kept) == 0 {
		kept = s.batches[:1]
	}
	from := at(p.batches, s.batches[0].base)
	p.batches = slices.Concat(p.batches[:from], kept, p.batches[from+len(s.batches):])
	s.batches = kept
	return s, true
}

// compacted is what a cleaner leaves of b: nil for nothing. Markers stay.
func (b *batch) compacted(r *rand.Rand, tail bool) *batch {
	switch {
	case b.marker:
		return b
	case tail || r.IntN(6) == 0:
		return nil
	case r.IntN(3) > 0:
		return b
	}
	c := *b
	c.recs = slices.DeleteFunc(slices.Clone(b.recs), func(format.Record) bool { return r.IntN(2) == 0 })
	return c.encode()
}
