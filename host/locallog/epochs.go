package locallog

import (
	"path/filepath"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
)

// readEpochs reads the leader epochs, after the batches: a broker writes an epoch down before the first batch of it, so that
// each batch that was seen has its epoch in the file. Behind an unclean end the file may have lost the newest ones, which the
// batches tell then, as a broker takes them.
func (l *Log) readEpochs() {
	path := filepath.Join(l.Path, epochsName)
	epochs, err := readFile(l.Path, epochsName, format.ParseLeaderEpochs)
	if err != nil {
		l.note(path, "%v; taken as empty", err)
	}
	l.Lineage = epoch.Of(epochs)
	if l.Lineage.Empty() {
		return
	}
	for _, e := range l.tail {
		if e.Epoch > l.Lineage.Latest() {
			l.noteRepaired(path, "leader epoch %d is not in it, and batches from offset %d on say it; taken from them", e.Epoch, e.StartOffset)
			l.Lineage = epoch.Of(append(slices.Clone(l.Lineage.Entries()), e))
		}
	}
}

// ascent is the leader epochs of batches one after another, each with the first offset from which on none is lower.
type ascent []abi.LeaderEpoch

// add takes the next batch.
func (a *ascent) add(h *format.BatchHeader) {
	es := *a
	for len(es) > 0 && es[len(es)-1].Epoch > h.LeaderEpoch {
		es = es[:len(es)-1]
	}
	if len(es) == 0 || es[len(es)-1].Epoch < h.LeaderEpoch {
		es = append(es, abi.LeaderEpoch{Epoch: h.LeaderEpoch, StartOffset: h.BaseOffset})
	}
	*a = es
}
