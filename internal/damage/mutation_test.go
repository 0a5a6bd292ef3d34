package damage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// mutation changes a file. It says what it did; an empty text is nothing, where there is nothing that it could change.
type mutation struct {
	name string
	do   func(r *rand.Rand, path string, siblings []string) (string, error)
}

// mutations are those of files.
var mutations = []mutation{
	{"bit flip", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		if len(b) == 0 {
			return b, ""
		}
		at, bit := r.IntN(len(b)), r.IntN(8)
		b[at] ^= 1 << bit
		return b, fmt.Sprintf("bit %d of byte %d flipped", bit, at)
	})},
	{"bit flip in a header", content(headerFlip)},
	{"byte set", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		if len(b) == 0 {
			return b, ""
		}
		at, v := r.IntN(len(b)), byte(r.IntN(256))
		if b[at] == v {
			v++
		}
		b[at] = v
		return b, fmt.Sprintf("byte %d set to %d", at, v)
	})},
	{"zero run", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		if len(b) == 0 {
			return b, ""
		}
		at := r.IntN(len(b))
		n := min(len(b)-at, 1+r.IntN(1<<(1+r.IntN(14))))
		was := slices.Clone(b)
		clear(b[at : at+n])
		if bytes.Equal(was, b) {
			return b, ""
		}
		return b, fmt.Sprintf("%d bytes from byte %d zeroed", n, at)
	})},
	{"cut", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		if len(b) == 0 {
			return b, ""
		}
		at := r.IntN(len(b))
		return b[:at], fmt.Sprintf("cut at byte %d of %d", at, len(b))
	})},
	{"cut at a border", content(cutAtBorder)},
	{"append", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		n, kind := 1+r.IntN(5000), "random bytes"
		more := make([]byte, n)
		if r.IntN(2) == 0 {
			kind = "zeros"
		} else {
			fill(r, more)
		}
		return append(b, more...), fmt.Sprintf("%d %s appended", n, kind)
	})},
	{"duplicate a block", content(func(r *rand.Rand, b []byte) ([]byte, string) {
		if len(b) < 2 {
			return b, ""
		}
		at := r.IntN(len(b) - 1)
		n := 1 + r.IntN(min(len(b)-at, 4096))
		return slices.Insert(slices.Clone(b), at, b[at:at+n]...), fmt.Sprintf("%d bytes from byte %d twice", n, at)
	})},
	{"duplicate a batch", content(duplicateBatch)},
	{"empty", content(func(_ *rand.Rand, b []byte) ([]byte, string) {
		if len(b) == 0 {
			return b, ""
		}
		return nil, "emptied"
	})},
	{"remove", func(_ *rand.Rand, path string, _ []string) (string, error) { return "removed", os.RemoveAll(path) }},
	{"swap", swapWithSibling},
	{"copy of a sibling", copyOfSibling},
	{"directory", instead("a directory in its place", func(path string) error { return os.Mkdir(path, 0o755) })},
	{"pipe", instead("a pipe in its place", func(path string) error { return syscall.Mkfifo(path, 0o644) })},
	{"dangling link", instead("a link to nothing in its place", func(path string) error { return os.Symlink("nothing-here", path) })},
	{"link to itself", instead("a link to itself in its place", func(path string) error { return os.Symlink(filepath.Base(path), path) })},
	{"link to zeros", instead("a link to /dev/zero in its place", func(path string) error { return os.Symlink("/dev/zero", path) })},
	{"socket", instead("a socket in its place", bindSocket)},
}

// content is a mutation of what a regular file holds.
func content(change func(r *rand.Rand, b []byte) ([]byte, string)) func(*rand.Rand, string, []string) (string, error) {
	return func(r *rand.Rand, path string, _ []string) (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		b, what := change(r, b)
		if what == "" {
			return "", nil
		}
		return what, replace(path, b)
	}
}

// replace writes a new file, so that others that are links to the old one keep what they have.
func replace(path string, b []byte) error {
	tmp := path + ".new"
	return errors.Join(os.WriteFile(tmp, b, 0o644), os.Rename(tmp, path))
}

// instead puts something else in the place of a file.
func instead(what string, make func(path string) error) func(*rand.Rand, string, []string) (string, error) {
	return func(_ *rand.Rand, path string, _ []string) (string, error) {
		return what, errors.Join(os.RemoveAll(path), make(path))
	}
}

