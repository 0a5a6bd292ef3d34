package randomops

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/internal/gobuild"
	"github.com/rsmhost/rsmhost/internal/modulecache"
)

// built is the directory of what was built; "" before.
var built string

var builders = map[placement]func() (string, error){
	asProcess: sync.OnceValues(func() (string, error) { return buildIn(gobuild.Process) }),
	asModule:  sync.OnceValues(func() (string, error) { return buildIn(gobuild.Module) }),
}

var buildMu sync.Mutex // guards built; one build at a time

func buildIn(build func(dir string) (string, error)) (_ string, err error) {
	buildMu.Lock()
	defer buildMu.Unlock()
	if built == "" {
		if built, err = os.MkdirTemp("", "randomops"); err != nil {
			return "", err
		}
	}
	return build(built)
}

// builtPlugins builds plugins that seeds ask for, each once, and keeps compiled modules from run to run.
type builtPlugins struct{ modules string }

func newPlugins(t testing.TB) builtPlugins { return builtPlugins{modulecache.Dir(t)} }

func (builtPlugins) file(where placement) (string, error) { return builders[where]() }

func removePlugins(code int) {
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// link puts the directory of compiled modules into a cache directory.
func (p builtPlugins) link(cache string) error {
	err := os.Symlink(p.modules, filepath.Join(cache, "modules"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// occupy takes a cache directory as another host would: who comes then keeps its indexes in memory.
func occupy(dir string) (free func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { // to close it is not enough: a plugin that is being forked has it too
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}
