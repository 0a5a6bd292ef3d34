//go:build linux

package ownfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

// TestReadGiven: a pipe is read where the user named a descriptor of this process, with a bound; a pipe that lies among files is
// refused as before.
func TestReadGiven(t *testing.T) {
	for name, tt := range map[string]struct {
		path    func(t *testing.T, fd uintptr) string
		content string
		kind    abi.Kind
	}{
		"a descriptor":           {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/dev/fd/", fd) }, "content", 0},
		"in /proc":               {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/proc/self/fd/", fd) }, "content", 0},
		"not clean":              {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/dev//fd/./", fd) }, "content", 0},
		"the most":               {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/dev/fd/", fd) }, strings.Repeat("x", most), 0},
		"more":                   {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/dev/fd/", fd) }, strings.Repeat("x", most+1), abi.Exhausted},
		"nothing":                {func(_ *testing.T, fd uintptr) string { return fmt.Sprint("/dev/fd/", fd) }, "", abi.Invalid},
		"of another process":     {func(_ *testing.T, fd uintptr) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }, "content", abi.Invalid},
		"a pipe among files":     {func(t *testing.T, _ uintptr) string { return put(t, fifo) }, "content", abi.Invalid},
		"a device":               {func(*testing.T, uintptr) string { return "/dev/zero" }, "content", abi.Invalid},
		"a link to a descriptor": {func(t *testing.T, fd uintptr) string { return put(t, link(fmt.Sprint("/proc/self/fd/", fd))) }, "content", abi.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			must(t, err)
			defer r.Close()
			_, err = w.WriteString(tt.content)
			must(t, err)
			must(t, w.Close())
			b, err := ownfile.ReadGiven("read", tt.path(t, r.Fd()), most)
			if abi.KindOf(err) != tt.kind || err == nil && string(b) != tt.content {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// put puts something in a folder of its own.
func put(t *testing.T, what func(*testing.T, string)) string {
	path := filepath.Join(t.TempDir(), "f")
	what(t, path)
	return path
}
