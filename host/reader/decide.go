package reader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// searchFirst is how many bytes behind an answer are searched for the markers of what is open at its end, before transaction
// indexes are asked. Most transactions end within it, and their markers say for certain what an index, which has no checksum,
// may have wrong.
const searchFirst = 1 << 20

// search looks for the ends of the transactions that are open at the end of an answer.
type search struct {
	open   []openTxn
	from   int64 // the end of the answer
	budget int64 // bytes that may be read yet where there is a transaction index
	all    bool  // the data alone counts, all of it
	gap    bool  // data was passed over, in which nothing is aborted
	read   int64 // bytes that were read behind the answer

	indexes txnIndexes

	decided []int64 // producers that were taken out of open
}

// decide finds how the transactions end that are open at the end of an answer's records, and notes which were aborted. What is not known to be aborted up to the end of the log was committed: nothing at or above the last stable offset
// is read. An answer with records of which it can't be told ends before them; the error says why, where nothing is left.
func (r *Reader) decide(ctx context.Context, rd *read, known txnIndexes) (s search, err error) {
	s = search{open: rd.acc.txns.open, from: rd.acc.next, budget: searchFirst, indexes: known}
	at, err := r.findEnds(ctx, rd, &s)
	if errors.As(err, new(holeError)) || errors.Is(err, errGap) { // a commit may lie before it, which no index tells
		s.all, s.gap = true, false
		at, err = r.findEnds(ctx, rd, &s)
	}
	rd.acc.txns.open = s.open
	if err == nil {
		r.settleByIndex(rd, &s)
		rd.acc.txns.open = nil
		return s, nil
	}
	return s, r.leaveOut(rd, at, err)
}

// settleByIndex takes the word of the transaction indexes for what no marker ends.
func (r *Reader) settleByIndex(rd *read, s *search) {
	if len(s.open) == 0 {
		return
	}
	entries := r.entries(rd, s.indexes)
	for _, o := range s.open {
		i := slices.IndexFunc(entries, func(e format.AbortedTxn) bool {
			return e.ProducerID == o.producer && e.FirstOffset <= o.first && e.LastOffset >= s.from
		})
		if i < 0 {
			continue
		}
		s.ended(rd, o, entries[i].LastOffset)
		r.found(rd, finding.Of(rd.part.ID, o.first, "the transaction of producer %d was aborted, a transaction index says, at offset %d, and no marker of it is there: "+
			"its records are not given to read_committed", o.producer, entries[i].LastOffset))
	}
}

// leaveOut takes from an answer what follows the first record of a transaction of which it is not known how it ends, as err
// says. It gives the error back where nothing is left.
func (r *Reader) leaveOut(rd *read, at int64, err error) error {
	first := int64(math.MaxInt64)
	for _, o := range rd.acc.txns.open {
		first = min(first, o.first)
	}
	err = abi.E("fetch", fmt.Sprintf("%s offset %d", rd.part.ID, first), kindOfUndecided(err),
		fmt.Errorf("it can't be told whether the transaction of producer %d was aborted, whose end lies at or behind offset %d: %w",
			rd.acc.txns.producerOf(first), at, err))
	if hole := (holeError{}); errors.As(err, &hole) {
		r.found(rd, finding.Of(rd.part.ID, hole.offset, "no segment holds the offsets from %d on: records from %d on, of a transaction that ends there, "+
			"are not given to read_committed", hole.offset, first))
	}
	if !rd.acc.cut(first) {
		return err
	}
	rd.acc.txns.open = nil
	rd.stopped()
	return nil
}

// kindOfUndecided is the kind of an error that keeps a transaction undecided: what is not there now may come.
func kindOfUndecided(err error) abi.Kind {
	if errors.As(err, new(holeError)) || abi.KindOf(err) == abi.NotFound {
		return abi.Unavailable
	}
	return abi.KindOf(err)
}

// holeError is an offset in the log that no segment holds.
type holeError struct{ offset int64 }

// Error says so.
func (h holeError) Error() string { return fmt.Sprintf("no segment holds offset %d", h.offset) }

// findEnds goes through the log behind an answer, tier by tier, until every transaction is decided. at is where it came to.
func (r *Reader) findEnds(ctx context.Context, rd *read, s *search) (at int64, err error) {
	at = s.from
	if rd.acc.tail.local != nil {
		return at, r.searchLocal(rd, s, at)
	}
	if rd.part.Remote == nil || len(rd.acc.segs) == 0 {
		return at, nil
	}
	seg, pos := rd.acc.segs[len(rd.acc.segs)-1], rd.acc.tail.pos
	for {
		if at < seg.until {
			if complete, err := r.searchRemote(ctx, rd, s, seg, at, pos); err != nil || complete {
				return at, err
			}
		}
		at, pos = max(at, seg.until), 0
		if len(s.open) == 0 || at >= rd.part.Offsets.LogEnd {
			return at, nil
		}
		if rd.local(at) {
			return at, r.searchLocal(rd, s, at)
		}
		next, ok := r.searchNext(rd, s, at)
		if end := r.covered(rd, at); !ok || next.StartOffset > at && next.StartOffset >= end {
			switch {
			case rd.local(end):
				s.gap = s.gap || end > at
				return end, r.searchLocal(rd, s, end)
			case end < rd.part.Offsets.LogEnd:
				return end, holeError{end}
			}
			return end, nil
		}
		s.gap = s.gap || next.StartOffset > at
		seg, at = next, max(at, next.StartOffset)
	}
}

