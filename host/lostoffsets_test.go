package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lostCluster is a copy of the log directory of a broker that is gone, and what its groups had committed by its own words.
func lostCluster(t *testing.T) (dir string, want []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "logs")
	if err := os.CopyFS(dir, os.DirFS("../testdata/lostcluster")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../testdata/lostcluster.tsv")
	if err != nil {
		t.Fatal(err)
	}
	return dir, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// lostOffsets are those of a log directory, and what is found on the way.
func lostOffsets(t *testing.T, dir string, from int64) (got []string, sources map[string]int64, findings string) {
	t.Helper()
	h, err := Open(t.Context(), Config{LogDirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	sources = map[string]int64{}
	err = h.EachLostOffsets(context.Background(), func(string) int64 { return from }, func(l *LostOffsets) error {
		sources[l.Source] = l.End
		for _, c := range l.Commits {
			got = append(got, fmt.Sprintf("%s\t%s-%d\t%d\t%d\t%s", c.Group, c.Topic, c.Partition, c.Offset, c.LeaderEpoch, c.Metadata))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	for _, f := range h.Findings() {
		findings += f.String() + "\n"
	}
	return got, sources, findings
}

// TestLostOffsets: of a whole log directory they are what the broker said; one lies behind its log's end, and the sources name the cluster.
func TestLostOffsets(t *testing.T) {
	dir, want := lostCluster(t)
	got, sources, findings := lostOffsets(t, dir, 0)
	const beyond = "payments-1, offset 30: the log ends here, and group \"admin-app\" had committed offset 1000000: it begins where its client's auto.offset.reset says\n"
	if diff := cmp.Diff(want, got); diff != "" || findings != beyond {
		t.Errorf("%s%s", diff, findings)
	}
	ends := map[string]int64{"s6_AT6mMS2K5g6cbU4LTUA/__consumer_offsets-0": 18, "s6_AT6mMS2K5g6cbU4LTUA/__consumer_offsets-2": 39}
	if diff := cmp.Diff(ends, sources); diff != "" {
		t.Error(diff)
	}
	if got, sources, _ := lostOffsets(t, dir, 39); len(got) != 0 || len(sources) != 0 {
		t.Errorf("what was taken up is given again: %v %v", got, sources)
	}
}

// TestDamagedLostOffsets: what can't be read is a finding that names the partition, and no other partition is touched. What
// stands then is what the broker said, or an older commit.
func TestDamagedLostOffsets(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"a flipped bit in a record": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"a flipped bit at the end":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"a run of zeros":            func(b []byte) []byte { clear(b[1000:2000]); return b },
		"cut":                       func(b []byte) []byte { return b[:len(b)-7] },
	} {
		t.Run(name, func(t *testing.T) {
			dir, want := lostCluster(t)
			path := filepath.Join(dir, "__consumer_offsets-2", "00000000000000000000.log")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			got, _, findings := lostOffsets(t, dir, 0)
			if !strings.Contains(findings, "__consumer_offsets-2") {
				t.Errorf("found: %s", findings)
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			untouched, _, _ := lostOffsets(t, dir, 0)
			if len(untouched) == 0 {
				t.Fatal("no other partition has offsets")
			}
			for _, offset := range untouched {
				if !slices.Contains(got, offset) {
					t.Errorf("lost beside the damage: %s", offset)
				}
			}
			if len(got) > len(want) {
				t.Errorf("more offsets than there were: %v", got)
			}
		})
	}
}
