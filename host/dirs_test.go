package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// TestTakeDirAgain: a directory that was let go can be taken again at once, also while a process that is being forked still has
// its lock's file.
func TestTakeDirAgain(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	forked, err := syscall.Dup(int(f.Fd())) // as a child gets it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(forked)
	if release, err := takeDir(dir, "--cache-dir"); release != nil || err != nil {
		t.Fatalf("while it is locked: %v", err)
	}
	if err := unlock(f); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		release, err := takeDir(dir, "--cache-dir")
		if release == nil || err != nil {
			t.Fatalf("it is taken: %v", err)
		}
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestADirectoryWhoseOwnFilesAreNoFilesIsRefused: at once, by an error that names the file.
func TestADirectoryWhoseOwnFilesAreNoFilesIsRefused(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a large one": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
		"an empty one": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		for _, file := range []string{stampName, lockName} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				if err := put(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				release, err := takeDir(dir, "--cache-dir")
				if file == lockName && strings.HasSuffix(name, "one") { // what is in it means nothing
					if err != nil {
						t.Fatal(err)
					}
					if err := release(); err != nil {
						t.Fatal(err)
					}
					return
				}
				if release != nil || err == nil || !strings.Contains(err.Error(), dir) || abi.KindOf(err) == abi.Internal {
					t.Errorf("%v", err)
				}
			})
		}
	}
}
