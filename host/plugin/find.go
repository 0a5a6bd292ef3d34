package plugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
)

// Placement says how a plugin runs.
type Placement string

// The placements. Any takes what is found first: a module before an executable.
const (
	Any          Placement = ""
	Wasm         Placement = "wasm"
	Process      Placement = "process"
	WasmIsolated Placement = "wasm-isolated"
)

// prefix is what the files of plugins are called: rsm-NAME and rsm-NAME.wasm.
const prefix = "rsm-"

// ParsePlacement reads a placement as the command line has it. An error is INVALID.
func ParsePlacement(s string) (Placement, error) {
	switch p := Placement(s); p {
	case Any, Wasm, Process, WasmIsolated:
		return p, nil
	}
	return Any, abi.Errorf("placement", s, abi.Invalid, "want wasm, process or wasm-isolated")
}

// Found is a plugin's file.
type Found struct {
	Name      string // "localfs"
	Path      string
	Placement Placement // Wasm or Process
}

// DefaultDirs are the plugin directories where none is given: the executable's own, then the user's data directory.
func DefaultDirs() []string {
	var dirs []string
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	data := os.Getenv("XDG_DATA_HOME")
	if home, err := os.UserHomeDir(); data == "" && err == nil {
		data = filepath.Join(home, ".local", "share")
	}
	if data != "" {
		dirs = append(dirs, filepath.Join(data, "rsmhost", "plugins"))
	}
	return dirs
}

// Find finds the file that ref means: one with a slash is a path, any other a name in dirs, which may pin the form as in
// "localfs.wasm". want restricts the placement.
func Find(ref string, dirs []string, want Placement) (Found, error) {
	if want == WasmIsolated {
		return Found{}, abi.Errorf("find plugin", ref, abi.Unsupported, "this host has no runner for the placement %s; wasm and process work", want)
	}
	if strings.ContainsRune(ref, filepath.Separator) {
		return findPath(ref, want)
	}
	var tried []string
	for _, dir := range dirs {
		for _, file := range fileNames(ref, want) {
			path := filepath.Join(dir, file)
			tried = append(tried, path)
			if f, err := findPath(path, want); err == nil {
				return f, nil
			}
		}
	}
	return Found{}, abi.Errorf("find plugin", ref, abi.NotFound,
		"no such plugin; looked for %s (a path needs a slash, as in ./%s; another directory: --plugin-dir)", strings.Join(tried, ", "), ref)
}

// fileNames are the files that a name may mean, in order of preference.
func fileNames(name string, want Placement) []string {
	base := prefix + strings.TrimPrefix(name, prefix)
	if strings.HasSuffix(name, ".wasm") {
		return []string{base}
	}
	switch want {
	case Wasm:
		return []string{base + ".wasm"}
	case Process:
		return []string{base}
	}
	return []string{base + ".wasm", base}
}

func findPath(path string, want Placement) (Found, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Found{}, abi.E("find plugin", path, abi.FileKind(err), err)
	}
	if !st.Mode().IsRegular() {
		return Found{}, abi.Errorf("find plugin", path, abi.Invalid, "not a file")
	}
	f := Found{Name: nameOf(path), Path: path, Placement: placementOf(path)}
	if want != Any && want != f.Placement {
		return Found{}, abi.Errorf("find plugin", path, abi.Invalid, "the file is for the placement %s, and %s is asked for", f.Placement, want)
	}
	return f, nil
}

func nameOf(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), prefix), ".wasm")
}

func placementOf(path string) Placement {
	if strings.HasSuffix(path, ".wasm") {
		return Wasm
	}
	return Process
}

// List lists the plugins in dirs, by name. A directory that does not exist holds none.
func List(dirs []string) ([]Found, error) {
	var out []Found
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, abi.E("list plugins", dir, abi.FileKind(err), err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			st, err := os.Stat(path)
			if err != nil || !st.Mode().IsRegular() || !strings.HasPrefix(e.Name(), prefix) {
				continue
			}
			if f := (Found{Name: nameOf(path), Path: path, Placement: placementOf(path)}); f.Placement == Wasm || st.Mode()&0o111 != 0 {
				out = append(out, f)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// File is the file's name without its directory, as the trace calls the plugin.
func (f Found) File() string { return filepath.Base(f.Path) }

func (f Found) String() string { return fmt.Sprintf("%s (%s)", f.Path, f.Placement) }
