// Package grant holds what a plugin may touch. A plugin names a directory by the setting that granted it and a path
// below it; nothing else can be opened through this package, not by "..", not by an absolute path, not by a symbolic
// link that leads out.
//
// # Concurrency
//
// A Roots is safe for concurrent use until it is closed.
package grant

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rsmhost/rsmhost/abi"
)

// Roots are the directories that one plugin may read, by the name of the setting that granted each.
type Roots struct {
	dirs  map[string]*os.Root
	paths map[string]string
}

// OpenRoots opens the directories, given by name. Errors: NOT_FOUND, DENIED or UNAVAILABLE, with the setting as subject;
// nothing stays open then.
func OpenRoots(dirs map[string]string) (*Roots, error) {
	r := &Roots{dirs: make(map[string]*os.Root, len(dirs)), paths: dirs}
	for name, dir := range dirs {
		root, err := os.OpenRoot(dir)
		if err != nil {
			r.Close()
			return nil, abi.Errorf("open directory", name, rootKind(dir, err), "%s=%s: %w", name, dir, pathless(err))
		}
		r.dirs[name] = root
	}
	return r, nil
}

// pathless is the reason in an error of the os package, for a message that has the path already.
func pathless(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// rootKind is abi.FileKind, but for os.OpenRoot's word for a file, which is no errno and yet no escape.
func rootKind(dir string, err error) abi.Kind {
	if st, statErr := os.Stat(dir); statErr == nil && !st.IsDir() {
		return abi.NotFound
	}
	return abi.FileKind(err)
}

// Paths gives the directories by name, for messages and for a plugin in this process.
func (r *Roots) Paths() map[string]string {
	if r == nil {
		return nil
	}
	return r.paths
}

// Open opens a regular file for reading. Errors: DENIED for a root that was not granted and a path that leads out of it,
// NOT_FOUND for what does not exist or is not a regular file.
func (r *Roots) Open(root, path string) (*os.File, fs.FileInfo, error) {
	subject := root + ":" + path
	dir, err := r.dir(root)
	if err != nil {
		return nil, nil, err
	}
	f, err := dir.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		if st, statErr := dir.Stat(path); statErr == nil && !st.Mode().IsRegular() { // a socket can't even be opened
			return nil, nil, notRegular(subject)
		}
		return nil, nil, abi.E("open", subject, abi.FileKind(err), err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		err = abi.E("open", subject, abi.FileKind(err), err)
	case !st.Mode().IsRegular():
		err = notRegular(subject)
	default:
		return f, st, nil
	}
	f.Close()
	return nil, nil, err
}

func notRegular(subject string) error {
	return abi.Errorf("open", subject, abi.NotFound, "not a regular file")
}

func (r *Roots) dir(name string) (*os.Root, error) {
	if r != nil {
		if dir, ok := r.dirs[name]; ok {
			return dir, nil
		}
	}
	return nil, abi.E("open", fmt.Sprintf("%q", name), abi.Denied, errors.New("no directory of this name was granted"))
}

// Close closes the directories.
func (r *Roots) Close() error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, d := range r.dirs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
