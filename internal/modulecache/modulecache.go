// Package modulecache is where tests keep compiled WebAssembly modules from run to run, as the go command keeps its builds:
// under the race detector one Go module takes the compiler half a minute.
package modulecache

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir gives the directory, below the user's cache directory; one of the test's own where the user has none. Entries are
// kept by the module's content, checked when they are read, and trimmed when they are old.
func Dir(t testing.TB) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	dir := filepath.Join(base, "rsmhost-tests", "modules")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t.TempDir()
	}
	return dir
}
