package grant

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// tree makes a granted directory beside a secret one, with everything in it that a plugin may try.
func tree(t *testing.T) (granted, secret string) {
	t.Helper()
	dir := t.TempDir()
	granted, secret = filepath.Join(dir, "granted"), filepath.Join(dir, "secret")
	for _, d := range []string{filepath.Join(granted, "sub"), secret} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"granted/file": "good", "granted/sub/file": "good", "secret/file": "secret"} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"in": "sub/file", "out": "../secret/file", "abs": secret + "/file",
		"dirout": "../secret", "loop": "loop", "dangling": "nothing"} {
		if err := os.Symlink(target, filepath.Join(granted, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(granted, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return granted, secret
}

func TestOpen(t *testing.T) {
	granted, secret := tree(t)
	roots, err := OpenRoots(map[string]string{"root": granted})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	for _, tt := range []struct {
		root, path string
		kind       abi.Kind
	}{
		{"root", "file", 0},
		{"root", "sub/file", 0},
		{"root", "sub/../file", 0},
		{"root", "in", 0},
		{"root", "../secret/file", abi.Denied},
		{"root", "sub/../../secret/file", abi.Denied},
		{"root", secret + "/file", abi.Denied},
		{"root", "/etc/passwd", abi.Denied},
		{"root", "out", abi.Denied},
		{"root", "abs", abi.Denied},
		{"root", "dirout/file", abi.Denied},
		{"root", "loop", abi.Denied},
		{"root", "dangling", abi.NotFound},
		{"root", "nothing", abi.NotFound},
		{"root", "file/below", abi.NotFound},
		{"root", "pipe", abi.NotFound}, // opening one would wait for a writer
		{"root", "sub", abi.NotFound},
		{"root", ".", abi.NotFound},
		{"root", "a\x00b", abi.Invalid},
		{"root", strings.Repeat("x", 300), abi.Invalid},
		{"other", "file", abi.Denied},
		{"", "file", abi.Denied},
	} {
		f, st, err := roots.Open(tt.root, tt.path)
		if abi.KindOf(err) != tt.kind {
			t.Errorf("%s:%q: %v, want kind %v", tt.root, tt.path, err, tt.kind)
		}
		if err != nil {
			continue
		}
		b, err := io.ReadAll(f)
		if string(b) != "good" || err != nil || st.Size() != 4 {
			t.Errorf("%s:%q: %q, %v", tt.root, tt.path, b, err)
		}
		f.Close()
	}
}

func TestOpenRoots(t *testing.T) {
	granted, _ := tree(t)
	for _, tt := range []struct {
		dir  string
		kind abi.Kind
	}{{filepath.Join(granted, "nothing"), abi.NotFound}, {filepath.Join(granted, "file"), abi.NotFound}} {
		r, err := OpenRoots(map[string]string{"good": granted, "bad": tt.dir})
		if r != nil || abi.KindOf(err) != tt.kind || !strings.Contains(err.Error(), "bad="+tt.dir) {
			t.Errorf("%s: %v, %v, want kind %v and the setting", tt.dir, r, err, tt.kind)
		}
	}
	if runtime.GOOS == "linux" {
		wantNoneOpen(t, granted)
	}
}

// wantNoneOpen looks at this process's files: nothing below dir may be open.
func wantNoneOpen(t *testing.T, dir string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("%s is still open", target)
		}
	}
}

// TestNil: a plugin that was granted nothing has nil roots.
func TestNil(t *testing.T) {
	var r *Roots
	if _, _, err := r.Open("root", "file"); abi.KindOf(err) != abi.Denied {
		t.Errorf("nil roots opened: %v", err)
	}
	if r.Close() != nil || r.Paths() != nil {
		t.Error("nil roots hold something")
	}
}

// BenchmarkOpen opens a file two directories down, as a read of the remote tier does.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "tier", "orders-0"), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tier", "orders-0", "log"), []byte("x"), 0o600); err != nil {
		b.Fatal(err)
	}
	roots, err := OpenRoots(map[string]string{"root": dir})
	if err != nil {
		b.Fatal(err)
	}
	defer roots.Close()
	b.ReportAllocs()
	for b.Loop() {
		f, _, err := roots.Open("root", "tier/orders-0/log")
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