// searchNext is the segment that a search goes on with at or behind an offset: in data alone the next one.
func (r *Reader) searchNext(rd *read, s *search, at int64) (piece, bool) {
	if !s.all {
		return r.nextWithAborted(rd, at)
	}
	le, ok := rd.part.Lineage.ForOffset(at)
	if !ok {
		return piece{}, false
	}
	seg, ok := r.policy.lookup(rd.part.Remote, le.Epoch, at)
	if !ok {
		return piece{}, false
	}
	return piece{seg, r.policy.until(seg, rd.part.Lineage, at)}, true
}

// covered is the first offset at or behind one that no remote segment holds in the partition's lineage.
func (r *Reader) covered(rd *read, offset int64) int64 {
	return rd.part.Remote.Reach(rd.part.Lineage, offset)
}

// searchRemote searches a remote segment from offset at, whose batch begins at pos. complete says that no later segment matters.
func (r *Reader) searchRemote(ctx context.Context, rd *read, s *search, seg piece, at, pos int64) (complete bool, err error) {
	if seg.TxnIndexEmpty && !s.all { // nothing is aborted in it; what it commits is not seen
		s.gap = true
		return false, nil
	}
	key := stretchKey{remote: seg.SegmentID}
	st := r.known.from(key, at, pos, seg.until)
	if n := len(rd.acc.segs); at == s.from && n > 0 && rd.acc.segs[n-1].SegmentID == seg.SegmentID { // the answer ends there
		st.behind(at)
	}
	defer func() { r.known.put(key, st) }()
	if !s.gap {
		if over, err := r.scanOn(ctx, rd, s, seg, st); over || err != nil {
			return false, err
		}
	}
	x, why, err := r.txnIndex(ctx, rd, s, seg, st)
	if err != nil {
		return false, err
	}
	if why == nil {
		if complete, why = r.takeIndex(ctx, rd, s, x, seg, st); why == nil || abi.KindOf(why).Retriable() {
			return complete, why
		}
	}
	if why != errNoIndex {
		r.found(rd, repaired(rd.part.ID, seg, "its transaction index can't be used, and the data is read instead: %v", why))
	}
	st.noIndex = true
	if s.gap { // which transaction of a producer a marker ends is seen only where nothing is passed over
		return false, errGap
	}
	_, err = r.scanOn(ctx, rd, s, seg, st)
	return false, err
}

// errGap is a search that passed over data, and has to read it.
var errGap = errors.New("data was passed over")

// repaired is a finding about a segment that does no harm.
func repaired(id abi.TopicIDPartition, seg piece, what string, args ...any) finding.Finding {
	f := finding.Of(id, seg.StartOffset, "segment %s: "+what, append([]any{seg.SegmentID}, args...)...)
	f.Repaired = true
	return f
}

// limit is how many bytes may be read of a segment without its transaction index being asked.
func (s *search) limit(st *stretch) int64 {
	if s.all || st.noIndex {
		return math.MaxInt64
	}
	return s.budget
}

// scanOn reads on in a segment as far as the search may without its index. over says that nothing is left to look for in it. An
// error where an index may know more is none yet, unless it passes.
func (r *Reader) scanOn(ctx context.Context, rd *read, s *search, seg piece, st *stretch) (over bool, err error) {
	enough := func() bool { s.settle(rd, st); return len(s.open) == 0 }
	if enough() || st.end {
		return true, nil
	}
	limit := s.limit(st)
	if limit <= 0 {
		return false, nil
	}
	n, err := r.scanRemote(ctx, rd.mem, seg, st, limit, enough)
	s.read += n
	s.budget -= n
	if err != nil && limit < math.MaxInt64 && !passing(ctx, err) {
		err, s.budget = nil, 0
	}
	return err == nil && (enough() || st.end), err
}

// passing reports an error that a later try may not meet.
func passing(ctx context.Context, err error) bool { return ctx.Err() != nil || passingKind(err) }

func passingKind(err error) bool {
	switch k := abi.KindOf(err); k {
	case abi.Cancelled, abi.Exhausted, abi.Phase:
		return true
	default:
		return k.Retriable()
	}
}

