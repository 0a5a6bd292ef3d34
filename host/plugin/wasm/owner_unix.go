//go:build unix

package wasm

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to the user that this process runs as.
func ownedByUs(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
