package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/abi"
)

// The file of offsets is text, a change a line, the newest last:
//
//	rsmhost group offsets 1
//	8f0c2b1e {"group":"g","topic":"orders","partition":3,"offset":1234,"epoch":7,"at":1700000000000,"id":"adh9f8BMS4anaUnD8KWfWg"}
//
// Before each stands its CRC-32C. A line that was cut off is the last one, and was not acknowledged. A line that is damaged
// is lost alone.
const (
	fileName   = "offsets.log"
	fileStem   = "rsmhost group offsets "
	fileHead   = fileStem + "1\n"
	sumDigits  = 8
	linesSpare = 10_000 // lines that the file may have beyond four times those that it needs
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// written is a change with what JSON has another form for.
type written struct {
	change
	ID  string `json:"id,omitempty"`
	Raw []byte `json:"raw,omitempty"` // metadata that is no text
}

// appendLine appends the line of a change.
func appendLine(b []byte, c change) []byte {
	w := written{change: c}
	if !c.ID.IsZero() {
		w.ID = c.ID.String()
	}
	if !utf8.ValidString(c.Metadata) {
		w.Raw, w.Metadata = []byte(c.Metadata), ""
	}
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers
	}
	b = fmt.Appendf(b, "%08x ", crc32.Checksum(text, castagnoli))
	return append(append(b, text...), '\n')
}

// parseLine reads a line, without its end.
func parseLine(line []byte) (c change, ok bool) {
	if len(line) < sumDigits+1 || line[sumDigits] != ' ' {
		return c, false
	}
	text := line[sumDigits+1:]
	if fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) != string(line[:sumDigits]) {
		return c, false
	}
	var w written
	if json.Unmarshal(text, &w) != nil {
		return c, false
	}
	c = w.change
	if len(w.Raw) > 0 {
		c.Metadata = string(w.Raw)
	}
	if w.ID != "" {
		id, err := abi.ParseUUID(w.ID)
		if err != nil {
			return c, false
		}
		c.ID = id
	}
	return c, true
}

// content is what a file held.
type content struct {
	changes []change
	lost    int  // lines that are damaged
	cut     bool // the last line has no end
	other   bool // of another version
}

// parseFile reads a file.
func parseFile(b []byte) content {
	var out content
	head, b, ended := bytes.Cut(b, []byte("\n"))
	switch {
	case ended && string(head)+"\n" == fileHead:
	case !ended && strings.HasPrefix(fileHead, string(head)):
		return content{cut: len(head) > 0}
	case strings.HasPrefix(string(head), fileStem):
		return content{other: true}
	default:
		out.lost++
	}
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		c, ok := parseLine(line)
		switch {
		case !ended: // also one that is whole: what is appended must not stand behind it
			out.cut = true
		case ok:
			out.changes = append(out.changes, c)
		default:
			out.lost++
		}
		b = rest
	}
	return out
}

// file is an open file of offsets. It is not safe for concurrent use.
type file struct {
	path  string
	all   func() []change // what is kept now
	f     *os.File        // nil: to be written anew
	lines int             // in it
	later int             // it is not made smaller before it has so many lines: there was no room for a second file
}

// openFile opens the file in a directory, which it makes, and passes on what it holds.
func openFile(dir string, log *slog.Logger, apply func([]change), all func() []change) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, abi.E("open group offsets", dir, abi.FileKind(err), err)
	}
	f := &file{path: filepath.Join(dir, fileName), all: all}
	b, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, abi.E("read group offsets", f.path, abi.FileKind(err), err)
	}
	held := parseFile(b)
	if held.other {
		return nil, abi.Errorf("read group offsets", f.path, abi.Precondition, "another version of rsmhost wrote it: give another --state-dir, or remove it and lose what groups committed")
	}
	if err := f.setAside(b, held, log); err != nil {
		return nil, err
	}
	apply(held.changes)
	err = f.rewrite()
	if full(err) { // what was committed is there, and can be told
		log.Error("there is no room for group offsets: commits are refused until there is", "error", err)
		return f, nil
	}
	return f, err
}

// full reports that there was no room for a write.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// setAside keeps a damaged file as it was, and says so.
func (f *file) setAside(b []byte, held content, log *slog.Logger) error {
	if held.cut {
		log.Warn("the file of group offsets ends in the middle of a line: that commit was not acknowledged, and is left out", "file", f.path)
	}
	if held.lost == 0 {
		return nil
	}
	aside := f.path + ".damaged"
	if err := os.WriteFile(aside, b, 0o600); err != nil {
		return abi.E("keep damaged group offsets", aside, abi.FileKind(err), err)
	}
	log.Error("the file of group offsets is damaged: the commits of its damaged lines are lost, all others are kept; as it was it lies beside it",
		"file", f.path, "damaged", held.lost, "kept", len(held.changes), "beside", aside)
	return nil
}

// append writes changes and syncs them. needed is how many lines a file has that is written anew. After an error it is,
// without these changes, before anything else is written.
func (f *file) append(changes []change, needed int) error {
	large := f.f != nil && f.lines > max(4*needed+linesSpare, f.later)
	if f.f == nil || large || f.lost() {
		switch err := f.rewrite(); {
		case large && full(err) && !f.lost(): // there may be room for a line
			f.later = f.lines + linesSpare
		case err != nil:
			return err
		}
	}
	var b []byte
	for _, c := range changes {
		b = appendLine(b, c)
	}
	_, err := f.f.Write(b)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		f.f.Close() // what of it is on disk nobody knows
		f.f = nil
		return abi.E("write group offsets", f.path, abi.FileKind(err), err)
	}
	f.lines += len(changes)
	return nil
}

// lost reports a file that is not where it was: removed, or another one lies there. What is written to it would be
// acknowledged and gone at the next start.
func (f *file) lost() bool {
	there, err := os.Stat(f.path)
	if err != nil {
		return true
	}
	ours, err := f.f.Stat()
	return err == nil && !os.SameFile(there, ours) // what is wrong with it, the write says
}

// rewrite writes the file anew, with what is kept and nothing else, and leaves it open for more. After an error the one
// before is as it was.
func (f *file) rewrite() error {
	kept := f.all()
	b := []byte(fileHead)
	for _, c := range kept {
		b = appendLine(b, c)
	}
	next := f.path + ".new"
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil { // somebody may have removed it
		return abi.E("write group offsets", filepath.Dir(f.path), abi.FileKind(err), err)
	}
	n, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return abi.E("write group offsets", next, abi.FileKind(err), err)
	}
	_, err = n.Write(b)
	if err == nil {
		err = n.Sync()
	}
	if err == nil {
		err = os.Rename(next, f.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(f.path))
	}
	if err != nil {
		n.Close()
		os.Remove(next)
		return abi.E("write group offsets", f.path, abi.FileKind(err), err)
	}
	if f.f != nil {
		f.f.Close()
	}
	f.f, f.lines, f.later = n, len(kept), 0
	return nil
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f *file) close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}
