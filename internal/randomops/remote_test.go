package randomops

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// damage is what is wrong with the objects of a segment.
type damage int

const (
	sound   damage = iota
	log            // the log has bytes that are not its own, or too few
	offsets        // the offset index
	aborts         // the transaction index
	gone           // objects were removed
)

// upload is one segment that was copied to the remote tier, or was tried to.
type upload struct {
	kafkabytes.Segment
	state  format.SegmentState
	dead   bool // of a lineage that is not the partition's
	damage damage
}

func (u *upload) start() int64 { return u.Meta.StartOffset }
func (u *upload) end() int64   { return u.Meta.EndOffset }

// holds reports whether the segment has a part of the offsets from first to last.
func (u *upload) holds(first, last int64) bool { return u.start() <= last && u.end() >= first }

// uploaded is the exclusive end of what uploads have, finished or not.
func (p *partition) uploaded() int64 {
	end := int64(0)
	for _, u := range p.remote {
		end = max(end, u.end()+1)
	}
	return end
}

// restrict is the leader epochs of a segment: those of the lineage that have offsets from start to end, both inclusive.
func restrict(epochs []abi.LeaderEpoch, start, end int64) []abi.LeaderEpoch {
	var out []abi.LeaderEpoch
	for _, e := range epochs {
		if e.StartOffset > end {
			break
		}
		if e.StartOffset <= start {
			out, e.StartOffset = nil, start
		}
		out = append(out, e)
	}
	return out
}

// build makes the objects and the metadata of a segment. lineage is all that the uploading leader knew.
func build(p *partition, id uint64, interval int, start, end int64, batches []*batch, lineage []abi.LeaderEpoch) *upload {
	u := &upload{}
	since := 0
	var open []*txn
	for _, b := range batches {
		if b.marker {
			open = slices.DeleteFunc(open, func(t *txn) bool { return t == b.txn })
		} else if b.txn != nil && !slices.Contains(open, b.txn) {
			open = append(open, b.txn)
		}
		if since > interval {
			u.OffsetIndex = format.AppendOffsetEntry(u.OffsetIndex, start, b.last, int64(len(u.Log)))
			since = 0
		}
		since += len(b.raw)
		u.Log = append(u.Log, b.raw...)
		if b.entry != nil {
			u.TxnIndex = format.AppendAborted(u.TxnIndex, *b.entry)
		}
	}
	u.Meta = abi.SegmentMetadata{TopicIDPartition: p.id, StartOffset: start, EndOffset: end, MaxTimestampMs: 1000 + end, BrokerID: 1,
		EventTimestampMs: int64(id), SizeBytes: int64(len(u.Log)), LeaderEpochs: restrict(lineage, start, end), TxnIndexEmpty: u.TxnIndex == nil}
	binary.BigEndian.PutUint64(u.Meta.SegmentID[8:], id)
	u.Snapshot = snapshot(append(p.begun(start, batches), open...), end+1)
	u.Epochs = format.AppendLeaderEpochs(nil, restrict(lineage, 0, end))
	return u
}

// begun is the transactions that have data before start, and no marker there or in batches.
func (p *partition) begun(start int64, batches []*batch) (open []*txn) {
	for _, b := range p.batches {
		if t := b.txn; b.last < start && t != nil && (t.end == undecided || t.end >= start) && !slices.Contains(open, t) {
			open = append(open, t)
		}
	}
	return slices.DeleteFunc(open, func(t *txn) bool {
		return slices.ContainsFunc(batches, func(b *batch) bool { return b.txn == t })
	})
}

// tierable finds the next local segment that may be uploaded: a closed one below the last stable offset.
func (p *partition) tierable() (start, end int64, ok bool) {
	for i, s := range p.local[:len(p.local)-1] {
		if next := p.local[i+1].base; s.base >= p.tiered && next <= p.stable() {
			return s.base, next - 1, true
		}
	}
	return 0, 0, false
}

// again draws a part of what lies in the remote tier: what another leader, whose segments have other borders, or a second
// try uploads.
func (p *partition) again(r *rand.Rand) (start, end int64, ok bool) {
	have := within(p.batches, p.logStart, p.tiered-1)
	if len(have) == 0 {
		return 0, 0, false
	}
	i := r.IntN(len(have))
	n := 1 + r.IntN(min(12, len(have)-i))
	start, end = have[i].base, have[i+n-1].last
	if r.IntN(3) == 0 { // the hole before belongs to it
		start = p.logStart
		if i > 0 {
			start = have[i-1].last + 1
		}
	}
	if i+n < len(have) && r.IntN(2) == 0 { // and the one behind
		end = have[i+n].base - 1
	}
	return min(start, have[i].base), end, true
}

// dead makes a segment of a leader that was fenced, or of one that an unclean election took the lead from: up to offset d
// it is the partition's log, from there on one that was never to be read. It gives nil where there is no such place.
//
//	lineage   epoch 0 ......... d  epoch 2 .....
//	dead          0 ..........  d  epoch 0, or 1 ...
func (p *partition) dead(r *rand.Rand, id uint64, interval int) *upload {
	d, lineage, epoch, ok := p.fork(r)
	if !ok {
		return nil
	}
	var open []*txn
	for _, b := range p.batches {
		if t := b.txn; t != nil && t.first < d && (t.end >= d || t.end == undecided) && !slices.Contains(open, t) {
			open = append(open, t)
		}
		if b.base >= d {
			break
		}
	}
	if slices.ContainsFunc(open, func(t *txn) bool { return t.end == undecided }) {
		return nil
	}
	before := within(p.batches, p.logStart, d-1)
	before = before[len(before)-r.IntN(min(5, len(before)+1)):]
	start := d
	if len(before) > 0 {
		start = before[0].base
	}
	batches := append(slices.Clone(before), deadTail(r, d, epoch, open)...)
	u := build(p, id, interval, start, batches[len(batches)-1].last, batches, lineage)
	u.dead = true
	return u
}

