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
	dir, err := Path()
	if err != nil {
		return t.TempDir()
	}
	return dir
}

// Path is Dir for what is made once for all tests; an error means that the user has no cache directory.
func Path() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "rsmhost-tests", "modules")
	return dir, os.MkdirAll(dir, 0o700)
}
