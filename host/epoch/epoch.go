// Package epoch is the lineage of leader epochs of one partition: which leader's epoch an offset was written in, and
// where an epoch ends (KIP-101, KIP-279). Pure functions over a sorted list.
package epoch

import (
	"slices"
	"sort"

	"github.com/rsmhost/rsmhost/abi"
)

// Undefined is Kafka's epoch for "none".
const Undefined int32 = -1

// Lineage is an ascending list of epochs with the offset that each began at. The zero value is the empty lineage. It is
// immutable: methods that change it return another. Safe for concurrent use.
type Lineage struct {
	entries []abi.LeaderEpoch
}

// Of makes a lineage of entries in any order, by assigning them in the order of their epochs: an entry that begins at or
// before an earlier one replaces it, as Kafka's leader-epoch cache does.
func Of(entries []abi.LeaderEpoch) Lineage {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b abi.LeaderEpoch) int { return int(a.Epoch) - int(b.Epoch) })
	var out []abi.LeaderEpoch
	for _, e := range sorted {
		for len(out) > 0 && (out[len(out)-1].StartOffset >= e.StartOffset || out[len(out)-1].Epoch == e.Epoch) {
			out = out[:len(out)-1]
		}
		out = append(out, e)
	}
	return Lineage{out}
}

// Entries gives the list; it must not be changed.
func (l Lineage) Entries() []abi.LeaderEpoch { return l.entries }

// Equal reports that two lineages are the same.
func (l Lineage) Equal(o Lineage) bool { return slices.Equal(l.entries, o.entries) }

// Before reports that o goes on where l ends: all epochs of l are in it, with the same starts.
func (l Lineage) Before(o Lineage) bool {
	return len(l.entries) <= len(o.entries) && slices.Equal(l.entries, o.entries[:len(l.entries)])
}

// Empty reports a lineage that knows nothing.
func (l Lineage) Empty() bool { return len(l.entries) == 0 }

// Latest is the highest epoch, Undefined for an empty lineage.
func (l Lineage) Latest() int32 {
	if l.Empty() {
		return Undefined
	}
	return l.entries[len(l.entries)-1].Epoch
}

// Start is the first offset that the lineage tells of: a broker that raises the log start cuts it there. It reports false
// for an empty lineage.
func (l Lineage) Start() (int64, bool) {
	if l.Empty() {
		return 0, false
	}
	return l.entries[0].StartOffset, true
}

// ForOffset gives the epoch that offset was, or would be, written in. It reports false below the first entry.
func (l Lineage) ForOffset(offset int64) (abi.LeaderEpoch, bool) {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].StartOffset > offset })
	if i == 0 {
		return abi.LeaderEpoch{}, false
	}
	return l.entries[i-1], true
}

// EndOffset answers OffsetForLeaderEpoch: the largest epoch not above the one asked for, and the exclusive offset where
// it ends. logEnd ends the latest. It reports false where the lineage can't tell: an undefined epoch or one above the
// latest.
func (l Lineage) EndOffset(epoch int32, logEnd int64) (found int32, end int64, ok bool) {
	if epoch == Undefined || l.Empty() || epoch > l.Latest() {
		return Undefined, -1, false
	}
	if epoch == l.Latest() {
		return epoch, logEnd, true
	}
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].Epoch > epoch })
	if i == 0 {
		return epoch, l.entries[0].StartOffset, true
	}
	return l.entries[i-1].Epoch, l.entries[i].StartOffset, true
}

// From gives the entries that hold offsets at or above offset, ascending, the first of them the one that covers it.
func (l Lineage) From(offset int64) []abi.LeaderEpoch {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].StartOffset > offset })
	return l.entries[max(i-1, 0):]
}

// CutFront drops what lies wholly below logStart and lets the covering entry begin there, as a raised log start does.
func (l Lineage) CutFront(logStart int64) Lineage {
	rest := slices.Clone(l.From(logStart))
	if len(rest) > 0 && rest[0].StartOffset < logStart {
		rest[0].StartOffset = logStart
	}
	return Lineage{rest}
}
