package host

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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
