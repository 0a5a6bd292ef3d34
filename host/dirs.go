package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const (
	lockName  = ".lock"
	stampName = "format"
	stamp     = "rsmhost 1\n"
	stampMax  = 4096
)

// takeDir makes a directory for this user alone and locks it for this process. release is nil where another process has
// it. Errors name the directory, what is wrong with it, and the flag that takes another.
func takeDir(dir, flag string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, abi.Errorf("open directory", dir, abi.FileKind(err), "it can't be made: %w; give another with %s", pathless(err), flag)
	}
	f, err := ownfile.OpenLock("open directory", filepath.Join(dir, lockName))
	if abi.KindOf(err) == abi.Invalid { // something else lies there
		return nil, err
	}
	if err != nil {
		return nil, abi.Errorf("open directory", dir, abi.KindOf(err), "it can't be written to: %w; give another with %s", pathless(err), flag)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, abi.E("lock directory", dir, abi.FileKind(err), err)
	}
	if err := checkStamp(dir); err != nil {
		return nil, errors.Join(err, unlock(f))
	}
	return func() error { return unlock(f) }, nil
}

// unlock ends a lock and closes its file. To close it is not enough: a process that is being forked in this moment, for a
// plugin, has the file too until it runs the plugin, and a host that takes the directory again at once would find it locked.
func unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// taken refuses a directory that another process has.
func taken(dir, flag string) error {
	return abi.Errorf("open directory", dir, abi.Precondition, "another rsmhost has it: end that one, or give another with %s", flag)
}

// pathless is the reason in an error of the os package, for a message that has the path already.
func pathless(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// checkStamp refuses a directory that a later version of this program wrote in another form.
func checkStamp(dir string) error {
	path := filepath.Join(dir, stampName)
	b, err := ownfile.Read("read", path, stampMax)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ownfile.Write("write", path, []byte(stamp))
	case err != nil:
		return err
	case string(b) != stamp:
		return abi.Errorf("open directory", dir, abi.Precondition, "it is stamped %q, and this version writes %q: give another directory or remove it", string(b), stamp)
	}
	return nil
}

func subDir(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", abi.E("open directory", path, abi.FileKind(err), err)
	}
	return path, nil
}
