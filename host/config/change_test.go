package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestChanges: what a reload changes, what needs a restart, and what is in force afterwards.
func TestChanges(t *testing.T) {
	for name, tt := range map[string]struct {
		old, next     string
		flags         map[string]Value
		live, restart []string
	}{
		"the same":              {"plugin: a\nslow.read.ms: 5\n", "slow.read.ms: 5\nplugin: a\n", nil, nil, nil},
		"written otherwise":     {"slow.read.ms: 2000\n", "", nil, nil, nil},
		"live":                  {"", "slow.read.ms: 7\nlog-level: info\n", nil, []string{"log-level: warn -> info (FILE:2)", "slow.read.ms: 2000 -> 7 (FILE:1)"}, nil},
		"back to the default":   {"remote.log.reader.threads: 3\n", "", nil, []string{"remote.log.reader.threads: 3 -> 10 (default)"}, nil},
		"needs a restart":       {"log-dir: [a]\nmemory.max: 1\n", "log-dir: [a, b]\nmemory.max: 2\n", nil, nil, []string{"log-dir: a -> a, b (FILE:1)", "memory.max: 1 -> 2 (FILE:2)"}},
		"both":                  {"", "plugin: a\nfetch.max.bytes: 1024\n", nil, []string{"fetch.max.bytes: 57671680 -> 1024 (FILE:2)"}, []string{"plugin:  -> a (FILE:1)"}},
		"a flag wins":           {"slow.read.ms: 5\n", "slow.read.ms: 7\n", map[string]Value{"slow.read.ms": {Text: "1"}}, nil, nil},
		"a setting of a plugin": {"plugin-config: {root: a}\n", "plugin-config: {root: b}\n", nil, nil, []string{"plugin-config: root=a -> root=b (FILE:1)"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			load := func(text string) *Config {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				c, err := Load(Sources{File: path, Flags: tt.flags})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			old, next := load(tt.old), load(tt.next)
			live, restart := Changes(old, next)
			if got := said(live, path); !slices.Equal(got, tt.live) {
				t.Errorf("live %q, want %q", got, tt.live)
			}
			if got := said(restart, path); !slices.Equal(got, tt.restart) {
				t.Errorf("restart %q, want %q", got, tt.restart)
			}
			inForce := Reloaded(old, next)
			if again, waiting := Changes(inForce, next); len(again) > 0 || !slices.Equal(said(waiting, path), tt.restart) {
				t.Errorf("after it %q and %q would change", said(again, path), said(waiting, path))
			}
			for _, c := range restart {
				if inForce.Value(c.Key.Name).String() != c.Old {
					t.Errorf("%s is %q", c.Key.Name, inForce.Value(c.Key.Name))
				}
			}
		})
	}
}

func said(changes []Change, path string) (out []string) {
	for _, c := range changes {
		where := c.Where
		if len(where) > len(path) && where[:len(path)] == path {
			where = "FILE" + where[len(path):]
		}
		out = append(out, fmt.Sprintf("%s: %s -> %s (%s)", c.Key.Name, c.Old, c.New, where))
	}
	return out
}
