package coordinator

import (
	"context"
	"errors"
	"sync"
)

// errLetGo ends the wait of a member that somebody let go.
var errLetGo = errors.New("the member was let go")

// waits are those in JoinGroup and SyncGroup. kfake never answers one whose member is let go meanwhile, by an administrator or
// over another connection. One that has no id yet is not known here, and waits until its client gives up.
type waits struct {
	mu   sync.Mutex                                       // guards ends; nothing else is locked while it is held
	ends map[string]map[*context.CancelCauseFunc]struct{} // by the ledger's key of the member
}

// begin begins a wait that letGo ends early, until end is called.
func (w *waits) begin(key string, letGo context.CancelCauseFunc) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends = map[string]map[*context.CancelCauseFunc]struct{}{}
	}
	if w.ends[key] == nil {
		w.ends[key] = map[*context.CancelCauseFunc]struct{}{}
	}
	w.ends[key][&letGo] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.ends[key], &letGo); len(w.ends[key]) == 0 {
			delete(w.ends, key)
		}
	}
}

// letGo ends the waits of a member.
func (w *waits) letGo(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for end := range w.ends[key] {
		(*end)(errLetGo)
	}
}
