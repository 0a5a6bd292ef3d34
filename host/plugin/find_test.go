package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// pluginDirs are two directories of plugins: "both" in either form, "mod" as a module and "proc" as an executable in the
// first, "both" and "far" as executables in the second.
func pluginDirs(t *testing.T) (one, two string) {
	t.Helper()
	one, two = t.TempDir(), t.TempDir()
	for _, path := range []string{one + "/rsm-both", one + "/rsm-both.wasm", one + "/rsm-mod.wasm", one + "/rsm-proc", one + "/other", two + "/rsm-both", two + "/rsm-far"} {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(one+"/rsm-notes", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(one+"/rsm-dir", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(one+"/rsm-pipe", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("rsm-loop", one+"/rsm-loop"); err != nil {
		t.Fatal(err)
	}
	return one, two
}

func TestFind(t *testing.T) {
	one, two := pluginDirs(t)
	for _, tt := range []struct {
		ref  string
		want Placement
		path string
		got  Placement
	}{
		{"both", Any, one + "/rsm-both.wasm", Wasm},
		{"both", Process, one + "/rsm-both", Process},
		{"both.wasm", Any, one + "/rsm-both.wasm", Wasm},
		{"rsm-both", Any, one + "/rsm-both.wasm", Wasm},
		{"proc", Any, one + "/rsm-proc", Process},
		{"far", Any, two + "/rsm-far", Process},
		{"far", Process, two + "/rsm-far", Process},
		{two + "/rsm-both", Any, two + "/rsm-both", Process},
		{one + "/other", Process, one + "/other", Process},
	} {
		f, err := Find(tt.ref, []string{one, two}, tt.want)
		if err != nil || f.Path != tt.path || f.Placement != tt.got {
			t.Errorf("Find(%q, %q) = %v, %v; want %s (%s)", tt.ref, tt.want, f, err, tt.path, tt.got)
		}
	}
	for _, tt := range []struct {
		ref  string
		want Placement
		kind abi.Kind
		text string
	}{
		{"none", Any, abi.NotFound, "no such plugin; looked for " + one + "/rsm-none.wasm, " + one + "/rsm-none, " + two + "/rsm-none.wasm, " + two + "/rsm-none"},
		{"mod", Process, abi.NotFound, "looked for " + one + "/rsm-mod, "},
		{"proc", Wasm, abi.NotFound, "looked for " + one + "/rsm-proc.wasm, "},
		{"both.wasm", Process, abi.NotFound, "no such plugin"},
		{"", Any, abi.NotFound, "no such plugin"},
		{"dir", Any, abi.NotFound, "no such plugin"},
		{"pipe", Any, abi.NotFound, "no such plugin"},
		{one + "/rsm-dir", Any, abi.Invalid, "not a file"},
		{one + "/rsm-pipe", Any, abi.Invalid, "not a file"},
		{one + "/rsm-loop", Any, abi.Denied, "symbolic links"},
		{one + "/none", Any, abi.NotFound, "no such file"},
		{one + "/rsm-mod.wasm", Process, abi.Invalid, "the file is for the placement wasm, and process is asked for"},
		{"both", WasmIsolated, abi.Unsupported, "no runner for the placement wasm-isolated"},
	} {
		f, err := Find(tt.ref, []string{one, two}, tt.want)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Find(%q, %q) = %v, %v; want %s: %s", tt.ref, tt.want, f, err, tt.kind, tt.text)
		}
	}
}

func TestParsePlacement(t *testing.T) {
	for _, text := range []string{"", "wasm", "process", "wasm-isolated"} {
		if p, err := ParsePlacement(text); err != nil || string(p) != text {
			t.Errorf("%q: %q, %v", text, p, err)
		}
	}
	if _, err := ParsePlacement("thread"); !errors.Is(err, abi.Invalid) {
		t.Errorf("thread: %v", err)
	}
}

// TestList: what has a plugin's name and can be one, by name; a directory that does not exist holds none.
func TestList(t *testing.T) {
	one, two := pluginDirs(t)
	found, err := List([]string{one, filepath.Join(one, "none"), two})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.Name+" "+f.String())
	}
	want := []string{"both " + one + "/rsm-both (process)", "both " + one + "/rsm-both.wasm (wasm)", "both " + two + "/rsm-both (process)",
		"far " + two + "/rsm-far (process)", "mod " + one + "/rsm-mod.wasm (wasm)", "proc " + one + "/rsm-proc (process)"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := List([]string{one + "/other"}); err == nil {
		t.Error("a file was listed")
	}
}
