package locallog

import (
	"sort"

	"github.com/rsmhost/rsmhost/host/format"
)

// How many entries of offset indexes before a producer snapshot are looked at: 64 KiB, as brokers have it. Where one was wrong, older
// ones may be as well: 4 MiB.
const (
	checkedEntries = 16
	doubtedEntries = 1024
)

// checkSnapshot holds a producer snapshot against the batches before its offset. Who writes it has read them; a copy of an older one,
// or of another partition's, has not. An error is CORRUPT, or what reading the files gave.
func (l *Log) checkSnapshot(states []format.ProducerState, offset int64, entries int) error {
	var tail format.ProducerTail
	err := l.scan(l.checkedFrom(offset, entries), false, func(b *Batch) (bool, error) {
		if b.BaseOffset >= offset {
			return true, nil
		}
		tail.Add(&b.BatchHeader)
		return false, nil
	})
	if err = ignoreCorrupt(err); err != nil {
		return err
	}
	return tail.Check(states, offset)
}

// checkedFrom is the offset, so many entries before another, from which on batches are held against a producer snapshot of that.
func (l *Log) checkedFrom(offset int64, entries int) int64 {
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].Base >= offset }) - 1
	from := offset
	for steps := 0; i >= 0 && steps < entries; i-- {
		s := l.segments[i]
		for pos := int64(1); pos > 0 && steps < entries; steps++ {
			from, pos = s.Index().Lookup(s.Base, from-1)
		}
	}
	return from
}
