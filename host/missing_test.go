package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestPartitionWithoutItsDirectoryIsAFinding: the checkpoint knows it, and it lies in no log directory.
func TestPartitionWithoutItsDirectoryIsAFinding(t *testing.T) {
	a, b := tp("orders", 1), tp("orders", 1)
	b.Partition = 1
	for name, tt := range map[string]struct {
		checkpoint string
		change     func(dir, other string) error
		want       string
	}{
		"it is there":         {"orders 0 20\norders 1 10", nil, ""},
		"removed":             {"orders 0 20\norders 1 10", func(dir, _ string) error { return os.RemoveAll(filepath.Join(dir, "orders-1")) }, "orders-1, "},
		"a file in its place": {"orders 0 20\norders 1 10", func(dir, _ string) error { return replaceByFile(filepath.Join(dir, "orders-1")) }, "orders-1, "},
		"it had no record":    {"orders 0 20\norders 1 0", func(dir, _ string) error { return os.RemoveAll(filepath.Join(dir, "orders-1")) }, "orders-1, "},
		"it lies elsewhere": {"orders 0 20\norders 1 10", func(dir, other string) error {
			return os.Rename(filepath.Join(dir, "orders-1"), filepath.Join(other, "orders-1"))
		}, ""},
		"it is being deleted": {"orders 0 20\norders 1 10", func(dir, _ string) error {
			return os.Rename(filepath.Join(dir, "orders-1"), filepath.Join(dir, "orders-1.0123-delete"))
		}, ""},
		"one of the broker's own": {"orders 0 20\norders 1 10\n__consumer_offsets 7 5", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			kafkabytes.WriteLog(t, dir, a, tens(t, a, 11, 0, 2, 0))
			kafkabytes.WriteLog(t, dir, b, tens(t, b, 12, 0, 1, 0))
			text := fmt.Sprintf("0\n%d\n%s\n", strings.Count(tt.checkpoint, "\n")+1, tt.checkpoint)
			if err := os.WriteFile(filepath.Join(dir, "replication-offset-checkpoint"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				if err := tt.change(dir, other); err != nil {
					t.Fatal(err)
				}
			}
			var got string
			for _, f := range open(t, Config{LogDirs: []string{dir, other}}).Findings() {
				got += f.String()
			}
			if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) || got != "" && !strings.Contains(got, "up to offset 9") && !strings.Contains(got, "without a record") {
				t.Errorf("findings %q, want %q", got, tt.want)
			}
		})
	}
}

func replaceByFile(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// TestATieredHoleIsRepaired: what is missing of a local log is read from the remote tier where that has all of it, and the finding
// says so; where it has a part, the finding stays what it was.
func TestATieredHoleIsRepaired(t *testing.T) {
	p := tp("orders", 1)
	a, b, c, d := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 20, 2, 0), tens(t, p, 13, 40, 2, 0), tens(t, p, 14, 60, 1, 0)
	gone, gone2 := *b, *c
	gone.Log, gone2.Log = nil, nil
	for name, tt := range map[string]struct {
		local, remote []*segment
		repaired      map[int64]bool // by the hole's first offset
		reads         map[int64]string
	}{
		"all of it": {[]*segment{a, &gone, c, d}, []*segment{a, b}, map[int64]bool{20: true},
			map[int64]string{0: "NONE [0 10]", 20: "NONE [20 30 40 50 60]"}},
		"one of two": {[]*segment{a, &gone, &gone2, d}, []*segment{a, b}, map[int64]bool{20: true, 40: false},
			map[int64]string{20: "NONE [20 30]", 40: "NOT_LEADER_OR_FOLLOWER []"}},
		"both": {[]*segment{a, &gone, &gone2, d}, []*segment{a, b, c}, map[int64]bool{20: true, 40: true},
			map[int64]string{20: "NONE [20 30]", 40: "NONE [40 50 60]"}},
		"a part of it": {[]*segment{a, &gone, c, d}, []*segment{a, tens(t, p, 15, 20, 1, 0)}, map[int64]bool{20: false},
			map[int64]string{20: "NONE [20]", 30: "NOT_LEADER_OR_FOLLOWER []"}},
		"nothing": {[]*segment{a, &gone, c, d}, []*segment{a}, map[int64]bool{20: false},
			map[int64]string{20: "NOT_LEADER_OR_FOLLOWER []"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, meta := t.TempDir(), t.TempDir()
			kafkabytes.WriteLog(t, dir, p, tt.local...)
			kafkabytes.WriteMetadata(t, meta, finished(tt.remote...)...)
			h := open(t, Config{RSM: memrsm.New(memrsm.Inline, tt.remote...), Metadata: "dir:" + meta, LogDirs: []string{dir}})
			for offset, is := range tt.reads {
				want(t, fmt.Sprint("from ", offset), read(t, h, from("orders", offset)), is)
			}
			told := map[int64]bool{}
			for _, f := range h.Findings() {
				if f.Path != "" && f.Offset >= 0 {
					told[f.Offset] = f.Repaired
				}
			}
			want(t, "repaired", fmt.Sprint(told), fmt.Sprint(tt.repaired))
		})
	}
}
