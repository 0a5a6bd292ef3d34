package locallog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
)

// maxSmall bounds a file that is read as a whole: an index is 10 MiB by a broker's default.
const maxSmall = 256 << 20

// openFile opens a regular file. Anything else is refused before it is opened: a pipe would wait for its writer.
func openFile(op, path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	if !st.Mode().IsRegular() {
		return nil, abi.Errorf(op, path, abi.Invalid, "not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	return f, nil
}

// Bounds of files that are read as a whole. A checkpoint has a line of at most 300 bytes for each partition or leader epoch.
const (
	maxCheckpoint = 64 << 20
	maxProperties = 1 << 20
)

// readAll reads a file that is small: of at most most bytes.
func readAll(op, path string, most int64) ([]byte, error) {
	f, err := openFile(op, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > most { // before it takes memory
		return nil, abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", most)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	if int64(len(b)) > most {
		return nil, abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", most)
	}
	return b, nil
}

// readFile parses a small file of a directory; one that does not exist is the zero value, and not there.
func readFile[T any](dir, name string, most int64, parse func([]byte) (T, error)) (v T, there bool, err error) {
	path := filepath.Join(dir, name)
	b, err := readAll("read", path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, true, err
	}
	if v, err = parse(b); err != nil {
		return v, true, abi.E("read", path, abi.KindOf(err), err)
	}
	return v, true, nil
}

// lines is a parser of a file of lines that a broker writes whole: one whose last line does not end is torn. An empty one was
// made, and not yet written.
func lines[T any](parse func([]byte) (T, error)) func([]byte) (T, error) {
	return func(b []byte) (v T, err error) {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			return v, abi.Errorf("", "", abi.Corrupt, "its last line does not end")
		}
		return parse(b)
	}
}
