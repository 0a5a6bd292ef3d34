// Package ownfile opens files that are to be regular ones, as a whole or not at all: those that this program keeps for itself,
// and those that it is told to read when it starts. A pipe in the place of one would make it wait for a writer, a device would
// give bytes without end, and a file of any size would take all memory.
//
// # Errors
//
// An error is an *abi.Error of the operation and the path that the caller gives: INVALID where there is something else than a
// regular file, EXHAUSTED where the file is larger than it may be, and else by abi.FileKind.
//
// # Concurrency
//
// All functions are safe for concurrent use. What others do to a file between two calls, the second one sees.
package ownfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/rsmhost/rsmhost/abi"
)

// Open opens a regular file of at most most bytes to be read. It follows links. It never waits.
func Open(op, path string, most int64) (*os.File, error) {
	f, err := openRegular(op, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > most {
		err = abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", most)
	}
	if err != nil {
		f.Close()
		return nil, abi.AsError(op, path, err)
	}
	return f, nil
}

// Read reads a regular file of at most most bytes as a whole, also one that grows meanwhile.
func Read(op, path string, most int64) ([]byte, error) {
	f, err := Open(op, path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	if int64(len(b)) > most {
		return nil, abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", most)
	}
	return b, nil
}

// OpenLock opens a regular file to be locked, for this user alone, and makes it where it is missing.
func OpenLock(op, path string) (*os.File, error) {
	return openRegular(op, path, os.O_CREATE|os.O_RDWR, 0o600)
}

// Create makes a new file for this user alone, in the place of whatever has its name but a directory that holds something. It
// is open to be read and written.
func Create(op, path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	return f, nil
}

// Write writes a file for this user alone, in the place of whatever has its name but a directory: all of it, or nothing is
// changed. It is on disk then, but for its name, which SyncDir makes last. It writes beside it first, with the suffix ".new".
func Write(op, path string, b []byte) error {
	next := path + ".new"
	f, err := Create(op, next)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return abi.E(op, path, abi.FileKind(err), err)
	}
	return nil
}

// SyncDir makes the names in a directory last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openRegular opens a regular file. It looks before, since to open a device may do something, and after, at what it opened.
// O_NONBLOCK means nothing to a regular file, and opens a pipe that came between without a wait.
func openRegular(op, path string, flag int, mode os.FileMode) (*os.File, error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return nil, notRegular(op, path, st)
	case err != nil && !(errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0):
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, mode)
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
		err = notRegular(op, path, st)
	}
	if err != nil {
		f.Close()
		return nil, abi.AsError(op, path, err)
	}
	return f, nil
}

func notRegular(op, path string, st os.FileInfo) error {
	return abi.Errorf(op, path, abi.Invalid, "it is %s, and a regular file is wanted", typeName(st.Mode()))
}

// typeName names what a path leads to.
func typeName(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}
