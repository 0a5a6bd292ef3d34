package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/replay"
	"github.com/rsmhost/rsmhost/plugins/localfs"
)

const fixtures = "../../testdata/kafka"

// fixtureNames lists the recorded brokers.
func fixtureNames(t testing.TB) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(fixtures, "*", "golden"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no fixtures below %s: %v", fixtures, err)
	}
	var names []string
	for _, d := range dirs {
		names = append(names, filepath.Base(filepath.Dir(d)))
	}
	return names
}

// builtIn gives localfs in this process.
func builtIn(t testing.TB, root, mode string) host.Config {
	t.Helper()
	dirs := map[string]string{"root": root}
	c, err := sdk.NewConfig(map[string]string{"root": root, "mode": mode}, nil, dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	rsm, err := localfs.Plugin().New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return host.Config{RSM: rsm, Roots: dirs}
}

// fixtureConfig adds what a fixture holds beside its remote tier.
func fixtureConfig(cfg host.Config, fixture string) host.Config {
	cfg.Metadata = "dir:" + filepath.Join(fixtures, fixture, "rlmm")
	cfg.LogDirs = []string{filepath.Join(fixtures, fixture, "local")}
	return cfg
}

func openHost(t testing.TB, cfg host.Config) *host.Host {
	t.Helper()
	h, err := host.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// loaded gives localfs as a plugin of its own. The directories of compiled modules are one, those of indexes are not: an
// index that one mode brought must not hide what the other brings.
func loaded(t testing.TB, plugin, root, mode string) host.Config {
	t.Helper()
	cache := t.TempDir()
	if err := os.Symlink(artifacts(t).cache, filepath.Join(cache, "modules")); err != nil {
		t.Fatal(err)
	}
	return host.Config{Plugin: plugin, PluginConfig: map[string]string{"root": root, "mode": mode}, CacheDir: cache}
}

// placements are the ways to run localfs.
var placements = map[string]func(t testing.TB, root, mode string) host.Config{
	"built-in": builtIn,
	"wasm":     func(t testing.TB, root, mode string) host.Config { return loaded(t, artifacts(t).wasm, root, mode) },
	"process":  func(t testing.TB, root, mode string) host.Config { return loaded(t, artifacts(t).process, root, mode) },
}

// TestReplay holds every recorded fetch of every fixture against the host, in every placement and both forms of a Source.
// The race detector sees nothing more in six fixtures than in one.
func TestReplay(t *testing.T) {
	for placement, config := range placements {
		for _, fixture := range fixtureNames(t) {
			if underRace && fixture != "txn" && placement != "built-in" {
				continue
			}
			for _, mode := range []string{"location", "stream"} {
				for _, exact := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%s/%s/exact=%v", placement, fixture, mode, exact), func(t *testing.T) {
						t.Parallel()
						cfg := fixtureConfig(config(t, filepath.Join(fixtures, fixture, "remote"), mode), fixture)
						cfg.KafkaExact = exact
						replayFile(t, openHost(t, cfg), filepath.Join(fixtures, fixture, "golden", "fetch.jsonl"), exact)
					})
				}
			}
		}
	}
}

// replayFile fails the test with each field of each case that differs.
func replayFile(t *testing.T, h replay.Host, path string, exact bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mode := replay.Better
	if exact {
		mode = replay.Exact
	}
	cases, failed := 0, 0
	for s := replay.NewScanner(filepath.Base(path), f); ; cases++ {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		fails, err := replay.Run(context.Background(), h, c, mode)
		if err != nil {
			t.Fatal(err)
		}
		if len(fails) > 0 {
			failed++
		}
		for _, f := range fails {
			if failed <= 10 {
				t.Errorf("%s: %s: want %s, got %s", c.Name(), f.Field, f.Want, f.Got)
			}
		}
	}
	if cases == 0 {
		t.Fatal("the file holds no case")
	}
	t.Logf("%s: %d cases, %d failed", strings.TrimSuffix(path, ".jsonl"), cases, failed)
}
