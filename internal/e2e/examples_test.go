package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestExampleConsume: the client for people to copy reads a part in a group, and goes on there behind another server; alone it
// reads all. What it prints is what was recorded, each record once.
func TestExampleConsume(t *testing.T) {
	bin, err := gobuild.Command(t.TempDir(), "examples/consume")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []string {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.Command(bin, args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, stderr.Bytes())
		}
		got := []string{}
		for text := range strings.Lines(string(out)) {
			f := strings.SplitN(strings.TrimSuffix(text, "\n"), "\t", 4)
			if len(f) != 4 {
				t.Fatalf("%q", text)
			}
			got = append(got, fmt.Sprint(f[0], f[1], payload(t, f[2]), payload(t, f[3])))
		}
		return got
	}
	state := t.TempDir()
	for isolation, flags := range map[string][]string{"read_committed": {"-read-committed"}, "read_uncommitted": nil} {
		want := []string{}
		for _, l := range recorded(t, "txn", isolation) {
			want = append(want, fmt.Sprint(l["partition"], l["offset"], l["key"], l["value"]))
		}
		slices.Sort(want)
		s := startServe(t, "txn", "--state-dir", state)
		whole := run(append(flags, "-n", strconv.Itoa(len(want)), s.address, "payments")...)
		inGroup := append(flags, "-group", isolation, "-idle", "30s", "-n")
		first := run(append(inGroup, "500", s.address, "payments")...)
		s.stop(t)
		s = startServe(t, "txn", "--state-dir", state)
		rest := run(append(inGroup, strconv.Itoa(len(want)-500), s.address, "payments")...)
		s.stop(t)
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(whole))); diff != "" {
			t.Errorf("%s, alone: %.2000s", isolation, diff)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(append(first, rest...)))); len(first) != 500 || diff != "" {
			t.Errorf("%s, in a group, %d first: %.2000s", isolation, len(first), diff)
		}
	}
	if out, err := exec.Command(bin, "-idle", "1ms", "127.0.0.1:1").CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "usage: consume") {
		t.Errorf("without a topic: %v: %s", err, out)
	}
}

// payload is a key or a value in the form of a recorded one.
func payload(t *testing.T, s string) any {
	t.Helper()
	return digest(t, map[string]any{"b64": base64.StdEncoding.EncodeToString([]byte(s))})
}
