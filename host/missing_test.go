package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/internal/kafkabytes"
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
