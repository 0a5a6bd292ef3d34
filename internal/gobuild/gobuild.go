// Package gobuild builds what tests run, as `make build` makes it, but for the stamps.
package gobuild

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const module = "github.com/rsmhost/rsmhost/"

// Command builds the command in a package of this module, such as "cmd/rsmhost", into dir and gives its path.
func Command(dir, pkg string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	return path, run(nil, "build", "-trimpath", "-o", path, module+pkg)
}

// Process builds the plugin rsm-localfs, to be run as a process, into dir and gives its path.
func Process(dir string) (string, error) { return Command(dir, "plugins/localfs/rsm-localfs") }

// Module builds the same plugin as a WebAssembly module into dir and gives its path.
func Module(dir string) (string, error) { return CachedModule(dir, "") }

// CachedModule is Module, and keeps what the module compiles to in cache, which may be empty.
func CachedModule(dir, cache string) (string, error) {
	path := filepath.Join(dir, "rsm-localfs.wasm")
	return path, errors.Join(
		run([]string{"GOOS=wasip1", "GOARCH=wasm"}, "build", "-trimpath", "-buildmode=c-shared", "-o", path, module+"plugins/localfs/rsm-localfs"),
		run(nil, "run", module+"internal/tools/wasmpack", "-cache", cache, path),
	)
}

func run(env []string, args ...string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("these tests build what they run, and need the go command: %w", err)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}
