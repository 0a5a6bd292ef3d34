package config

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
)

// loadText loads a file that holds text, and gives its path.
func loadText(t testing.TB, text string) (*Config, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: path})
	return c, path, err
}

// environ is an environment of these variables.
func environ(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// TestPrecedence: a flag wins over the environment, that over the file, that over the default; and each says where it is from.
func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("plugin: file\nplacement: wasm\n\nlog-level: info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: path,
		Env:   environ(map[string]string{"RSMHOST_PLUGIN": "env", "RSMHOST_PLACEMENT": "process", "RSMHOST_FETCH_MAX_BYTES": "7000"}),
		Flags: map[string]Value{"plugin": {Text: "flag"}}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]Value{
		"plugin":          {Text: "flag", Origin: FromFlag},
		"placement":       {Text: "process", Origin: FromEnv, Where: "RSMHOST_PLACEMENT"},
		"log-level":       {Text: "info", Origin: FromFile, Where: path + ":4"},
		"log-format":      {Text: "text", Origin: FromDefault},
		"fetch.max.bytes": {Text: "7000", Origin: FromEnv, Where: "RSMHOST_FETCH_MAX_BYTES"},
	} {
		got := c.Value(key)
		if got.Text != want.Text || got.Origin != want.Origin || got.Where != want.Where {
			t.Errorf("%s: got %+v, want %+v", key, got, want)
		}
	}
	if c.MaxBytes() != 7000 {
		t.Errorf("MaxBytes = %d", c.MaxBytes())
	}
}

func TestFile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		key  string
		want string // as config show prints it
	}{
		"empty":                {"", "plugin", ""},
		"a comment alone":      {"# nothing yet\n", "plugin", ""},
		"text":                 {"plugin: localfs", "plugin", "localfs"},
		"text in quotes":       {`plugin: "a\tb"`, "plugin", "a\tb"},
		"a block of text":      {"plugin: >-\n  a\n  b\n", "plugin", "a b"},
		"a number as text":     {"plugin: 0755", "plugin", "0755"},
		"a list":               {"log-dir: [a, 'b c', 7]", "log-dir", "a, b c, 7"},
		"a list by lines":      {"log-dir:\n- a\n- b\n", "log-dir", "a, b"},
		"an empty list":        {"log-dir: []", "log-dir", ""},
		"one element":          {"log-dir: a", "log-dir", "a"},
		"a map":                {"plugin-config: {root: /x, deep: true}", "plugin-config", "deep=true, root=/x"},
		"a map by lines":       {"plugin-config:\n  root: /x\n", "plugin-config", "root=/x"},
		"a key with its dots":  {"grants.env: [A]", "grants.env", "A"},
		"the same, nested":     {"grants: {env: [A]}", "grants.env", "A"},
		"deeper":               {"remote: {log: {reader: {threads: 3}}}", "remote.log.reader.threads", "3"},
		"half nested":          {"remote.log.reader: {threads: 3}", "remote.log.reader.threads", "3"},
		"true or false":        {"kafka-exact: true", "kafka-exact", "true"},
		"a number below zero":  {"remote.log.index.file.cache.ttl.ms: -1", "remote.log.index.file.cache.ttl.ms", "-1"},
		"a document's own end": {"---\nplugin: a\n...\n", "plugin", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := loadText(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Value(tt.key).String(); got != tt.want {
				t.Errorf("%s = %q, want %q", tt.key, got, tt.want)
			}
		})
	}
}

