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
	epochs, there, err := readFile(l.Path, epochsName, maxCheckpoint, lines(format.ParseLeaderEpochs))
	l.Lineage = epoch.Of(epochs)
	switch {
	case err != nil:
		l.note(path, "%v; taken as empty", pathless(err))
		return
	case len(epochs) > 0:
	case l.tells():
		what := "it has no leader epoch, and batches have"
		if !there {
			what = "it is missing"
		}
		l.note(path, "%s; taken as empty", what)
		return
	default:
		return
	}
	for _, e := range l.tail {
		if e.Epoch > l.Lineage.Latest() {
			l.noteRepaired(path, "leader epoch %d is not in it, and batches from offset %d on say it; taken from them", e.Epoch, e.StartOffset)
			l.Lineage = epoch.Of(append(slices.Clone(l.Lineage.Entries()), e))
		}
	}
}

// tells reports a first batch that tells its leader epoch.
func (l *Log) tells() bool {
	for _, s := range l.segments {
		if h, ok := s.headerAt(0); ok {
			return h.LeaderEpoch != epoch.Undefined
		}
	}
	return false
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