// fork draws where a dead lineage leaves the log: where a leader epoch began, and the one before went on; or anywhere, with
// an epoch that the log has not.
func (p *partition) fork(r *rand.Rand) (d int64, lineage []abi.LeaderEpoch, epoch int32, ok bool) {
	if k := r.IntN(len(p.epochs)); k > 0 && r.IntN(3) > 0 {
		d = p.epochs[k].StartOffset
		return d, p.epochs[:k:k], p.epochs[k-1].Epoch, d > p.logStart && d <= p.tiered
	}
	have := within(p.batches, p.logStart, p.tiered-1)
	if len(have) == 0 {
		return 0, nil, 0, false
	}
	d = have[r.IntN(len(have))].base
	lineage = restrict(p.epochs, 0, d-1)
	if d == 0 {
		return d, nil, 0, false
	}
	epoch = lineage[len(lineage)-1].Epoch + 1
	return d, append(slices.Clone(lineage), abi.LeaderEpoch{Epoch: epoch, StartOffset: d}), epoch, true
}

// deadTail is what a dead lineage has from d on. It ends what is open as the log did, and aborts transactions of its own.
func deadTail(r *rand.Rand, d int64, epoch int32, open []*txn) (tail []*batch) {
	next := d
	add := func(b *batch) {
		tail = append(tail, b)
		next = b.last + 1
	}
	for len(open) > 0 {
		t := open[0]
		open = open[1:]
		add(t.marker(next, epoch, t.aborted, open))
	}
	for range 1 + r.IntN(4) {
		if r.IntN(2) == 0 {
			add(data(r, "dead", next, epoch, nil))
			continue
		}
		t := &txn{pid: int64(1 + r.IntN(3)), first: next, aborted: true}
		add(data(r, "dead", next, epoch, t))
		add(t.marker(next, epoch, true, nil))
	}
	return tail
}

// covered draws a finished segment of one epoch that lies wholly inside an older or a newer one of the same: its deletion
// hides nothing.
func (p *partition) covered(r *rand.Rand) *upload {
	var inside []*upload
	for _, u := range p.remote {
		if len(u.Meta.LeaderEpochs) == 1 && slices.ContainsFunc(p.remote, func(o *upload) bool { return o.covers(u) }) {
			inside = append(inside, u)
		}
	}
	if len(inside) == 0 {
		return nil
	}
	return inside[r.IntN(len(inside))]
}

func (u *upload) covers(o *upload) bool {
	return u.state == format.CopySegmentFinished && o.state == format.CopySegmentFinished && !u.dead && !o.dead && u.damage == sound &&
		len(u.Meta.LeaderEpochs) == 1 && u.Meta.LeaderEpochs[0].Epoch == o.Meta.LeaderEpochs[0].Epoch && u.start() < o.start() && u.end() > o.end()
}

// spoil damages one of the segment's objects in a way that can be noticed: a CRC, a length, or the order of offsets tells.
// What of a batch no CRC covers and what in a transaction index nothing checks is left alone, but for its highest bytes.
func (u *upload) spoil(r *rand.Rand) kafkabytes.Segment {
	s := u.Segment
	switch kind := r.IntN(4); {
	case kind == 0 && len(s.OffsetIndex) > 0:
		u.damage = offsets
		s.OffsetIndex = flipped(s.OffsetIndex, r.IntN(len(s.OffsetIndex)), r)
		if r.IntN(3) == 0 {
			s.OffsetIndex = s.OffsetIndex[:len(s.OffsetIndex)-1-r.IntN(7)]
		}
	case kind == 1 && len(s.TxnIndex) > 0:
		u.damage = aborts
		s.TxnIndex = slices.Clone(s.TxnIndex)
		s.TxnIndex[1]++ // the version
		if r.IntN(2) == 0 {
			s.TxnIndex = s.TxnIndex[:len(s.TxnIndex)-1-r.IntN(32)]
		}
	case kind == 2:
		u.damage = log
		s.Log = s.Log[:r.IntN(len(s.Log))]
	default:
		u.damage = log
		s.Log = flippedLog(s.Log, r)
	}
	return s
}

func flipped(b []byte, i int, r *rand.Rand) []byte {
	b = slices.Clone(b)
	b[i] ^= 1 << r.IntN(8)
	return b
}

// flippedLog flips a bit of one batch. The base offset of a batch is covered by no CRC: its highest byte is taken, so that the
// batch leaves the segment.
func flippedLog(raw []byte, r *rand.Rand) []byte {
	w := format.Walk(raw)
	var batches []int
	for at := 0; w.Next(); at += int(w.Header().Size()) {
		batches = append(batches, at)
	}
	begin := batches[r.IntN(len(batches))]
	h, err := format.ParseBatchHeader(raw[begin:])
	if err != nil { // a defect of the model
		panic(err)
	}
	i := r.IntN(int(h.Size()))
	if i < 8 {
		i = 0
	}
	return flipped(raw, begin+i, r)
}
