package abi

import (
	"errors"
	"io/fs"
	"syscall"
)

// FileKind says what an error of a file operation means: NOT_FOUND, DENIED, INVALID for a name that no file can have, or
// UNAVAILABLE for the rest. An error of os.Root that is no errno is its refusal to leave the directory: DENIED.
func FileKind(err error) Kind {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return NotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP):
		return Denied
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENAMETOOLONG):
		return Invalid
	case errors.As(err, &errno):
		return Unavailable
	}
	return Denied
}
