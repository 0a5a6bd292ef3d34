package coordinator

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const (
	fileName = "offsets.log"
	// markName is a file beside it that says that it was made: where it is missing then, it is lost.
	markName = "format"
	markMax  = 4096

	// fileMax bounds a file that is read. One that earlier versions wrote has at most a tenth of it.
	fileMax = 16 << 30
	// spareBytes is what the file may have beyond twice what it had when it was written anew.
	spareBytes = 8 << 20
)

// file is an open file of offsets. It is not safe for concurrent use.
type file struct {
	path  string
	make  func(op, path string) (*os.File, error) // ownfile.Create
	each  func(visit func(change) error) error    // visits what is kept now
	f     *os.File                                // nil: to be written anew
	size  int64                                   // of it, all synced
	base  int64                                   // its size when it was written anew
	later int64                                   // it is not made smaller before it has this size: there was no room for a second file
}

// openFile opens the file in a directory, which it makes, and passes on what it holds. It holds at most what apply takes.
func openFile(dir string, create func(op, path string) (*os.File, error), log *slog.Logger, apply func(change) bool, each func(visit func(change) error) error) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, abi.E("open group offsets", dir, abi.FileKind(err), err)
	}
	f := &file{path: pathIn(dir), make: create, each: each}
	if err := f.load(apply, log); err != nil {
		return nil, err
	}
	err := f.rewrite()
	if full(err) { // what was committed is there, and can be told
		log.Error("there is no room for group offsets: commits are refused until there is", "error", err)
		return f, nil
	}
	return f, err
}

// pathIn is the file in a directory.
func pathIn(dir string) string { return filepath.Join(dir, fileName) }

// load reads the file, and puts it aside where it is damaged.
func (f *file) load(apply func(change) bool, log *slog.Logger) error {
	held, err := f.read(apply)
	if err != nil {
		return err
	}
	return f.setAside(held, log)
}

// read reads the file. An error says that it can't be what it was, and what is to be done; nothing is changed.
func (f *file) read(apply func(change) bool) (content, error) {
	r, err := ownfile.Open("read group offsets", f.path, fileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, f.never()
	}
	if err != nil {
		return content{}, err
	}
	defer r.Close()
	held, err := parseFile(r, apply)
	switch {
	case err != nil:
		return held, abi.E("read group offsets", f.path, abi.FileKind(err), err)
	case held.other:
		return held, abi.Errorf("read group offsets", f.path, abi.Precondition, "another version of rsmhost wrote it: give another --state-dir, or remove %s and lose what groups committed", filepath.Dir(f.path))
	case held.emptied():
		return held, f.lostAll("is empty or cut to nothing")
	}
	return held, nil
}

// never says that there was no file yet, or that there was one.
func (f *file) never() error {
	_, err := ownfile.Read("read group offsets", f.mark(), markMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return f.lostAll("is missing")
}

func (f *file) mark() string { return filepath.Join(filepath.Dir(f.path), markName) }

func (f *file) lostAll(how string) error {
	return abi.Errorf("read group offsets", f.path, abi.Corrupt, "what groups committed was kept in this file, which %s: put a copy of it back, or remove %s and let groups begin as new ones", how, filepath.Dir(f.path))
}

// full reports that there was no room for a write.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// setAside keeps a damaged file as it was, and says so.
func (f *file) setAside(held content, log *slog.Logger) error {
	if held.torn {
		log.Warn("the file of group offsets ends in the middle of a line: that commit was not acknowledged, and is left out", "file", f.path)
	}
	if !held.damaged() {
		return nil
	}
	aside := f.path + ".damaged"
	if err := keepAs(f.path, aside); err != nil {
		return err
	}
	log.Error("the file of group offsets is damaged: the commits of its damaged lines are lost, all others are kept; as it was it lies beside it",
		"file", f.path, "damaged", held.lost, "at", held.at, "kept", held.kept, "missing_bytes", held.short, "not_taken", held.beyond, "beside", aside)
	return nil
}

// keepAs gives a file another name too, which stays when something else gets the first one.
func keepAs(path, aside string) error {
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return abi.E("keep damaged group offsets", aside, abi.FileKind(err), err)
	}
	if os.Link(path, aside) == nil {
		return nil
	}
	from, err := ownfile.Open("keep damaged group offsets", path, fileMax) // where files have one name
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := ownfile.Create("keep damaged group offsets", aside)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return abi.E("keep damaged group offsets", aside, abi.FileKind(err), err)
	}
	return nil
}

