package rlmm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// metadataLog is one partition of the metadata topic as its files have it. What is gone stays as it was read.
type metadataLog struct {
	path   string
	files  []*followed // by base offset
	claims []claim     // of the files beside the log
	start  int64       // what they say of its begin, -1: nothing
	stop   *Problem    // why it can't be read; nil: it can
}

// look reads what the files have more than they had. apply is called with each batch, in order; late says that one comes too
// late, since something behind it was applied.
func (l *metadataLog) look(ctx context.Context, apply func(path string, batch []byte, h *format.BatchHeader)) error {
	l.stop = nil
	if info, err := os.Stat(l.path); err != nil || !info.IsDir() {
		return l.away(err)
	}
	entries, err := os.ReadDir(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l.away(err)
	}
	if err != nil {
		return abi.E("read metadata", l.path, abi.FileKind(err), err)
	}
	l.claims, l.start = claims(l.path, entries)
	for _, e := range entries {
		if base, ext, ok := format.ParseSegmentFile(e.Name()); ok && ext == ".log" {
			l.follow(filepath.Join(l.path, e.Name()), base)
		}
	}
	for i, f := range l.files {
		late := slices.ContainsFunc(l.files[i+1:], func(f *followed) bool { return f.pos > 0 })
		if err := l.lookFile(ctx, f, late, apply); err != nil {
			return err
		}
	}
	return nil
}

// away says why there is no directory. What it held stays.
func (l *metadataLog) away(err error) error {
	var p Problem
	_, lerr := os.Lstat(l.path)
	switch {
	case err == nil:
		p = problem(l.path, -1, "no directory, where one of the metadata topic's partitions should be")
	case !errors.Is(err, fs.ErrNotExist):
		return abi.E("read metadata", l.path, abi.FileKind(err), err)
	case lerr == nil:
		p = problem(l.path, -1, "a link to a directory that is not there")
	default:
		p = problem(l.path, -1, "the directory is gone; what it held stays")
	}
	l.stop = &p
	return nil
}

// follow finds or makes the place of a file.
func (l *metadataLog) follow(path string, base int64) {
	if i, ok := l.place(base); !ok {
		l.files = slices.Insert(l.files, i, &followed{path: path, base: base, seq: sequence{next: base}})
	}
}

func (l *metadataLog) lookFile(ctx context.Context, f *followed, late bool, apply func(path string, batch []byte, h *format.BatchHeader)) error {
	file, err := f.look(time.Now())
	if file == nil {
		return err
	}
	defer file.Close()
	return f.read(ctx, file, func(batch []byte, h *format.BatchHeader) error {
		if late {
			return errRewritten
		}
		apply(f.path, batch, h)
		return nil
	})
}

// end is the offset behind the last record that was read, or that a file's name begins with.
func (l *metadataLog) end() int64 {
	if len(l.files) == 0 {
		return 0
	}
	return l.files[len(l.files)-1].seq.next
}

// whole reports that no file ends inside a batch, or is shorter than what was read of it.
func (l *metadataLog) whole() bool {
	return l.stop == nil && !slices.ContainsFunc(l.files, func(f *followed) bool { return f.stop != nil })
}

// problems is what is wrong with the log now; what else is known of its end is given.
func (l *metadataLog) problems(also ...claim) (all []Problem) {
	if l.stop != nil {
		all = append(all, *l.stop)
	}
	if len(l.files) > 0 && l.start >= 0 && l.start < l.files[0].base {
		all = append(all, problem(l.path, l.start, "%s in no file: the first one begins with %d, and by the leader epochs the log begins with %d",
			stretch(l.start, l.files[0].base-1, "is", "are"), l.files[0].base, l.start))
	}
	for i, f := range l.files {
		next := int64(-1)
		if i+1 < len(l.files) {
			next = l.files[i+1].base
		}
		all = append(all, f.problems(next)...)
	}
	if c, ok := l.broken(also); ok {
		all = append(all, problem(l.path, l.end(), "the files end before it, and by %s there are offsets up to %d: what these tell is not known", c.path, c.end-1))
	}
	return all
}

// broken is the greatest claim that the log does not keep. An index entry about what was read is wrong itself.
func (l *metadataLog) broken(also []claim) (worst claim, ok bool) {
	for _, c := range slices.Concat(l.claims, also) {
		if c.end > max(l.end(), worst.end) && (c.pos < 0 || c.pos >= l.read(c.base)) {
			worst, ok = c, true
		}
	}
	return worst, ok
}

// read is how many bytes of the file with this base offset were read.
func (l *metadataLog) read(base int64) int64 {
	i, ok := l.place(base)
	if !ok {
		return 0
	}
	return l.files[i].pos
}

// place is where the file with this base offset is, or belongs.
func (l *metadataLog) place(base int64) (i int, ok bool) {
	return slices.BinarySearchFunc(l.files, base, func(f *followed, base int64) int { return cmp.Compare(f.base, base) })
}
