package coordinator

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// noRoom makes the next write of the whole file end as on a disk that is full; what is tried after it has room.
func noRoom(t *testing.T, dir string) {
	t.Helper()
	if err := os.Symlink("/dev/full", filepath.Join(dir, fileName+".new")); err != nil {
		t.Fatal(err)
	}
}

// TestFullAtStart: a disk that is full keeps nobody from reading, and what was committed is told; commits are taken when there
// is room.
func TestFullAtStart(t *testing.T) {
	dir, log := t.TempDir(), &bytes.Buffer{}
	s, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save([]change{changeOf(1)}); err != nil {
		t.Fatal(err)
	}
	s.close()
	noRoom(t, dir)
	if s, err = openStore(dir, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	if s.count() != 1 || !strings.Contains(log.String(), "commits are refused until there is") {
		t.Errorf("%d offsets; the log says %s", s.count(), log)
	}
	noRoom(t, dir)
	if err := s.save([]change{changeOf(2)}); !errors.Is(err, syscall.ENOSPC) || s.count() != 1 {
		t.Errorf("no room: %v, %d offsets", err, s.count())
	}
	if err := s.save([]change{changeOf(3)}); err != nil {
		t.Errorf("room: %v", err)
	}
	s.close()
	if s, err = openStore(dir, slog.New(slog.DiscardHandler)); err != nil || s.count() != 2 {
		t.Fatalf("%v", err)
	}
	s.close()
}

// TestFullWhenLarge: where there is no room for a second file, the first one grows on.
func TestFullWhenLarge(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save([]change{changeOf(1)}); err != nil {
		t.Fatal(err)
	}
	s.file.lines = 5 * linesSpare
	noRoom(t, dir)
	for i := range 2 {
		if err := s.save([]change{changeOf(i)}); err != nil || s.file.lines != 5*linesSpare+i+1 {
			t.Errorf("%v, %d lines", err, s.file.lines)
		}
	}
	s.file.lines = s.file.later + 1
	if err := s.save([]change{changeOf(2)}); err != nil || s.file.lines != 3 || s.file.later != 0 {
		t.Errorf("later: %v, %d lines", err, s.file.lines)
	}
	s.close()
	if s, err = openStore(dir, slog.New(slog.DiscardHandler)); err != nil || s.count() != 3 {
		t.Fatalf("%v", err)
	}
	s.close()
}
