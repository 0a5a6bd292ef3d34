package ownfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// givenWait bounds the wait for what writes to a descriptor.
const givenWait = 10 * time.Second

// descriptorPath is how the user of a shell names a descriptor that this process was started with: <(...) makes such a name.
var descriptorPath = regexp.MustCompile(`^/dev/(stdin|fd/[0-9]{1,4})$|^/proc/self/fd/[0-9]{1,4}$`)

// ReadGiven is Read of a path that the user wrote, such as that of a secret. A descriptor that this process was started with
// may be a pipe: it is read to its end, once, and not longer than ten seconds (DEADLINE). Any other name of a pipe is INVALID.
func ReadGiven(op, path string, most int64) ([]byte, error) {
	st, err := os.Stat(path)
	if !descriptorPath.MatchString(filepath.Clean(path)) || err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		return Read(op, path, most)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	defer f.Close()
	if err := f.SetReadDeadline(time.Now().Add(givenWait)); err != nil {
		return nil, abi.E(op, path, abi.FileKind(err), err)
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, abi.Errorf(op, path, abi.Deadline, "what writes to it did not end within %s", givenWait)
	case err != nil:
		return nil, abi.E(op, path, abi.FileKind(err), err)
	case int64(len(b)) > most:
		return nil, abi.Errorf(op, path, abi.Exhausted, "larger than %d bytes", most)
	case len(b) == 0: // what is wanted is never nothing
		return nil, abi.Errorf(op, path, abi.Invalid, "it gives nothing, and a pipe gives what it has only once")
	}
	return b, nil
}
