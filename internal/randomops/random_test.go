// Package randomops is the random-operation test: a model of a partition's log, operations that change disk and store as
// brokers do, and reads of a host that are held against the model. A seed draws where the plugin runs, how indexes are
// cached, whether the store fails, and every operation.
package randomops

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seedsFlag = flag.Uint64("randomops.seeds", defaultSeeds, "how many seeds TestRandomOperations runs, from 1 on")
	opsFlag   = flag.Int("randomops.ops", 500, "operations a seed")
	seedFlag  = flag.Uint64("randomops.seed", 0, "the one seed to run; 0: as -randomops.seeds says")
	soakFlag  = flag.Duration("randomops.soak", 0, "how long TestSoak runs seeds that no run had before")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(removePlugins))
}

// TestRandomOperations runs the same seeds each time.
func TestRandomOperations(t *testing.T) {
	built := newPlugins(t)
	first, last := uint64(1), *seedsFlag
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runSeed(t, seed, t.TempDir(), built)
		})
	}
}

// runSeed runs a seed in dir, and on failure prints all that was done and how to do it again.
func runSeed(t *testing.T, seed uint64, dir string, built builtPlugins) {
	log, err := perform(seed, *opsFlag, dir, built)
	if err == nil {
		return
	}
	t.Errorf("seed %d: %v\n\nrepeat it with\n\tgo test ./internal/randomops -run TestRandomOperations -randomops.seed %d -randomops.ops %d\n\nit did\n%s",
		seed, err, seed, *opsFlag, numbered(log))
}

func numbered(log []string) string {
	var b strings.Builder
	for i, l := range log {
		fmt.Fprintf(&b, "%5d  %s\n", i, l)
	}
	return b.String()
}

// TestSoak runs new seeds for a time, as many at once as there are processors, and says every half a minute how far it is.
func TestSoak(t *testing.T) {
	if *soakFlag <= 0 {
		t.Skip("for make soak: give -randomops.soak")
	}
	built, began := newPlugins(t), time.Now()
	var seeds atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for time.Since(began) < *soakFlag && !t.Failed() {
				soakSeed(t, built)
				seeds.Add(1)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		workers.Wait()
		close(over)
	}()
	said := time.NewTicker(30 * time.Second)
	defer said.Stop()
	for running := true; running; {
		select {
		case <-said.C:
		case <-over:
			running = false
		}
		fmt.Printf("soak: %d seeds of %d operations in %s\n", seeds.Load(), *opsFlag, time.Since(began).Round(time.Second))
	}
}

// soakSeed runs a seed that was not run before, and leaves nothing on disk.
func soakSeed(t *testing.T, built builtPlugins) {
	dir, err := os.MkdirTemp("", "randomops")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	runSeed(t, rand.Uint64(), dir, built)
}
