package ownfile_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const most = 16

// places are what may lie where a file is wanted, and what is said of it; "": it is read.
var places = map[string]struct {
	put  func(t *testing.T, path string)
	kind abi.Kind
	says string
}{
	"a file":                 {write("content"), 0, ""},
	"an empty file":          {write(""), 0, ""},
	"a file of the most":     {write(strings.Repeat("x", most)), 0, ""},
	"a larger file":          {write(strings.Repeat("x", most+1)), abi.Exhausted, "larger than 16 bytes"},
	"a hole of a terabyte":   {sparse, abi.Exhausted, "larger than 16 bytes"},
	"nothing":                {func(*testing.T, string) {}, abi.NotFound, "no such file"},
	"a pipe":                 {fifo, abi.Invalid, "it is a pipe, and a regular file is wanted"},
	"a link to a pipe":       {linkTo(fifo), abi.Invalid, "it is a pipe, and a regular file is wanted"},
	"a link to a file":       {linkTo(write("content")), 0, ""},
	"a link to nothing":      {linkTo(func(*testing.T, string) {}), abi.NotFound, "no such file"},
	"a link to endless zero": {link("/dev/zero"), abi.Invalid, "it is a device, and a regular file is wanted"},
	"a directory":            {directory, abi.Invalid, "it is a directory, and a regular file is wanted"},
	"a socket":               {socket, abi.Invalid, "it is a socket, and a regular file is wanted"},
}

func write(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
}

func sparse(t *testing.T, path string) {
	write("")(t, path)
	must(t, os.Truncate(path, 1<<40))
}

func fifo(t *testing.T, path string)      { must(t, syscall.Mkfifo(path, 0o600)) }
func directory(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }

func link(to string) func(*testing.T, string) {
	return func(t *testing.T, path string) { must(t, os.Symlink(to, path)) }
}

func linkTo(put func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		put(t, path+".target")
		link(path+".target")(t, path)
	}
}

func socket(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnlyRegularFilesOfABoundedSizeAreRead: nothing waits, and what is wrong names the path.
func TestOnlyRegularFilesOfABoundedSizeAreRead(t *testing.T) {
	for name, p := range places {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			p.put(t, path)
			b, err := ownfile.Read("read", path, most)
			if p.says == "" {
				want, _ := os.ReadFile(path)
				if err != nil || !bytes.Equal(b, want) {
					t.Errorf("%q, %v", b, err)
				}
				return
			}
			if abi.KindOf(err) != p.kind || !strings.Contains(err.Error(), p.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %s and %q", err, p.kind, p.says)
			}
			if p.kind == abi.Invalid {
				if _, err := ownfile.OpenLock("lock", path); abi.KindOf(err) != abi.Invalid {
					t.Errorf("locked: %v", err)
				}
			}
		})
	}
}

// TestAFileIsWrittenInPlaceOfAnything: neither a pipe's reader is waited for, nor is a link's target written to.
func TestAFileIsWrittenInPlaceOfAnything(t *testing.T) {
	for name, p := range places {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			p.put(t, path)
			err := ownfile.Write("write", path, []byte("new"))
			if name == "a directory" {
				if err == nil {
					t.Error("a directory was replaced")
				}
				return
			}
			must(t, err)
			if b, err := ownfile.Read("read", path, most); err != nil || string(b) != "new" {
				t.Errorf("%q, %v", b, err)
			}
			if name != "a link to a file" {
				return
			}
			if b, err := os.ReadFile(path + ".target"); err != nil || string(b) != "content" {
				t.Errorf("the target: %q, %v", b, err)
			}
		})
	}
}

// TestALockFileIsMade: where there is none, for this user alone.
func TestALockFileIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := ownfile.OpenLock("lock", path)
	must(t, err)
	defer f.Close()
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}
