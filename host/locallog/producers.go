package locallog

import (
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// producers are the transactions that are open at a point of the log: producer id to first offset.
type producers map[int64]int64

// apply takes the next batch of the log. It gives the transaction that an abort marker ends.
func (p producers) apply(b *Batch) (aborted format.AbortedTxn, ok bool, err error) {
	if !b.IsTransactional() {
		return aborted, false, nil
	}
	first, open := p[b.ProducerID]
	if !b.IsControl() {
		if !open {
			p[b.ProducerID] = b.BaseOffset
		}
		return aborted, false, nil
	}
	delete(p, b.ProducerID) // commit and abort alike end the transaction
	abort, err := isAbort(b)
	if err != nil || !abort || !open { // a marker without data aborts nothing
		return aborted, false, err
	}
	return format.AbortedTxn{ProducerID: b.ProducerID, FirstOffset: first, LastOffset: b.LastOffset, LastStableOffset: p.first(b.LastOffset + 1)}, true, nil
}

// first is the first offset of the oldest open transaction, end where none is open.
func (p producers) first(end int64) int64 {
	for _, offset := range p {
		end = min(end, offset)
	}
	return end
}

func isAbort(b *Batch) (bool, error) {
	bytes, err := b.Bytes()
	if err != nil {
		return false, err
	}
	t, ok, err := format.ControlOf(bytes)
	return ok && t == format.ControlAbort, err
}

// producersAtEnd are the transactions that are open at the log's end: from the newest producer snapshot, and the batches
// behind it.
func (l *Log) producersAtEnd() (producers, error) {
	open, from, err := l.producersAt(l.end)
	if err != nil {
		return nil, err
	}
	err = l.scan(from, false, func(b *Batch) (bool, error) {
		_, _, err := open.apply(b)
		return false, ignoreCorrupt(err)
	})
	return open, ignoreCorrupt(err)
}

// producersAt gives the open transactions of the newest usable snapshot at or below offset, and the offset that it covers
// up to. A broken snapshot is passed over for an older one, as a broker does.
func (l *Log) producersAt(offset int64) (producers, int64, error) {
	open, entries := producers{}, checkedEntries
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		if l.snapshots[i] > offset {
			continue
		}
		name := format.SegmentFileName(l.snapshots[i], ".snapshot")
		empty := false
		states, there, err := readFile(l.Path, name, maxSmall, func(b []byte) ([]format.ProducerState, error) {
			empty = len(b) == 0
			return format.ParseProducerSnapshot(b)
		})
		if err == nil && !there { // it was deleted meanwhile
			continue
		}
		if err == nil {
			if err = l.checkSnapshot(states, l.snapshots[i], entries); err != nil && abi.KindOf(err) != abi.Corrupt {
				return nil, 0, err
			}
			entries = doubtedEntries
		}
		if err != nil {
			if !(empty && i == len(l.snapshots)-1) { // else a broker has made the file, and not yet written it
				l.noteRepaired(filepath.Join(l.Path, name), "%v; an older one is used", pathless(err))
			}
			continue
		}
		for _, p := range states {
			if p.CurrentTxnFirstOffset >= 0 {
				open[p.ProducerID] = p.CurrentTxnFirstOffset
			}
		}
		return open, l.snapshots[i], nil
	}
	return open, 0, nil
}
