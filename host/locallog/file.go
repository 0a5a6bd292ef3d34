package locallog

import (
	"io"
	"os"

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

// readAll reads a file that is small.
func readAll(op, path string) ([]byte, error) {
	f, err := openFile(op, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	if len(b) > maxSmall {
		return nil, abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", maxSmall)
	}
	return b, nil
}