// settle takes out of the search the transactions that a marker in st ends.
func (s *search) settle(rd *read, st *stretch) {
	left := s.open[:0:0]
	for _, o := range s.open {
		m, ok := st.ending(o.producer, s.from)
		switch {
		case !ok:
			left = append(left, o)
			continue
		case m.abort:
			s.ended(rd, o, m.offset)
		}
		s.decided = append(s.decided, o.producer)
	}
	if len(left) < len(s.open) {
		s.open = left
	}
}

// takeIndex takes out of the search the transactions that a transaction index has as aborted behind the answer. why says what shows that the index is wrong, or is an error that passes.
func (r *Reader) takeIndex(ctx context.Context, rd *read, s *search, x format.TxnIndex, seg piece, st *stretch) (complete bool, why error) {
	if why = x.CheckOrder(seg.StartOffset, seg.EndOffset); why != nil {
		return false, why
	}
	if why = st.contradicts(x); why != nil {
		return false, why
	}
	var ended []endedTxn
	for i := range x.Len() {
		e := x.Entry(i)
		if e.LastOffset >= seg.until {
			break
		}
		if e.LastOffset >= s.from && e.FirstOffset < s.from {
			at := slices.IndexFunc(s.open, func(o openTxn) bool { return o.producer == e.ProducerID })
			if at >= 0 && s.open[at].first < e.FirstOffset || at < 0 && e.FirstOffset >= rd.acc.firstBase && !s.settled(e.ProducerID) {
				return false, abi.Errorf("", "", abi.Corrupt, "it has a transaction of producer %d from offset %d to %d, and none of the data begins there",
					e.ProducerID, e.FirstOffset, e.LastOffset)
			}
			if why = r.prove(ctx, rd, seg, st, marker{e.ProducerID, e.LastOffset, true}); why != nil {
				return false, why
			}
			if at >= 0 {
				ended = append(ended, endedTxn{s.open[at], e.LastOffset})
			}
		}
		if complete = e.LastStableOffset >= s.from; complete {
			break
		}
	}
	for _, o := range ended {
		s.decided = append(s.decided, o.producer)
		s.ended(rd, o.openTxn, o.last)
		s.open = slices.DeleteFunc(slices.Clone(s.open), func(p openTxn) bool { return p == o.openTxn })
	}
	return complete, nil
}

// settled reports a producer whose transaction was open at the end of the answer, and is decided.
func (s *search) settled(producer int64) bool { return slices.Contains(s.decided, producer) }

// ended adds a transaction that was open at the end of the answer to those that were aborted.
func (s *search) ended(rd *read, o openTxn, last int64) {
	rd.acc.txns.aborted = append(rd.acc.txns.aborted, endedTxn{o, last})
}

// prove reads the marker that an entry of a transaction index names, once.
func (r *Reader) prove(ctx context.Context, rd *read, seg piece, st *stretch, m marker) error {
	if m.offset >= st.from && m.offset < st.next || slices.Contains(st.proved, m.offset) { // the former: contradicts has looked

		return nil
	}
	var used transfer.Evidence
	x, _, err := r.indexes.Offset(ctx, &seg.SegmentMetadata, r.index(seg.Segment, abi.OffsetIndex, &used))
	if err != nil && passing(ctx, err) {
		return err
	}
	entry, pos := seg.StartOffset, int64(0)
	if err == nil {
		entry, pos = x.Lookup(seg.StartOffset, m.offset)
	}
	obj := r.log(seg.Segment)
	defer obj.Close()
	w := &window{obj: obj, seg: seg, size: seg.SizeBytes, first: firstRead, strict: true, start: pos, mem: rd.mem}
	if w.buf, err = rd.mem.get(ctx, firstRead); err != nil {
		return err
	}
	defer func() { w.buf.Release() }()
	at, h, ok, err := w.findFrom(ctx, entry, pos, m.offset)
	if errors.Is(err, errMisled) || errors.Is(err, errUnproven) {
		w.restart(0)
		at, h, ok, err = w.find(ctx, 0, m.offset, false)
	}
	if err != nil && !passing(ctx, err) { // what is damaged speaks neither for the index nor against it
		return nil
	}
	if err != nil {
		return err
	}
	if ok && h.BaseOffset == m.offset && h.ProducerID == m.producer && h.IsControl() {
		b, err := w.passed(ctx, &h, at)
		if err != nil && passing(ctx, err) {
			return err
		}
		if err != nil {
			return nil
		}
		if abort, _, err := format.EndOfTransaction(b); err == nil && abort {
			st.proved = append(slices.Clip(st.proved), m.offset)
			return nil
		}
	}
	return abi.Errorf("", "", abi.Corrupt, "it says that a transaction of producer %d was aborted at offset %d, and no such marker lies there", m.producer, m.offset)
}

