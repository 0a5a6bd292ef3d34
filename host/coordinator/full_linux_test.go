package coordinator

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/host/ownfile"
)

// disk is one that is full when a file is written as a whole the next time; what is tried after it has room.
type disk struct{ full bool }

func (d *disk) create(op, path string) (*os.File, error) {
	if d.full {
		d.full = false
		return os.OpenFile("/dev/full", os.O_RDWR, 0)
	}
	return ownfile.Create(op, path)
}

// TestFullAtStart: a disk that is full keeps nobody from reading, and what was committed is told; commits are taken when there
// is room.
func TestFullAtStart(t *testing.T) {
	dir, log, d := t.TempDir(), &bytes.Buffer{}, &disk{}
	s, err := openStoreOn(d.create, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save([]change{changeOf(1)}); err != nil {
		t.Fatal(err)
	}
	s.close()
	d.full = true
	if s, err = openStoreOn(d.create, dir, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	if s.count() != 1 || !strings.Contains(log.String(), "commits are refused until there is") {
		t.Errorf("%d offsets; the log says %s", s.count(), log)
	}
	d.full = true
	if err := s.save([]change{changeOf(2)}); !errors.Is(err, syscall.ENOSPC) || s.count() != 1 {
		t.Errorf("no room: %v, %d offsets", err, s.count())
	}
	if err := s.save([]change{changeOf(3)}); err != nil {
		t.Errorf("room: %v", err)
	}
	s.close()
	if s, err = openStoreOn(d.create, dir, slog.New(slog.DiscardHandler)); err != nil || s.count() != 2 {
		t.Fatalf("%v", err)
	}
	s.close()
}

// TestFullWhenLarge: where there is no room for a second file, the first one grows on.
func TestFullWhenLarge(t *testing.T) {
	dir, d := t.TempDir(), &disk{}
	s, err := openStoreOn(d.create, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save([]change{changeOf(1)}); err != nil {
		t.Fatal(err)
	}
	s.file.base = -spareBytes // so that it is large
	d.full = true
	for i := range 2 {
		before := s.file.size
		if err := s.save([]change{changeOf(i)}); err != nil || s.file.size <= before || s.file.later <= s.file.size {
			t.Errorf("%v, %d bytes, then %d, written anew at %d", err, before, s.file.size, s.file.later)
		}
	}
	s.file.later = s.file.size - 1
	if err := s.save([]change{changeOf(2)}); err != nil || s.file.base < 0 || s.file.later != 0 {
		t.Errorf("later: %v, written anew with %d bytes", err, s.file.base)
	}
	s.close()
	if s, err = openStoreOn(d.create, dir, slog.New(slog.DiscardHandler)); err != nil || s.count() != 3 {
		t.Fatalf("%v", err)
	}
	s.close()
}