// append writes lines and syncs them. After an error the file is, without these, before anything else is written.
func (f *file) append(lines []byte) error {
	if f.f == nil || f.large() || f.lost() {
		switch err := f.rewrite(); {
		case f.large() && full(err) && !f.lost(): // there may be room for a line
			f.later = f.size + spareBytes
		case err != nil:
			return err
		}
	}
	_, err := f.f.WriteAt(lines, f.size)
	if err == nil {
		_, err = f.f.WriteAt(fileHead(f.size), 0) // which is on disk already, whichever of the two comes there first
	}
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		f.f.Close() // what of it is on disk nobody knows
		f.f = nil
		return abi.E("write group offsets", f.path, abi.FileKind(err), err)
	}
	f.size += int64(len(lines))
	return nil
}

// large reports a file that is to be written anew: most of it is old.
func (f *file) large() bool { return f.f != nil && f.size > max(2*f.base+spareBytes, f.later) }

// lost reports a file that is not what it was: removed, another one lies there, or somebody cut it. What is written to it
// would be acknowledged and gone at the next start.
func (f *file) lost() bool {
	there, err := os.Stat(f.path)
	if err != nil {
		return true
	}
	ours, err := f.f.Stat()
	return err == nil && (!os.SameFile(there, ours) || ours.Size() != f.size) // what is wrong with it, the write says
}

// rewrite writes the file anew, with what is kept and nothing else, and leaves it open for more. After an error the one
// before is as it was.
func (f *file) rewrite() error {
	dir, next := filepath.Dir(f.path), f.path+".new"
	if err := os.MkdirAll(dir, 0o700); err != nil { // somebody may have removed it
		return abi.E("write group offsets", dir, abi.FileKind(err), err)
	}
	n, err := f.make("write group offsets", next)
	if err != nil {
		return err
	}
	size, err := f.writeAll(n)
	if err == nil {
		err = os.Rename(next, f.path)
	}
	if err == nil {
		err = ownfile.SyncDir(dir)
	}
	if err != nil {
		n.Close()
		os.Remove(next)
		return abi.E("write group offsets", f.path, abi.FileKind(err), err)
	}
	if f.f != nil {
		f.f.Close()
	}
	f.f, f.size, f.base, f.later = n, size, size, 0
	return f.markMade()
}

// writeAll writes what is kept to a new file, syncs it, and gives its size.
func (f *file) writeAll(n *os.File) (int64, error) {
	w := bufio.NewWriterSize(n, 64<<10)
	size := int64(0)
	write := func(b []byte) error {
		size += int64(len(b))
		_, err := w.Write(b)
		return err
	}
	if err := write(fileHead(0)); err != nil {
		return 0, err
	}
	err := f.each(func(c change) error { return write(appendLine(nil, c)) })
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		_, err = n.WriteAt(fileHead(size), 0)
	}
	if err == nil {
		err = n.Sync()
	}
	return size, err
}

// markMade says beside the file that it was made.
func (f *file) markMade() error {
	if b, err := ownfile.Read("read", f.mark(), markMax); err == nil && string(b) == fileStem+"2\n" {
		return nil
	}
	if err := ownfile.Write("write group offsets", f.mark(), []byte(fileStem+"2\n")); err != nil {
		return err
	}
	if err := ownfile.SyncDir(filepath.Dir(f.path)); err != nil {
		return abi.E("write group offsets", f.mark(), abi.FileKind(err), err)
	}
	return nil
}

// close says in the file how long it is, so that what is cut off from now on is missed.
func (f *file) close() error {
	if f.f == nil {
		return nil
	}
	if f.lost() {
		return errors.Join(f.rewrite(), f.f.Close())
	}
	_, err := f.f.WriteAt(fileHead(f.size), 0)
	if err = errors.Join(err, f.f.Sync(), f.f.Close()); err != nil {
		return abi.E("write group offsets", f.path, abi.FileKind(err), err)
	}
	return nil
}