// contradicts says what of an index does not fit the markers that are known.
func (s *stretch) contradicts(x format.TxnIndex) error {
	for i := range x.Len() {
		e := x.Entry(i)
		if e.LastOffset < s.from || e.LastOffset >= s.next {
			continue
		}
		if !slices.Contains(s.list, marker{e.ProducerID, e.LastOffset, true}) {
			return fmt.Errorf("it has a transaction of producer %d that ends at offset %d, and no abort marker of it lies there", e.ProducerID, e.LastOffset)
		}
	}
	return nil
}

// txnIndex gives a segment's transaction index, or why there is none that can be used. An error is one that passes.
func (r *Reader) txnIndex(ctx context.Context, rd *read, s *search, seg piece, st *stretch) (x format.TxnIndex, why, err error) {
	if st.noIndex || s.all {
		return nil, errNoIndex, nil
	}
	if s.indexes.of(seg) == nil {
		r.lookUp(ctx, &s.indexes, r.ahead(rd, seg))
	}
	got := s.indexes.of(seg)
	switch {
	case got.usable():
		return got.index, nil, nil
	case got.err == nil || abi.KindOf(got.err) == abi.NotFound:
		return nil, errNoIndex, nil
	case passing(ctx, got.err):
		return nil, nil, got.err
	}
	return nil, got.err, nil
}

// errNoIndex is a transaction index that is missing or empty while the metadata does not say that it is.
var errNoIndex = errors.New("it is missing or empty")

// searchLocal searches the local log from offset at on.
func (r *Reader) searchLocal(rd *read, s *search, at int64) error {
	segments := rd.part.Local.Segments()
	for i, seg := range segments {
		if i+1 < len(segments) && segments[i+1].Base <= at {
			continue
		}
		if len(s.open) == 0 {
			return nil
		}
		next, err := r.searchLocalSegment(rd, s, seg, max(at, seg.Base))
		if err != nil {
			return err
		}
		if h, ok := rd.part.Local.Hole(next); ok && len(s.open) > 0 {
			return h.Err(rd.part.ID)
		}
	}
	return nil
}

// searchLocalSegment searches a segment of the local log. next is the end of its last batch, where it came as far.
func (r *Reader) searchLocalSegment(rd *read, s *search, seg *locallog.Segment, at int64) (next int64, err error) {
	pos := int64(0)
	switch {
	case rd.acc.tail.local == seg && at == s.from:
		pos = rd.acc.tail.pos
	case at > seg.Base:
		if pos, err = seg.Position(at); err != nil {
			return at, err
		}
	}
	key := stretchKey{local: seg.File()}
	st := r.known.from(key, at, pos, math.MaxInt64)
	if rd.acc.tail.local == seg && at == s.from { // the answer ends there
		st.behind(at)
	}
	defer func() { r.known.put(key, st) }()
	enough := func() bool { s.settle(rd, st); return len(s.open) == 0 }
	if s.gap { // an abort that is found may be of a later transaction: the index says where that began
		enough = func() bool { return s.allEnd(st) }
	}
	if enough() {
		return st.next, s.settleBehindGap(rd, seg, st)
	}
	if err := scanLocal(seg, st, enough); err != nil {
		return st.next, err
	}
	return st.next, s.settleBehindGap(rd, seg, st)
}

// allEnd reports that st has a marker for each open transaction.
func (s *search) allEnd(st *stretch) bool {
	return !slices.ContainsFunc(s.open, func(o openTxn) bool { _, ok := st.ending(o.producer, s.from); return !ok })
}

// settleBehindGap is settle where data was passed over: a marker may end a later transaction of the same producer. What commits
// comes to the same; where a transaction that is aborted began is the index's word.
func (s *search) settleBehindGap(rd *read, seg *locallog.Segment, st *stretch) error {
	if !s.gap {
		return nil
	}
	x := seg.Aborted()
	left := s.open[:0:0]
	for _, o := range s.open {
		m, ok := st.ending(o.producer, s.from)
		if !ok {
			left = append(left, o)
			continue
		}
		if m.abort {
			i := slices.IndexFunc(entries(x), func(e format.AbortedTxn) bool { return e.ProducerID == m.producer && e.LastOffset == m.offset })
			if i < 0 || x.Entry(i).FirstOffset > o.first && x.Entry(i).FirstOffset < s.from {
				return errGap
			}
			if x.Entry(i).FirstOffset <= o.first {
				s.ended(rd, o, m.offset)
			}
		}
		s.decided = append(s.decided, o.producer)
	}
	s.open = left
	return nil
}

func entries(x format.TxnIndex) []format.AbortedTxn {
	out := make([]format.AbortedTxn, x.Len())
	for i := range out {
		out[i] = x.Entry(i)
	}
	return out
}