func fill(r *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// batchBorders gives where batches begin in a log, and where the last whole one ends.
func batchBorders(b []byte) []int {
	borders := []int{0}
	for at := 0; len(b)-at >= 12; {
		n := 12 + int(binary.BigEndian.Uint32(b[at+8:]))
		if n < 12 || n > len(b)-at {
			break
		}
		at += n
		borders = append(borders, at)
	}
	return borders
}

// headerFlip flips a bit of a batch's header, most of which no CRC covers.
func headerFlip(r *rand.Rand, b []byte) ([]byte, string) {
	borders := batchBorders(b)
	if len(borders) < 2 {
		return b, ""
	}
	i, bit := r.IntN(len(borders)-1), r.IntN(8)
	at := borders[i] + r.IntN(61)
	if at >= len(b) {
		return b, ""
	}
	b[at] ^= 1 << bit
	return b, fmt.Sprintf("bit %d of byte %d of batch %d, at %d, flipped", bit, at-borders[i], i, borders[i])
}

// cutAtBorder cuts where a batch ends, or an entry of an index, or a line.
func cutAtBorder(r *rand.Rand, b []byte) ([]byte, string) {
	borders := batchBorders(b)
	if len(borders) < 2 {
		switch n := len(b); {
		case n > 0 && bytes.Contains(b, []byte("\n")):
			lines := bytes.SplitAfter(b, []byte("\n"))
			keep := r.IntN(len(lines))
			return bytes.Join(lines[:keep], nil), fmt.Sprintf("cut after line %d of %d", keep, len(lines))
		case n >= 8 && n%4 == 0:
			at := r.IntN(n/4) * 4
			return b[:at], fmt.Sprintf("cut at byte %d of %d", at, n)
		}
		return b, ""
	}
	i := r.IntN(len(borders) - 1)
	return b[:borders[i]], fmt.Sprintf("cut before batch %d of %d, at %d", i, len(borders)-1, borders[i])
}

// duplicateBatch writes a batch twice, or moves it.
func duplicateBatch(r *rand.Rand, b []byte) ([]byte, string) {
	borders := batchBorders(b)
	if len(borders) < 3 {
		return b, ""
	}
	i, to := r.IntN(len(borders)-1), r.IntN(len(borders)-1)
	batch := slices.Clone(b[borders[i]:borders[i+1]])
	if r.IntN(2) == 0 {
		return slices.Insert(slices.Clone(b), borders[to], batch...), fmt.Sprintf("batch %d also before batch %d", i, to)
	}
	return append(slices.Clone(b[:borders[i]]), b[borders[i+1]:]...), fmt.Sprintf("batch %d of %d left out", i, len(borders)-1)
}

func swapWithSibling(r *rand.Rand, path string, siblings []string) (string, error) {
	other := pickOther(r, path, siblings)
	if other == "" {
		return "", nil
	}
	a, err1 := os.ReadFile(path)
	b, err2 := os.ReadFile(other)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if bytes.Equal(a, b) {
		return "", nil
	}
	return "swapped with " + other, errors.Join(replace(path, b), replace(other, a))
}

func copyOfSibling(r *rand.Rand, path string, siblings []string) (string, error) {
	other := pickOther(r, path, siblings)
	if other == "" {
		return "", nil
	}
	a, err1 := os.ReadFile(path)
	b, err2 := os.ReadFile(other)
	if err := errors.Join(err1, err2); err != nil || bytes.Equal(a, b) {
		return "", err
	}
	return "a copy of " + other, replace(path, b)
}

func pickOther(r *rand.Rand, path string, siblings []string) string {
	others := slices.DeleteFunc(slices.Clone(siblings), func(s string) bool { return s == path })
	if len(others) == 0 {
		return ""
	}
	return others[r.IntN(len(others))]
}

// directoryMutations are those of folders.
var directoryMutations = []mutation{
	{"remove", func(_ *rand.Rand, path string, _ []string) (string, error) { return "removed", os.RemoveAll(path) }},
	{"empty", func(_ *rand.Rand, path string, _ []string) (string, error) {
		return "emptied", errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o755))
	}},
	{"file", instead("a file in its place", func(path string) error { return os.WriteFile(path, []byte("x"), 0o644) })},
	{"dangling link", instead("a link to nothing in its place", func(path string) error { return os.Symlink("nothing-here", path) })},
	{"swap", func(r *rand.Rand, path string, siblings []string) (string, error) {
		other := pickOther(r, path, siblings)
		if other == "" {
			return "", nil
		}
		tmp := path + "-swapped"
		return "swapped with " + other, errors.Join(os.Rename(path, tmp), os.Rename(other, path), os.Rename(tmp, other))
	}},
	{"rename", func(_ *rand.Rand, path string, _ []string) (string, error) {
		name := strings.Replace(filepath.Base(path), "-", "-x-", 1)
		return "renamed to " + name, os.Rename(path, filepath.Join(filepath.Dir(path), name))
	}},
}
