package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/internal/gobuild"
)

// TestExampleFetch builds the program for people to copy, and runs it through both forms of the plugin.
func TestExampleFetch(t *testing.T) {
	bin, err := gobuild.Command(t.TempDir(), "examples/fetch")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(fixtures, "basic")
	for _, plugin := range []string{artifacts(t).process, artifacts(t).wasm} {
		out, err := exec.Command(bin, plugin, filepath.Join(dir, "remote"), "dir:"+filepath.Join(dir, "rlmm"), "telemetry", "100").CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", plugin, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != 42 || !strings.HasPrefix(lines[0], "100 dev-") || lines[41] != "next: 141" {
			t.Errorf("%s: %d lines, from %q to %q", plugin, len(lines), lines[0], lines[len(lines)-1])
		}
	}
}
