//go:build plantedbug

package randomops

import (
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/internal/planted"
)

// TestPlanted: each planted bug makes a run fail before the seeds that `make check` runs are used up. Seeds with a plugin are
// left out: the bugs are on this side of it.
func TestPlanted(t *testing.T) {
	built := newPlugins(t)
	for name, bug := range map[string]*bool{
		"nested hole": &planted.NestedHole, "skipped batch": &planted.SkippedBatch, "dead lineage": &planted.DeadLineage,
		"no transaction index": &planted.NoTxnIndex, "cut too late": &planted.CutTooLate, "unchecked CRCs": &planted.UncheckedCRCs,
	} {
		t.Run(name, func(t *testing.T) {
			*bug = true
			defer func() { *bug = false }()
			for seed := uint64(1); seed <= 200; seed++ {
				if drawn(seed).placement != inMemory {
					continue
				}
				if log, err := perform(seed, *opsFlag, t.TempDir(), built); err != nil {
					why, _, _ := strings.Cut(err.Error(), "\n")
					t.Logf("found by seed %d at operation %d: %s", seed, len(log), why)
					return
				}
			}
			t.Error("no seed finds it")
		})
	}
}
