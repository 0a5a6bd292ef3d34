package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/internal/gobuild"
	"github.com/rsmhost/rsmhost/internal/modulecache"
)

// stalls is the name under which this test binary is a plugin that never finishes a stream.
const stalls = "rsm-stalls"

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case stalls:
		sdk.Main(stallingPlugin())
	case far:
		sdk.Main(farPlugin())
	case farClients:
		os.Exit(readFar())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir := artifactsDir; dir != "" {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// built is what the tests run, as `make build` makes it, but for the stamps.
type built struct {
	host    string // rsmhost
	process string // rsm-localfs
	wasm    string // rsm-localfs.wasm
	cache   string // for compiled modules
}

var artifactsDir string // set by buildArtifacts

var buildOnce = sync.OnceValues(buildArtifacts)

// artifacts builds the host and its plugin, once a run.
func artifacts(t testing.TB) built {
	t.Helper()
	b, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func buildArtifacts() (built, error) {
	dir, err := os.MkdirTemp("", "e2e")
	if err != nil {
		return built{}, err
	}
	artifactsDir = dir
	b := built{cache: filepath.Join(dir, "cache", "modules")}
	if kept, err := modulecache.Path(); err == nil {
		b.cache = kept
	}
	var host, process, module error
	b.host, host = gobuild.Command(dir, "cmd/rsmhost")
	b.process, process = gobuild.Process(dir)
	b.wasm, module = gobuild.CachedModule(dir, b.cache)
	if err := errors.Join(host, process, module); err != nil {
		return built{}, err
	}
	return b, b.compile()
}

// compile fills the cache of compiled modules, so that the tests do not all compile the same one at once. The host does
// it as it was built: this binary may have the race detector in it.
func (b built) compile() error {
	out, err := exec.Command(b.host, "plugin", "inspect", "--cache-dir", filepath.Dir(b.cache), b.wasm).CombinedOutput()
	if err != nil {
		return fmt.Errorf("plugin inspect: %w\n%s", err, out)
	}
	return nil
}

// asPlugin is this test binary under another name.
func asPlugin(t testing.TB, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}
