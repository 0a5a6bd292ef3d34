package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// compiled loads a module with a cache, proves that it runs, and gives the entries of the cache by their path with the
// time at which each was written.
func compiled(t *testing.T, path, dir string) map[string]time.Time {
	t.Helper()
	p, err := Load(t.Context(), Options{Path: path, CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	if err := errors.Join(p.Configure(t.Context(), nil, nil, nil), p.Probe(t.Context())); err != nil {
		t.Fatal(err)
	}
	return cacheFiles(t, dir)
}

func cacheFiles(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	files := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == dir || filepath.Dir(path) == dir {
			return err
		}
		st, err := d.Info()
		files[path] = st.ModTime()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func same(a, b map[string]time.Time) bool {
	for path, at := range a {
		if !b[path].Equal(at) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestCompiledModuleIsReadBack(t *testing.T) {
	path, dir := store(t, plugin(nil, nil).bytes()), t.TempDir()
	first := compiled(t, path, dir)
	if len(first) != 2 {
		t.Fatalf("%v: want one file of wazero's and the sums", first)
	}
	if second := compiled(t, path, dir); !same(first, second) {
		t.Errorf("compiled again: %v, then %v", first, second)
	}
	for file := range first {
		if !strings.HasPrefix(file, filepath.Join(dir, "wazero-")) {
			t.Errorf("%s does not name wazero's version", file)
		}
	}
	other := plugin([]byte("another module"), nil)
	if both := compiled(t, store(t, other.bytes()), dir); len(both) != 4 {
		t.Errorf("%v: want two entries", both)
	}
}

// TestDamagedEntryIsAMiss damages an entry in every way that a disk, a crash or a person does. The module must load and
// run each time, and the entry be good again.
func TestDamagedEntryIsAMiss(t *testing.T) {
	path, dir := store(t, plugin(nil, nil).bytes()), t.TempDir()
	damage := map[string]func(code, sums string) error{
		"code truncated": func(code, _ string) error { return os.Truncate(code, 10) },
		"code emptied":   func(code, _ string) error { return os.Truncate(code, 0) },
		"code longer": func(code, _ string) error {
			return edit(code, func(b []byte) []byte { return append(b, 0) })
		},
		"code gone":      func(code, _ string) error { return os.Remove(code) },
		"sums gone":      func(_, sums string) error { return os.Remove(sums) },
		"sums emptied":   func(_, sums string) error { return os.Truncate(sums, 0) },
		"a file more":    func(_, sums string) error { return os.WriteFile(sums+"2", nil, 0o600) },
		"code by a link": func(code, _ string) error { return errors.Join(os.Rename(code, dir+"/x"), os.Symlink(dir+"/x", code)) },
		"code a directory": func(code, _ string) error {
			return errors.Join(os.Remove(code), os.Mkdir(code, 0o700))
		},
		"code a pipe":         func(code, _ string) error { return errors.Join(os.Remove(code), syscall.Mkfifo(code, 0o600)) },
		"code without an end": func(code, _ string) error { return os.Truncate(code, 1<<40) },
		"sums a pipe":         func(_, sums string) error { return errors.Join(os.Remove(sums), syscall.Mkfifo(sums, 0o600)) },
		"sums a device":       func(_, sums string) error { return errors.Join(os.Remove(sums), os.Symlink("/dev/zero", sums)) },
		"sums without an end": func(_, sums string) error { return os.Truncate(sums, 1<<40) },
		"entry a pipe": func(code, sums string) error {
			entry := filepath.Dir(sums)
			return errors.Join(os.RemoveAll(entry), syscall.Mkfifo(entry, 0o600))
		},
		"entry a file": func(code, sums string) error {
			entry := filepath.Dir(sums)
			return errors.Join(os.RemoveAll(entry), os.WriteFile(entry, nil, 0o600))
		},
	}
	size := len(read(t, codeOf(t, compiled(t, path, dir))))
	for at := 0; at < size; at += size/40 + 1 { // the header, the table of offsets, the code, the sums at its end
		damage[fmt.Sprintf("a bit in byte %d", at)] = func(code, _ string) error {
			return edit(code, func(b []byte) []byte { b[at] ^= 0x10; return b })
		}
	}
	for name, do := range damage {
		before := compiled(t, path, dir)
		code := codeOf(t, before)
		good := read(t, code)
		if err := do(code, filepath.Join(entryOf(dir, code), sumsFile)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := compiled(t, path, dir)
		delete(after, dir+"/x")
		os.Remove(dir + "/x")
		if got := read(t, code); len(after) != 2 || len(got) != len(good) {
			t.Errorf("%s: the entry is not good again: %v", name, after)
		}
		if again := compiled(t, path, dir); !same(after, again) {
			t.Errorf("%s: the entry is not used again", name)
		}
	}
}

// codeOf is wazero's file among those of the cache.
func codeOf(t *testing.T, files map[string]time.Time) string {
	t.Helper()
	for path := range files {
		if filepath.Base(path) != sumsFile {
			return path
		}
	}
	t.Fatalf("no code in %v", files)
	return ""
}

// entryOf is the directory of our own that path lies in: <dir>/wazero-.../<entry>.
func entryOf(dir, path string) string {
	rel, _ := filepath.Rel(dir, path)
	parts := strings.SplitN(filepath.ToSlash(rel), "/", 3)
	return filepath.Join(dir, parts[0], parts[1])
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func edit(path string, change func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, change(b), 0o600)
}

func TestEntryThatWazeroRefusesIsAMiss(t *testing.T) {
	path, dir := store(t, plugin(nil, nil).bytes()), t.TempDir()
	code := codeOf(t, compiled(t, path, dir))
	good := read(t, code)
	entry := entryOf(dir, code)
	if err := edit(code, func(b []byte) []byte { return b[:20] }); err != nil {
		t.Fatal(err)
	}
	s, err := sums(entry) // and sums that agree
	if err := errors.Join(err, os.WriteFile(filepath.Join(entry, sumsFile), []byte(s), 0o600)); err != nil {
		t.Fatal(err)
	}
	compiled(t, path, dir)
	if got := read(t, code); len(got) != len(good) {
		t.Errorf("%d bytes, want %d", len(got), len(good))
	}
}

func TestCacheThatCannotBeUsedIsDoneWithout(t *testing.T) {
	path := store(t, plugin(nil, nil).bytes())
	for name, prepare := range map[string]func(dir string) error{
		"a file in its place": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"open to others": func(dir string) error {
			version, err := wazeroVersion()
			if err != nil {
				return err
			}
			c, err := openCache(dir, version)
			if err != nil {
				return err
			}
			return os.Chmod(c.dir, 0o755)
		},
		"a link to elsewhere": func(dir string) error {
			version, err := wazeroVersion()
			if err != nil {
				return err
			}
			c, err := openCache(dir, version)
			if err != nil {
				return err
			}
			return errors.Join(os.Remove(c.dir), os.Symlink(t.TempDir(), c.dir))
		},
	} {
		dir := filepath.Join(t.TempDir(), "cache")
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		log, out := logTo()
		p, err := Load(t.Context(), Options{Path: path, CacheDir: dir, Log: log})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Close(t.Context())
		if !strings.Contains(out.String(), "not kept") {
			t.Errorf("%s: nothing was said: %s", name, out)
		}
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			if files := cacheFiles(t, dir); len(files) != 0 {
				t.Errorf("%s: used all the same: %v", name, files)
			}
		}
	}
}

func TestManyProcessesCompileAtOnce(t *testing.T) {
	path, dir := store(t, plugin(nil, nil).bytes()), t.TempDir()
	hammer.Run(t, 6, 3, func(_, _ int) {
		p, err := Load(context.Background(), Options{Path: path, CacheDir: dir})
		if err != nil {
			t.Error(err)
			return
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if files := cacheFiles(t, dir); len(files) != 2 {
		t.Errorf("%v", files)
	}
}

func TestUnusedEntriesAreTrimmed(t *testing.T) {
	c, err := openCache(t.TempDir(), "v0")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": cacheAge + time.Hour, "tmp-1": cacheAge * 2, "new": cacheAge - time.Hour} {
		dir := filepath.Join(c.dir, name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chtimes(dir, now.Add(-age), now.Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	c.trim(now)
	left, err := os.ReadDir(c.dir)
	if err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("%v, %v", left, err)
	}
}