// TestFileRefused: what a file may not hold is INVALID, with the key and the line.
func TestFileRefused(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"an unknown key":            {"\nplugn: x", `configure plugn: INVALID: FILE:2: no such key, did you mean "plugin"?`},
		"one that nothing is near":  {"quarrelsome: x", `configure quarrelsome: INVALID: FILE:1: no such key`},
		"in a section":              {"grants:\n  evn: x", `configure grants.evn: INVALID: FILE:2: no such key, did you mean "grants.env"?`},
		"a section without keys":    {"remote: 7", `configure FILE:1: INVALID: want keys with a value each`},
		"not keys":                  {"hello", `configure FILE:1: INVALID: want keys with a value each`},
		"a list":                    {"- a", `configure FILE:1: INVALID: want keys with a value each`},
		"no value":                  {"plugin:", `configure plugin: INVALID: FILE:1: has no value`},
		"no value of a map":         {"plugin-config: {root: }", `configure plugin-config: INVALID: FILE:1: root: has no value`},
		"a map for text":            {"plugin: {a: b}", `configure plugin: INVALID: FILE:1: want a single value`},
		"a list for text":           {"plugin: [a]", `configure plugin: INVALID: FILE:1: want a single value`},
		"a map for a list":          {"log-dir: {a: b}", `configure log-dir: INVALID: FILE:1: want a list: want a single value`},
		"a list in a list":          {"log-dir: [[a]]", `configure log-dir: INVALID: FILE:1: an element of the list: want a single value`},
		"a list for a map":          {"plugin-config: [a]", `configure plugin-config: INVALID: FILE:1: want names with a value each, as in {root: DIR}`},
		"a map in a map":            {"plugin-config: {a: {b: c}}", `configure plugin-config: INVALID: FILE:1: a: want a single value`},
		"an anchor":                 {"plugin: &a x", `configure plugin: INVALID: FILE:1: anchors, aliases and tags are not taken`},
		"an alias":                  {"plugin-config: {a: *x}", `configure plugin-config: INVALID: FILE:1: a: anchors, aliases and tags are not taken`},
		"a tag":                     {"plugin: !!binary aGVsbG8=", `configure plugin: INVALID: FILE:1: anchors, aliases and tags are not taken`},
		"not a number":              {"memory.max: 1.5", `configure memory.max (FILE:1): INVALID: "1.5" is not a whole number below 2^62`},
		"a number below zero":       {"memory.max: -1", `configure memory.max (FILE:1): INVALID: "-1" is not a whole number below 2^62`},
		"beyond every number":       {"memory.max: 99999999999999999999", `configure memory.max (FILE:1): INVALID: "99999999999999999999" is not a whole number below 2^62`},
		"too small":                 {"max.connections: 0", `configure max.connections (FILE:1): INVALID: 0 is too small: want 1 at least`},
		"below -1":                  {"remote.log.index.file.cache.ttl.ms: -2", `configure remote.log.index.file.cache.ttl.ms (FILE:1): INVALID: "-2" is not a whole number or -1`},
		"not true or false":         {"kafka-exact: perhaps", `configure kafka-exact (FILE:1): INVALID: "perhaps" is not true or false`},
		"not one of the words":      {"log-format: xml", `configure log-format (FILE:1): INVALID: "xml": want text, json`},
		"twice, with dots and deep": {"grants: {env: [A]}\ngrants.env: [B]", `configure grants.env: INVALID: FILE:2: given twice, first in FILE:1`},
		"two documents":             {"plugin: a\n---\nplugin: b\n", `read configuration FILE: INVALID: holds 2 documents, one is wanted`},
	} {
		t.Run(name, func(t *testing.T) {
			_, path, err := loadText(t, tt.text)
			if err == nil || !errors.Is(err, abi.Invalid) {
				t.Fatalf("got %v, want INVALID", err)
			}
			if got := strings.ReplaceAll(err.Error(), path, "FILE"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	for name, text := range map[string]string{"twice": "plugin: a\nplugin: b\n", "tabs": "plugin:\tx\n\tmetadata: y\n", "brackets": "[a", "bytes": "plugin: \"\\xff"} {
		if _, path, err := loadText(t, text); !errors.Is(err, abi.Invalid) || !strings.HasPrefix(err.Error(), "read configuration "+path+": INVALID: [") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFileLimits(t *testing.T) {
	if _, _, err := loadText(t, "# "+strings.Repeat("x", maxFile-3)+"\n"); err != nil {
		t.Errorf("the largest file: %v", err)
	}
	if _, _, err := loadText(t, "# "+strings.Repeat("x", maxFile)); !errors.Is(err, abi.Exhausted) {
		t.Errorf("a larger file: %v", err)
	}
	if _, err := Load(Sources{File: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, abi.NotFound) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(Sources{File: t.TempDir()}); !errors.Is(err, abi.Invalid) {
		t.Errorf("a directory: %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(Sources{File: pipe}); !errors.Is(err, abi.Invalid) {
		t.Errorf("a pipe: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct{ variable, text, key, want string }{
		{"RSMHOST_LOG_DIR", "a,b", "log-dir", "a, b"},
		{"RSMHOST_LOG_DIR", "", "log-dir", ""},
		{"RSMHOST_PLUGIN_CONFIG", "root=/x,mode=a=b", "plugin-config", "mode=a=b, root=/x"},
		{"RSMHOST_PLUGIN_CONFIG", "", "plugin-config", ""},
		{"RSMHOST_GRANTS_ENV", "A", "grants.env", "A"},
		{"RSMHOST_REMOTE_LOG_READER_THREADS", "3", "remote.log.reader.threads", "3"},
	} {
		c, err := Load(Sources{Env: environ(map[string]string{tt.variable: tt.text})})
		if err != nil {
			t.Errorf("%s=%s: %v", tt.variable, tt.text, err)
		} else if got := c.Value(tt.key).String(); got != tt.want {
			t.Errorf("%s=%s: got %q, want %q", tt.variable, tt.text, got, tt.want)
		}
	}
	for variable, text := range map[string]string{"RSMHOST_PLUGIN_CONFIG": "root", "RSMHOST_MEMORY_MAX": "", "RSMHOST_LOG_LEVEL": "loud"} {
		_, err := Load(Sources{Env: environ(map[string]string{variable: text})})
		if !errors.Is(err, abi.Invalid) || !strings.Contains(err.Error(), "("+variable+")") {
			t.Errorf("%s=%s: %v, want INVALID that names the variable", variable, text, err)
		}
	}
}

// TestEnvNames: no two keys share a variable.
func TestEnvNames(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys {
		if other, ok := seen[k.Env()]; ok {
			t.Errorf("%s and %s are both %s", k.Name, other, k.Env())
		}
		seen[k.Env()] = k.Name
	}
}

// TestHost: the largest numbers stay durations, and 0 stays "at once" where the field's 0 means the default.
func TestHost(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/caches")
	t.Setenv("XDG_STATE_HOME", "not absolute")
	t.Setenv("HOME", "/me")
	c, _, err := loadText(t, "remote.fetch.max.wait.ms: 4611686018427387903\nremote.log.index.file.cache.ttl.ms: 0\nmemory.max: 1000\n")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := c.Host()
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Duration(math.MaxInt64).Truncate(time.Millisecond); cfg.RemoteWait != want || cfg.IndexCacheTTL != 1 || cfg.MemoryBytes != 1000 {
		t.Errorf("RemoteWait %v, IndexCacheTTL %v, MemoryBytes %d", cfg.RemoteWait, cfg.IndexCacheTTL, cfg.MemoryBytes)
	}
	if cfg.CacheDir != "/caches/rsmhost" || cfg.StateDir != "/me/.local/state/rsmhost" {
		t.Errorf("CacheDir %s, StateDir %s", cfg.CacheDir, cfg.StateDir)
	}
	if lines := c.Lines(); len(lines) != len(Keys) {
		t.Errorf("%d lines of %d keys", len(lines), len(Keys))
	}
}

// TestAccess: mechanisms are a list, or as Kafka writes them.
func TestAccess(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"sasl: {enabled.mechanisms: [PLAIN, SCRAM-SHA-256]}": {"PLAIN", "SCRAM-SHA-256"},
		"sasl.enabled.mechanisms: PLAIN,SCRAM-SHA-512":       {"PLAIN", "SCRAM-SHA-512"},
	} {
		c, _, err := loadText(t, text+"\ntls-cert: c\ntls-key: k\ntls-client-ca: a\nssl.client.auth: requested\nsasl-users: u\nacl: r\n")
		if err != nil {
			t.Fatal(err)
		}
		o := c.Access()
		if !slices.Equal(o.Mechanisms, want) {
			t.Errorf("%q: %q", text, o.Mechanisms)
		}
		if o.CertFile != "c" || o.KeyFile != "k" || o.ClientCAFile != "a" || o.ClientAuth != access.Requested || o.UsersFile != "u" || o.RulesFile != "r" {
			t.Errorf("%+v", o)
		}
	}
}

// FuzzFile: whatever a file holds, it is taken, or refused with an error of the contract; what is taken passes the checks.
func FuzzFile(f *testing.F) {
	example, err := os.ReadFile("../../examples/rsmhost.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(example), "", "plugin: &a x\nmetadata: *a", "log-dir:\n- a\n- |\n  b", "remote: {log: {reader: {threads: 3}}}", "? a\n: b", "<<: {plugin: a}", "---\n---\n", "[{a: [{a: "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 { // the parser is slow where much is nested
			t.Skip()
		}
		c, _, err := loadText(t, text)
		if err != nil {
			if own := (*abi.Error)(nil); !errors.As(err, &own) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, k := range Keys {
			if err := k.check(c.Value(k.Name)); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	})
}
