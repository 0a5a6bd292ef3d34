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
		fixture := filepath.Base(filepath.Dir(dir))
		t.Run(fixture, func(t *testing.T) { readsAll(t, run, dir) })
		if fixture == "txn" {
			t.Run(fixture+" as Kafka answers", func(t *testing.T) { readsAll(t, run, dir, "--kafka-exact") })
		}
	}
}

// readsAll runs the clients on a served fixture.
func readsAll(t *testing.T, run, golden string, flags ...string) {
	s := startServe(t, "", append(dirFlags(t, filepath.Dir(golden)), flags...)...)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, run, "--bootstrap", s.address, "--golden", golden, "--groups", "--jobs", "2").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", lastLine(out))
	s.stop(t)
}

func lastLine(b []byte) []byte {
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return all[len(all)-1]
}
