//go:build wasip1

package sdk

import (
	"encoding/binary"
	"io"
	"unsafe"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/wasm"
)

// rootsOf gives every setting as a root: which of them grant a directory is for the host to know, and it answers DENIED
// for those that do not. A module would have to parse its own schema to tell.
func rootsOf(values map[string]string) map[string]*Root {
	roots := make(map[string]*Root, len(values))
	for name := range values {
		roots[name] = &Root{name: name, dir: hostRoot(name)}
	}
	return roots
}

// hostRoot is a directory that the host opened, by the name of its setting.
type hostRoot string

func (r hostRoot) size(path string) (int64, error) {
	var size [8]byte
	root, rootLen := stringPtr(string(r))
	p, pLen := stringPtr(path)
	if res := wasm.Result(hostFileSize(root, rootLen, p, pLen, unsafe.Pointer(&size))); res.Kind() != 0 {
		return 0, r.refused("stat", path, res.Kind())
	}
	return int64(binary.LittleEndian.Uint64(size[:])), nil
}

func (r hostRoot) readAt(path string, b []byte, off int64) (int, error) {
	root, rootLen := stringPtr(string(r))
	p, pLen := stringPtr(path)
	ptr, size := bytesPtr(b)
	res := wasm.Result(hostFileRead(root, rootLen, p, pLen, off, ptr, size))
	if res.Kind() != 0 {
		return 0, r.refused("read", path, res.Kind())
	}
	n := int(res.Value())
	if n < len(b) && res.Flags()&wasm.EOF != 0 {
		return n, io.EOF
	}
	return n, nil
}

// refused is what a file function's status says. The host's log has the words of the operating system.
func (r hostRoot) refused(op, path string, kind abi.Kind) error {
	return abi.E(op, string(r)+":"+path, kind, nil)
}
