package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// maxBase is how long the path of the directory around ours may be. A socket's path has 104 bytes on the smallest system;
	// below the base come our name, go-plugin's directory and a name that the plugin chooses, 52 bytes in go-plugin's own.
	maxBase = 47

	dirPrefix = "rsm-"
	lockName  = "lock"
)

// privateDir is the directory of one plugin's socket, closed to other users. It is the plugin's working directory too.
//
// A host that was killed leaves its directories. Each holds a file that its host keeps locked, so that the next host tells
// what was left from what is in use, also in another process namespace.
type privateDir struct {
	path string
	lock *os.File
}

// newPrivateDir makes one where paths are short: in the system's directory for temporary files, else in /tmp.
func newPrivateDir() (*privateDir, error) {
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp"} {
		if len(base) > maxBase {
			errs = append(errs, fmt.Errorf("the path %s is too long for a socket's, %d bytes of at most %d; set TMPDIR to a short one", base, len(base), maxBase))
			continue
		}
		d, err := makePrivateDir(base)
		if err == nil {
			return d, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func makePrivateDir(base string) (*privateDir, error) {
	sweep(base)
	path, err := os.MkdirTemp(base, dirPrefix) // mode 0700
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return &privateDir{path, lock}, nil
		}
		lock.Close()
	}
	os.RemoveAll(path)
	return nil, err
}

func (d *privateDir) remove() {
	os.RemoveAll(d.path)
	d.lock.Close()
}

// sweepAge keeps the sweep off directories that are just being made and not locked yet.
const sweepAge = time.Minute

// sweep removes what hosts that were killed left in base, and on Linux ends what their plugins left running. What it cannot look at or remove, it leaves.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
			continue
		}
		path := filepath.Join(base, e.Name())
		if st, err := os.Lstat(path); err != nil || time.Since(st.ModTime()) < sweepAge || !isOurs(st) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			endLeft(path, nil)
			os.RemoveAll(path)
		}
		lock.Close()
	}
}

// isOurs reports a directory that this user made for itself alone.
func isOurs(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid() && st.Mode().Perm() == 0o700
}
