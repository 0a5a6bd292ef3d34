//go:build integration

package e2e

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestClients reads every recorded broker's data with eight real clients and compares each record, seek, lookup by time and
// group with what a Java consumer had from the broker itself.
func TestClients(t *testing.T) {
	run := filepath.Join(sharedDir(t, "clients"), "run")
	golden, err := filepath.Glob(filepath.Join(sharedDir(t, "fixtures"), "kafka", "*", "golden"))
	if err != nil || len(golden) == 0 {
		t.Fatalf("no recorded brokers: %v", err)
	}
	for _, dir := range golden {
		fixture := filepath.Dir(dir)
		t.Run(filepath.Base(fixture), func(t *testing.T) {
			s := startServe(t, "", dirFlags(t, fixture)...)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, run, "--bootstrap", s.address, "--golden", dir, "--groups", "--jobs", "2")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", lastLine(out))
			s.stop(t)
		})
	}
}

func lastLine(b []byte) []byte {
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return all[len(all)-1]
}
