package access

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const (
	lookInterval = time.Second // between two looks at whether a file changed
	fileMax      = 16 << 20    // users and rules of a large company fit
)

// watched is what some files say, read again when one of them changed. There is no goroutine: who asks looks.
type watched[T any] struct {
	what  string // in the log
	paths []string
	parse func(contents [][]byte) (T, error) // an error that does not name a file is about the first
	now   func() time.Time
	log   *slog.Logger

	good  atomic.Pointer[T] // what was read last and is right
	next  atomic.Int64      // when somebody looks again, in nanoseconds of now
	mu    sync.Mutex        // held by who looks; guards seen
	seen  []os.FileInfo     // of what was read last, right or wrong
	trial string            // the last complaint: it is not said again
}

// open reads the files for the first time.
func (w *watched[T]) open() error {
	w.next.Store(w.now().Add(lookInterval).UnixNano())
	w.seen, _ = stat(w.paths)
	v, err := w.read()
	if err != nil {
		return err
	}
	w.good.Store(&v)
	return nil
}

// get gives what the files say, or said when they were right last.
func (w *watched[T]) get() T {
	if now := w.now().UnixNano(); now >= w.next.Load() && w.mu.TryLock() { // others go on with what there is
		w.next.Store(now + int64(lookInterval))
		w.lookLocked()
		w.mu.Unlock()
	}
	return *w.good.Load()
}

func (w *watched[T]) lookLocked() {
	infos, err := stat(w.paths)
	if err != nil {
		w.seen = nil
		w.complainLocked(err)
		return
	}
	if same(infos, w.seen) {
		return
	}
	v, err := w.read() // after stat: what changes while it is read is read again
	w.seen = infos
	if err != nil {
		if abi.KindOf(err) != abi.Invalid { // the file may be readable next time as it is
			w.seen = nil
		}
		w.complainLocked(err)
		return
	}
	w.good.Store(&v)
	w.trial = ""
	w.log.Info("what changed is in force", "what", w.what, "files", w.paths)
}

// complainLocked says once what is wrong with the files.
func (w *watched[T]) complainLocked(err error) {
	if w.trial != err.Error() {
		w.trial = err.Error()
		w.log.Error("what changed is wrong, and what was there before stays in force", "what", w.what, "error", err)
	}
}

func (w *watched[T]) read() (v T, err error) {
	contents := make([][]byte, len(w.paths))
	for i, p := range w.paths {
		if contents[i], err = readFile(w.what, p); err != nil {
			return v, err
		}
	}
	v, err = w.parse(contents)
	if named := (*abi.Error)(nil); err != nil && !errors.As(err, &named) {
		err = abi.E("read "+w.what, w.paths[0], abi.Invalid, err)
	}
	return v, err
}

func readFile(what, path string) ([]byte, error) {
	return ownfile.Read("read "+what, path, fileMax)
}

func stat(paths []string) ([]os.FileInfo, error) {
	out := make([]os.FileInfo, len(paths))
	for i, p := range paths {
		info, err := os.Stat(p) // of what a link leads to: links are how some replace several files at once
		if err != nil {
			return nil, err
		}
		out[i] = info
	}
	return out, nil
}

// same reports files that look unchanged.
func same(a, b []os.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()) {
			return false
		}
	}
	return true
}
