package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rsmhost/rsmhost/abi"
)

func changeOf(i int) change {
	return change{Group: "g", Topic: "orders", ID: abi.UUID{1, byte(i >> 8), byte(i)}, Partition: int32(i), Offset: int64(100 + i), Epoch: 3,
		Metadata: strings.Repeat("\xff", i%2) + "é", At: 1700000000000}
}

// TestLines: what is written is read again, and a line that differs in one byte is not.
func TestLines(t *testing.T) {
	for i := range 3 {
		want := changeOf(i)
		line := bytes.TrimSuffix(appendLine(nil, want), []byte("\n"))
		got, ok := parseLine(line)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
		for j := range line {
			line[j] ^= 1
			if _, ok := parseLine(line); ok {
				t.Errorf("read with a damaged byte %d: %s", j, line)
			}
			line[j] ^= 1
		}
	}
}

// damages are what can be wrong with a file of ten lines: what is lost, and what the log says. -1: it is refused.
var damages = map[string]struct {
	do   func([]byte) []byte
	lost int
	log  string
}{
	"whole":             {func(b []byte) []byte { return b }, 0, ""},
	"cut":               {func(b []byte) []byte { return b[:len(b)-20] }, 1, "ends in the middle of a line"},
	"without its end":   {func(b []byte) []byte { return b[:len(b)-1] }, 1, "ends in the middle of a line"},
	"a byte":            {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, 1, "is damaged"},
	"its first line":    {func(b []byte) []byte { b[3] ^= 4; return b }, 0, "is damaged"},
	"zeros at its end":  {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 0, "ends in the middle of a line"},
	"nothing":           {func([]byte) []byte { return nil }, 10, ""},
	"a cut first line":  {func([]byte) []byte { return []byte(fileHead[:9]) }, 10, "ends in the middle of a line"},
	"noise":             {func([]byte) []byte { return bytes.Repeat([]byte("\x00\x01\n"), 100) }, 10, "is damaged"},
	"a later version's": {func([]byte) []byte { return []byte(fileStem + "2\nx\n") }, -1, ""},
}

// TestDamagedFile: what is readable is kept, the file is whole again after it, and the log names it. A damaged one is still
// there as it was; one of another version is not touched.
func TestDamagedFile(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			b := []byte(fileHead)
			for i := range 10 {
				b = appendLine(b, changeOf(i))
			}
			b = d.do(b)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s, err := openStore(dir, slog.New(slog.NewTextHandler(&log, nil)))
			if d.lost < 0 {
				if abi.KindOf(err) != abi.Precondition || !strings.Contains(err.Error(), path) {
					t.Errorf("%v", err)
				}
				if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, b) {
					t.Errorf("it was touched: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n := s.count(); n != 10-d.lost {
				t.Errorf("%d offsets, want %d", n, 10-d.lost)
			}
			if d.log == "" && log.Len() > 0 || !strings.Contains(log.String(), d.log) || log.Len() > 0 && !strings.Contains(log.String(), path) {
				t.Errorf("the log says %s", log.String())
			}
			aside, err := os.ReadFile(path + ".damaged")
			if damaged := d.log == "is damaged"; damaged && !bytes.Equal(aside, b) || !damaged && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("beside it: %v", err)
			}
			if err := s.save([]change{changeOf(11)}); err != nil {
				t.Error(err)
			}
			want := s.count()
			s.close()
			log.Reset()
			if s, err = openStore(dir, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
				t.Fatal(err)
			}
			if s.count() != want || log.Len() > 0 {
				t.Errorf("again: %d offsets, want %d: %s", s.count(), want, log.String())
			}
			s.close()
		})
	}
}

// TestManyCommitsAtOnce: each is on disk when it is acknowledged, in an order that memory has too, and the file does not
// grow for ever.
func TestManyCommitsAtOnce(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for n := range 40 {
				changes := make([]change, 100)
				for i := range changes {
					changes[i] = change{Group: fmt.Sprint("g", g%4), Topic: "orders", Partition: int32(i), Offset: int64(n)}
				}
				if err := s.save(changes); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	lines := s.file.lines
	if most := 4*s.count() + linesSpare + 8*100; lines > most {
		t.Errorf("%d lines for %d offsets, at most %d", lines, s.count(), most)
	}
	again, err := openStore(dir, slog.New(slog.DiscardHandler)) // as after a kill: the first one was not closed
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	defer s.close()
	if diff := cmp.Diff(s.kept, again.kept, cmp.AllowUnexported(place{}, committed{})); diff != "" {
		t.Error(diff)
	}
}

// TestFailedWrite: a commit that could not be written is not acknowledged and not there, and the next one is, also after a
// restart.
func TestFailedWrite(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.save([]change{changeOf(1)}); err != nil {
		t.Fatal(err)
	}
	s.file.f.Close()
	if err := s.save([]change{changeOf(2)}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, fileName)) || s.count() != 1 {
		t.Errorf("%d offsets, %v", s.count(), err)
	}
	if err := s.save([]change{changeOf(3)}); err != nil {
		t.Error(err)
	}
	s.close()
	if err := s.save([]change{changeOf(4)}); abi.KindOf(err) != abi.Phase {
		t.Errorf("after close: %v", err)
	}
	again, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.count() != 2 || again.find("g", Topic{"orders", changeOf(3).ID, 9}, 3) == nil {
		t.Errorf("%v", again.kept)
	}
}

// TestRemovedFile: where somebody removed the file, its directory, or put another in its place, the next commit writes it
// anew, with all that was committed.
func TestRemovedFile(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"the file":      func(dir string) error { return os.Remove(filepath.Join(dir, fileName)) },
		"the directory": os.RemoveAll,
		"another file": func(dir string) error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, []byte(fileHead), 0o600), os.Rename(other, filepath.Join(dir, fileName)))
		},
	} {
		dir := filepath.Join(t.TempDir(), "groups")
		s, err := openStore(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if err := s.save([]change{changeOf(i)}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.save([]change{changeOf(2)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		again, err := openStore(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if again.count() != 3 {
			t.Errorf("%s: %d offsets after a restart, want 3", name, again.count())
		}
		again.close()
	}
}

// TestRoom: what would grow beyond the bound is refused, what shrinks or stays is not.
func TestRoom(t *testing.T) {
	s, err := openStore("", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	big := change{Group: "g", Topic: "orders", Metadata: strings.Repeat("m", maxMetadata)}
	for ; err == nil; big.Partition++ {
		err = s.save([]change{big})
	}
	if abi.KindOf(err) != abi.Exhausted || s.bytes > maxOffsetData || s.bytes < maxOffsetData*9/10 {
		t.Errorf("%d bytes: %v", s.bytes, err)
	}
	big.Partition = 0
	if err := s.save([]change{big}); err != nil {
		t.Errorf("one that was there: %v", err)
	}
	if err := s.save(s.deletions("g", func(place) bool { return true })); err != nil || s.bytes != 0 || s.count() != 0 || len(s.groups()) != 0 {
		t.Errorf("after all were deleted: %d bytes, %d offsets, %v", s.bytes, s.count(), err)
	}
}
