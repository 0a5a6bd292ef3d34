package reader

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// txnIndex is a segment's transaction index as the store has it.
type txnIndex struct {
	seg   piece
	index format.TxnIndex
	err   error
}

// usable reports an index with entries that can be this segment's.
func (l *txnIndex) usable() bool {
	return l.err == nil && l.index.Len() > 0
}

// txnIndexes are those that an answer took.
type txnIndexes []*txnIndex

func (l txnIndexes) of(seg piece) *txnIndex {
	for _, x := range l {
		if x.seg.SegmentID == seg.SegmentID {
			return x
		}
	}
	return nil
}

// maxAbsent bounds what is known to be missing.
const maxAbsent = 1 << 16

// absences are the transaction indexes that the store did not have when it was asked, in memory alone: nobody is told by it that
// nothing was aborted, but it need not be asked again and again. The zero value is good.
type absences struct {
	mu  sync.Mutex
	lru *simplelru.LRU[abi.UUID, error]
}

// of is the store's answer for a segment, nil where it is not known to have none.
func (m *absences) of(id abi.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lru == nil {
		return nil
	}
	err, _ := m.lru.Get(id)
	return err
}

func (m *absences) add(id abi.UUID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lru == nil {
		lru, err := simplelru.NewLRU[abi.UUID, error](maxAbsent, nil)
		if err != nil { // only for a size that is not positive
			panic(err)
		}
		m.lru = lru
	}
	m.lru.Add(id, err)
}

// lookupsAhead bounds how many transaction indexes are asked for at once.
const lookupsAhead = 8

// ahead is a segment and those behind it that may have a transaction index.
func (r *Reader) ahead(rd *read, first piece) []piece {
	segs := []piece{first}
	for len(segs) < lookupsAhead {
		next, ok := r.nextWithAborted(rd, segs[len(segs)-1].until)
		if !ok {
			break
		}
		segs = append(segs, next)
	}
	return segs
}

// lookUp asks for transaction indexes that were not asked for yet, side by side.
func (r *Reader) lookUp(ctx context.Context, known *txnIndexes, segs []piece) {
	running := 0
	done := make(chan struct{})
	for _, seg := range segs {
		if known.of(seg) != nil {
			continue
		}
		l := &txnIndex{seg: seg}
		*known = append(*known, l)
		if l.err = r.absent.of(seg.SegmentID); l.err != nil {
			continue
		}
		running++
		go func() { // ends with ctx, or when the index is there; the loop below waits for it
			defer func() { done <- struct{}{} }()
			var used transfer.Evidence
			l.index, _, l.err = r.indexes.Aborted(ctx, &seg.SegmentMetadata, r.index(seg.Segment, abi.TransactionIndex, &used))
			if abi.KindOf(l.err) == abi.NotFound {
				r.absent.add(seg.SegmentID, l.err)
			}
		}()
	}
	for range running {
		<-done
	}
}

// named looks up the transaction indexes of the segments that an answer came from, and of a few behind it until one says that no
// later one matters: where a transaction began that the answer shows the end of, no batch in it says.
func (r *Reader) named(ctx context.Context, rd *read) (known txnIndexes) {
	if r.store == nil || rd.part.Remote == nil || rd.acc.txns.none() && !rd.part.Remote.TellsTxnIndexes() {
		return nil // the latter: a transaction that spans the answer matters to nobody
	}
	var own []piece
	for _, seg := range rd.acc.segs {
		if !seg.TxnIndexEmpty {
			own = append(own, seg)
		}
	}
	for some := range slices.Chunk(own, lookupsAhead) {
		r.lookUp(ctx, &known, some)
	}
	if len(rd.acc.segs) == 0 || rd.acc.wentLocal {
		return known
	}
	for _, l := range known {
		if !l.usable() || l.complete(rd.acc.next) {
			return known
		}
	}
	if next, ok := r.nextWithAborted(rd, rd.acc.segs[len(rd.acc.segs)-1].until); ok {
		r.lookUp(ctx, &known, r.ahead(rd, next))
	}
	return known
}

// complete reports that all transactions that began below upper were decided in the segment or before it.
func (l *txnIndex) complete(upper int64) bool {
	_, complete := l.index.Collect(nil, upper, upper)
	return complete
}

// list is the aborted transactions of an answer: what its data shows, with the offsets where they began as the transaction
// indexes have it, and those transactions of the indexes of which the answer has no data. An entry that the data does not bear
// out is left out, and told.
func (r *Reader) list(rd *read, known txnIndexes) []AbortedTransaction {
	t := &rd.acc.txns
	entries := r.entries(rd, known)
	out := make([]AbortedTransaction, 0, len(t.aborted))
	for _, a := range t.aborted {
		if a.first >= rd.acc.next { // what it is of was left out
			continue
		}
		first := a.first
		i := slices.IndexFunc(entries, func(e format.AbortedTxn) bool {
			return e.ProducerID == a.producer && e.LastOffset == a.last && e.FirstOffset <= a.first && e.FirstOffset > a.before
		})
		if i >= 0 {
			first = entries[i].FirstOffset
		} else {
			r.unnamed(rd, known, a)
		}
		out = append(out, AbortedTransaction{a.producer, first})
	}
	for _, e := range entries {
		if t.bears(e, rd.acc.next) {
			out = append(out, AbortedTransaction{e.ProducerID, e.FirstOffset})
		}
	}
	return sorted(out)
}

// bears reports an entry of a transaction without data in the answer, which ends at next, that nothing in it speaks against.
func (t *transactions) bears(e format.AbortedTxn, next int64) bool {
	if e.LastOffset < next {
		return slices.ContainsFunc(t.others, func(o endedTxn) bool {
			return o.producer == e.ProducerID && o.last == e.LastOffset && e.FirstOffset > o.before
		})
	}
	return !t.hasData(e.ProducerID, e.FirstOffset)
}

// entries is what the indexes of both tiers have for an answer.
func (r *Reader) entries(rd *read, known txnIndexes) (found []format.AbortedTxn) {
	from, upper := rd.acc.firstBase, rd.acc.next
	for _, l := range known {
		if !l.usable() {
			continue
		}
		if err := l.index.CheckOrder(l.seg.StartOffset, l.seg.EndOffset); err != nil {
			r.found(rd, repaired(rd.part.ID, l.seg, "its transaction index can't be used, and the data is read instead: %v", err))
			continue
		}
		if found, _ = l.index.Before(l.seg.until).Collect(found, from, upper); l.complete(upper) {
			return found
		}
	}
	if rd.part.Local != nil {
		found = rd.part.Local.Collect(found, from, upper)
	}
	return found
}

// unnamed tells of an abort marker in the answer that its segment's transaction index has no entry for.
func (r *Reader) unnamed(rd *read, known txnIndexes, a endedTxn) {
	for _, l := range known {
		if a.last < l.seg.StartOffset || a.last >= l.seg.until || passingKind(l.err) {
			continue
		}
		why := "has no entry for it"
		switch {
		case abi.KindOf(l.err) == abi.NotFound:
			why = "is missing"
		case l.err != nil:
			why = "can't be used (" + l.err.Error() + ")"
		}
		f := repaired(rd.part.ID, l.seg, "the transaction of producer %d that ends at offset %d was aborted, and the transaction index %s; the data is read instead",
			a.producer, a.last, why)
		r.found(rd, f)
	}
}
