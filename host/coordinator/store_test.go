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
	"syscall"
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

// damages are what can be wrong with a file of ten lines: how many are lost, and what the log says. -1: it is refused.
var damages = map[string]struct {
	do   func([]byte) []byte
	lost int
	log  string
}{
	"whole":            {func(b []byte) []byte { return b }, 0, ""},
	"a torn line more": {func(b []byte) []byte { return append(b, b[len(b)-100:len(b)-20]...) }, 0, "ends in the middle of a line"},
	"zeros at its end": {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 0, "ends in the middle of a line"},
	"cut":              {func(b []byte) []byte { return b[:len(b)-20] }, 1, "is damaged"},
	"without its end":  {func(b []byte) []byte { return b[:len(b)-1] }, 1, "is damaged"},
	"without its last line": {func(b []byte) []byte {
		return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1]
	}, 1, "is damaged"},
	"without a line in it": {func(b []byte) []byte {
		lines := bytes.SplitAfter(b, []byte("\n"))
		return bytes.Join(append(lines[:4:4], lines[5:]...), nil)
	}, 1, "is damaged"},
	"a byte":           {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, 1, "is damaged"},
	"an end of a line": {func(b []byte) []byte { b[bytes.IndexByte(b[headBytes:], '\n')+headBytes] ^= 4; return b }, 0, "is damaged"},
	"a line of a mebibyte": {func(b []byte) []byte {
		return append(b[:headBytes:headBytes], append(append(bytes.Repeat([]byte("x"), 1<<20), '\n'), b[headBytes:]...)...)
	}, 0, "is damaged"},
	"its first line":       {func(b []byte) []byte { b[3] ^= 4; return b }, 0, "is damaged"},
	"its version":          {func(b []byte) []byte { b[len(fileStem)] ^= 4; return b }, 0, "is damaged"},
	"its length":           {func(b []byte) []byte { b[len(fileStem)+10] ^= 4; return b }, 0, "is damaged"},
	"nothing":              {func([]byte) []byte { return nil }, -1, "is empty or cut to nothing"},
	"its first line alone": {func(b []byte) []byte { return b[:headBytes] }, -1, "is empty or cut to nothing"},
	"a cut first line":     {func(b []byte) []byte { return b[:9] }, -1, "is empty or cut to nothing"},
	"noise":                {func([]byte) []byte { return bytes.Repeat([]byte("\x00\x01\n"), 100) }, -1, "is empty or cut to nothing"},
	"zeros":                {func(b []byte) []byte { return make([]byte, len(b)) }, -1, "is empty or cut to nothing"},
	"a later version's":    {func([]byte) []byte { return []byte(fileStem + "3\nx\n") }, -1, "another version of rsmhost wrote it"},
}

// fileOf is a file of ten lines as it is after a clean end.
func fileOf() []byte {
	b := fileHead(0)
	for i := range 10 {
		b = appendLine(b, changeOf(i))
	}
	copy(b, fileHead(int64(len(b))))
	return b
}

// TestDamagedFile: what is readable is kept, the file is whole again after it, and the log names it. A damaged one is still
// there as it was; one of which nothing is left, or of another version, is refused and not touched.
func TestDamagedFile(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			b := d.do(fileOf())
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			s, err := openStore(dir, slog.New(slog.NewTextHandler(&log, nil)))
			if d.lost < 0 {
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), d.log) {
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
			expectKept(t, dir, s.count())
			s.close()
			expectKept(t, dir, s.count())
		})
	}
}

// expectKept: a store that is opened here has so many offsets, and nothing to say.
func expectKept(t *testing.T, dir string, want int) {
	t.Helper()
	var log bytes.Buffer
	s, err := openStore(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if s.count() != want || log.Len() > 0 {
		t.Errorf("%d offsets, want %d: %s", s.count(), want, log.String())
	}
}

// TestEveryFlippedBitIsTold: wherever it is in the file, at most one line is lost, and the log says so.
func TestEveryFlippedBitIsTold(t *testing.T) {
	whole := fileOf()
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		kept := 0
		held, err := parseFile(bytes.NewReader(b), func(change) bool { kept++; return true })
		if err != nil || kept < 9 || !held.damaged() || held.other {
			t.Errorf("byte %d: %d lines of 10, %+v, %v", at, kept, held, err)
		}
	}
}

// TestEveryCutIsTold: a file that ends before what was on disk is damaged, or there is nothing left of it.
func TestEveryCutIsTold(t *testing.T) {
	whole := fileOf()
	for n := range whole {
		held, err := parseFile(bytes.NewReader(whole[:n]), func(change) bool { return true })
		if err != nil || !held.damaged() && !held.emptied() {
			t.Errorf("%d bytes: %+v, %v", n, held, err)
		}
	}
}

// TestFileOfVersion1IsTakenOver: with all that it has, and nothing is said.
func TestFileOfVersion1IsTakenOver(t *testing.T) {
	for name, lines := range map[string]int{"some": 3, "none": 0} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := []byte("rsmhost group offsets 1\n")
			for i := range lines {
				b = appendLine(b, changeOf(i))
			}
			if err := os.WriteFile(filepath.Join(dir, fileName), b, 0o600); err != nil {
				t.Fatal(err)
			}
			expectKept(t, dir, lines)
			if b, err := os.ReadFile(filepath.Join(dir, fileName)); err != nil || !bytes.HasPrefix(b, []byte("rsmhost group offsets 2 ")) {
				t.Errorf("%s, %v", b, err)
			}
		})
	}
}

