package rlmm

import (
	"maps"
	"slices"
	"sort"
)

// epochState is what is known of one leader epoch of a partition.
//
// Kafka's own structure is a map of the finished segments by start offset. It loses offsets where a later segment lies
// inside an earlier one, or begins with it and ends before it; here both stay, and a lookup that finds the nearer one too
// short looks further down.
type epochState struct {
	epoch       int32
	finished    spans             // those that a lookup can give
	txn         spans             // of them, those that may have a transaction index
	overwritten map[*record]int64 // of them, with their start, those whose place another took: Kafka's map has one a start
	highest     int64             // highest end that ever finished; never falls; -1: none
	size        int64             // bytes of all segments with this epoch that are not yet deleted
}

// finish adds a segment's part. Those that begin at or after it are superseded, as in Kafka, if none ends higher.
func (e *epochState) finish(x span) {
	if e.highest <= x.end {
		e.finished.cut(x.start)
		e.txn.cut(x.start)
		maps.DeleteFunc(e.overwritten, func(_ *record, start int64) bool { return start >= x.start })
	}
	for o := range e.finished.before(x.start) { // those before the nearest are marked already
		if o.start == x.start {
			e.overwrite(o)
		}
		break
	}
	e.finished.insert(x)
	if !x.rec.txnEmpty {
		e.txn.insert(x)
	}
	e.highest = max(e.highest, x.end)
}

func (e *epochState) overwrite(x span) {
	if e.overwritten == nil {
		e.overwritten = map[*record]int64{}
	}
	e.overwritten[x.rec] = x.start
}

// remove takes a segment's part out: its deletion began.
func (e *epochState) remove(x span) {
	e.finished.remove(x.start, x.rec)
	e.txn.remove(x.start, x.rec)
	delete(e.overwritten, x.rec)
}

// lookup finds the segment that holds offset: the one that begins nearest below it, among those that reach it.
func (e *epochState) lookup(offset int64) *record { return e.finished.holding(offset) }

// kafkaLookup is lookup as Kafka does it: the segment that begins nearest below offset, or none.
func (e *epochState) kafkaLookup(offset int64) *record {
	for x := range e.finished.before(offset) {
		if _, hidden := e.overwritten[x.rec]; hidden {
			continue
		}
		if x.end < offset {
			return nil
		}
		return x.rec
	}
	return nil
}

// nextTxn finds the segment at or after offset that may have a transaction index. It goes on behind a gap.
func (e *epochState) nextTxn(offset int64) *record {
	if r := e.txn.holding(offset); r != nil {
		return r
	}
	for x := range e.txn.at(offset) {
		if r := e.txn.holding(x.start); r != nil { // of several that begin there the one that a lookup gives
			return r
		}
	}
	return nil
}

// kafkaNextTxn is nextTxn as Kafka does it: from segment to segment, up to the first offset that it does not find.
func (e *epochState) kafkaNextTxn(offset int64) *record {
	r := e.kafkaLookup(offset)
	for r != nil && r.txnEmpty {
		r = e.kafkaLookup(r.end + 1)
	}
	return r
}

// epochList is the leader epochs of a partition, ascending: there are few.
type epochList []*epochState

// find gives the state of an epoch, nil where no segment has it.
func (l epochList) find(epoch int32) *epochState {
	i := l.place(epoch)
	if i == len(l) || l[i].epoch != epoch {
		return nil
	}
	return l[i]
}

func (l epochList) place(epoch int32) int {
	return sort.Search(len(l), func(i int) bool { return l[i].epoch >= epoch })
}

// of finds or makes the state of an epoch.
func (l *epochList) of(epoch int32) *epochState {
	if e := l.find(epoch); e != nil {
		return e
	}
	e := &epochState{epoch: epoch, highest: -1}
	*l = slices.Insert(*l, l.place(epoch), e)
	return e
}