// TestAMissingFileIsToldFromNone: where there was one, its absence is an error; where there was none, it is made.
func TestAMissingFileIsToldFromNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "groups")
	for range 2 {
		expectKept(t, dir, 0)
		if err := os.Remove(filepath.Join(dir, fileName)); err != nil {
			t.Fatal(err)
		}
		_, err := openStore(dir, slog.New(slog.DiscardHandler))
		if abi.KindOf(err) != abi.Corrupt || !strings.Contains(err.Error(), filepath.Join(dir, fileName)) || !strings.Contains(err.Error(), "is missing") {
			t.Fatalf("%v", err)
		}
		if err := os.RemoveAll(dir); err != nil { // as the error says
			t.Fatal(err)
		}
	}
}

// TestWhatIsNoFileIsRefused: at once, by an error that names it.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a hole":      func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		for _, file := range []string{fileName, markName} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, file)
				if err := put(path); err != nil {
					t.Fatal(err)
				}
				if _, err := openStore(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestTheFileIsSmallHoweverMuchIsCommitted: it is written anew by its bytes, not by its lines alone.
func TestTheFileIsSmallHoweverMuchIsCommitted(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	changes := make([]change, 200)
	for i := range changes {
		changes[i] = change{Group: "g", Topic: "orders", Partition: int32(i), Metadata: strings.Repeat("\x01", maxMetadata)}
	}
	most, written := int64(0), int64(0)
	for range 40 {
		if err := s.save(changes); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil {
			t.Fatal(err)
		}
		most, written = max(most, st.Size()), written+int64(len(newSave(changes).lines))
	}
	one := int64(len(newSave(changes).lines))
	if bound := 3*one + spareBytes; most > bound || written < 3*bound {
		t.Errorf("the file had %d bytes, at most %d are wanted; %d were committed", most, bound, written)
	}
	if line := one / 200; line > 2*maxMetadata {
		t.Errorf("a line of %d bytes for %d of metadata", line, maxMetadata)
	}
}

// TestManyCommitsAtOnce: each is on disk when it is acknowledged, in an order that memory has too.
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
	again, err := openStore(dir, slog.New(slog.DiscardHandler)) // as after a kill: the first one was not closed
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	defer s.close()
	if diff := cmp.Diff(s.kept, again.kept, cmp.AllowUnexported(place{}, committed{}, group{})); diff != "" {
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
			return errors.Join(os.WriteFile(other, fileHead(0), 0o600), os.Rename(other, filepath.Join(dir, fileName)))
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
	for n := range maxOffsetData / maxGroupData {
		big.Group, err = fmt.Sprint("g", n), nil
		for big.Partition = 0; err == nil; big.Partition++ {
			err = s.save([]change{big})
		}
		if of := s.kept[big.Group].bytes; abi.KindOf(err) != abi.Exhausted || of > maxGroupData || of < maxGroupData*9/10 {
			t.Errorf("%s has %d bytes: %v", big.Group, of, err)
		}
	}
	big.Group, err = "one more", nil
	for big.Partition = 0; err == nil; big.Partition++ {
		err = s.save([]change{big})
	}
	if abi.KindOf(err) != abi.Exhausted || s.bytes > maxOffsetData || s.bytes < maxOffsetData*9/10 {
		t.Errorf("%d bytes: %v", s.bytes, err)
	}
	big.Group, big.Partition = "g1", 0
	if err := s.save([]change{big}); err != nil {
		t.Errorf("one that was there: %v", err)
	}
	for _, g := range s.groups() {
		if err := s.save(s.deletions(g, func(place) bool { return true })); err != nil {
			t.Error(err)
		}
	}
	if s.bytes != 0 || s.count() != 0 || len(s.groups()) != 0 {
		t.Errorf("after all were deleted: %d bytes, %d offsets", s.bytes, s.count())
	}
}

// FuzzFile: no file makes it panic, or gives changes that are not in it whole; what it gives can be written and is read again.
func FuzzFile(f *testing.F) {
	f.Add(fileOf())
	f.Add([]byte("rsmhost group offsets 1\n"))
	f.Add(appendLine(fileHead(0), change{Source: "c/__consumer_offsets-3", Offset: 9}))
	f.Add(bytes.Replace(fileOf(), []byte("}\n"), []byte("}x"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []change
		held, err := parseFile(bytes.NewReader(b), func(c change) bool { got = append(got, c); return true })
		if err != nil || held.kept != len(got) || held.size > int64(len(b)) {
			t.Fatalf("%+v, %v", held, err)
		}
		again := fileHead(0)
		for _, c := range got {
			again = appendLine(again, c)
		}
		copy(again, fileHead(int64(len(again))))
		var second []change
		held, err = parseFile(bytes.NewReader(again), func(c change) bool { second = append(second, c); return true })
		if err != nil || held.damaged() || !cmp.Equal(got, second) {
			t.Errorf("%+v, %v: %s", held, err, cmp.Diff(got, second))
		}
	})
}
