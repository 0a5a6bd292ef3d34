package rlmm

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// followed is a file of the metadata topic, and how far it was read.
type followed struct {
	path   string
	base   int64       // of its name
	info   os.FileInfo // of the file that was read; nil: none yet
	looked time.Time   // when info was taken
	head   []byte      // the header of its first batch
	sum    uint32      // CRC-32C of its first pos bytes
	pos    int64       // of the first byte that was not read
	seq    sequence
	holes  []hole    // before pos
	damage []Problem // of what lies before pos
	stop   *Problem  // what keeps the rest from being read; nil: nothing does
	zeros  int64     // the size of the file of which all behind pos was zeros; 0: it was not

	repeats int // searches for a batch that came before
}

// hole is a stretch of a file, from inclusive to exclusive, that holds no whole batch.
type hole struct{ from, to int64 }

// errRewritten says that what was read is not what the files hold now, so that all must be read again.
var errRewritten = errors.New("the metadata was rewritten")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// settled is the age that makes a file's modification time tell of all that was written before: a clock of a file system
// may stand still for some time.
const settled = 2 * time.Second

// unchanged reports that the file is what it was when it was looked at last. Its size does not tell: a file may have been
// made longer than what is written in it (log.preallocate).
func (f *followed) unchanged(info os.FileInfo) bool {
	return f.info != nil && os.SameFile(f.info, info) && f.info.Size() == info.Size() && f.info.ModTime().Equal(info.ModTime()) &&
		f.looked.Sub(info.ModTime()) > settled
}

// look opens the file if it may have changed, and holds it against what was read. It gives nil where there is nothing to
// read. An error is errRewritten, or of the file system.
func (f *followed) look(now time.Time) (*os.File, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(f.path); err == nil {
			f.cannot("a link to a file that is not there")
		}
		return nil, nil // else it was deleted since it was listed
	}
	switch {
	case err != nil:
		return nil, abi.E("read metadata", f.path, abi.FileKind(err), err)
	case info.IsDir():
		f.cannot("a directory, where a file of the log should be")
		return nil, nil
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		f.cannot("not a regular file")
		return nil, nil
	case f.unchanged(info):
		return nil, nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	short, err := f.identify(file, now)
	if err != nil || short {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// cannot says why the file, or the rest of it, can't be read.
func (f *followed) cannot(format string, args ...any) {
	p := problem(f.path, -1, format, args...)
	f.stop = &p
}

// identify holds a file against what was read of the one of its name: the same, with more behind; a copy of it; or another
// one. That it has the same number says nothing: a file system gives the number of a deleted file to the next one. short says
// that it is the begin of what was read, such as a copy that is being made.
func (f *followed) identify(file *os.File, now time.Time) (short bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return false, abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	head := make([]byte, format.HeaderSizeV2)
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	common := min(n, len(f.head))
	switch {
	case f.pos > 0 && !bytes.Equal(head[:common], f.head[:common]):
		return false, errRewritten
	case info.Size() < f.pos:
		f.cannot("the file has %d bytes, and had %d that were read: what it held stays", info.Size(), f.pos)
		return true, nil
	case f.info != nil && !os.SameFile(f.info, info):
		if err := f.sameBegin(file); err != nil {
			return false, err
		}
	}
	if err := f.sameHoles(file); err != nil {
		return false, err
	}
	f.info, f.looked = info, now
	return false, nil
}

// sameBegin checks that a file begins with all that was read of another.
func (f *followed) sameBegin(file *os.File) error {
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, f.pos)); err != nil {
		return abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	if sum.Sum32() != f.sum {
		return errRewritten
	}
	return nil
}

// sameHoles checks that what held no whole batch still does not.
func (f *followed) sameHoles(file *os.File) error {
	for _, h := range f.holes {
		if _, whole := wholeBatch(file, h.from); whole {
			return errRewritten
		}
	}
	return nil
}

// read gives apply each batch from where f stands. Behind one that is damaged it goes on with the next whole one, where there is one.
func (f *followed) read(ctx context.Context, file *os.File, apply func(batch []byte, h *format.BatchHeader) error) error {
	in := newBatchReader(file, f.pos)
	f.stop = nil
	for {
		if err := ctx.Err(); err != nil {
			return abi.E("read metadata", f.path, abi.KindOf(err), err)
		}
		batch, h, err := in.next(f.pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if more, err := f.pass(ctx, file, err); !more {
				return err
			}
			in = newBatchReader(file, f.pos)
			continue
		}
		if err := f.take(file, batch, &h, apply); err != nil {
			return err
		}
	}
}

// take applies a batch, but for one that came before.
func (f *followed) take(file *os.File, batch []byte, h *format.BatchHeader, apply func([]byte, *format.BatchHeader) error) error {
	if h.BaseOffset < f.seq.next && f.repeated(file, h) {
		f.damage = append(f.damage, problem(f.path, h.BaseOffset, "the batch at byte %d is one that came before", f.pos).repaired())
	} else {
		f.damage = append(f.damage, f.seq.take(f.path, h, f.pos)...)
		if err := apply(batch, h); err != nil {
			return err
		}
	}
	if f.pos == 0 {
		f.head = slices.Clone(batch[:min(len(batch), format.HeaderSizeV2)])
	}
	f.advance(batch)
	return nil
}

func (f *followed) advance(b []byte) {
	f.pos += int64(len(b))
	f.sum = crc32.Update(f.sum, castagnoli, b)
}

// maxRepeats bounds how often a file is read from its begin for a batch that came before.
const maxRepeats = 16

// repeated reports that the file has the same batch further up. The CRC covers the times in it.
func (f *followed) repeated(file *os.File, h *format.BatchHeader) bool {
	if f.repeats++; f.repeats > maxRepeats {
		return false
	}
	holes := f.holes
	var head [format.HeaderSizeV2]byte
	for pos := int64(0); pos < f.pos; {
		if len(holes) > 0 && holes[0].from == pos {
			pos, holes = holes[0].to, holes[1:]
			continue
		}
		n, _ := file.ReadAt(head[:], pos)
		other, err := format.ParseBatchHeader(head[:n])
		if err != nil {
			return false
		}
		if other.CRC == h.CRC && other.Length == h.Length && other.BaseOffset == h.BaseOffset {
			return true
		}
		pos += other.Size()
	}
	return false
}

// pass looks for what follows a batch that can't be read because of why, and passes over all before it. It reports false
// where nothing does: the rest waits for another look.
func (f *followed) pass(ctx context.Context, file *os.File, why error) (more bool, err error) {
	if errors.Is(why, errBlank) {
		if rest, err := f.blankRest(ctx, file); rest || err != nil {
			return false, err
		}
	}
	at, ok, err := nextBatch(ctx, file, f.pos+1)
	if err != nil {
		return false, err
	}
	if !ok {
		f.cannot("at byte %d: %w; the rest of the file is passed over", f.pos, why)
		return false, nil
	}
	return true, f.skip(file, at, why)
}

// blankRest reports that nothing but zeros follows: what was made room for in advance (log.preallocate).
func (f *followed) blankRest(ctx context.Context, file *os.File) (bool, error) {
	info, err := file.Stat()
	if err != nil {
		return false, abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	end := info.Size()
	if f.zeros == end { // the rest was, and what is written begins at its begin
		end = min(end, f.pos+1<<20)
	}
	rest, err := blankTo(ctx, file, f.pos, end)
	f.zeros = 0
	if rest {
		f.zeros = info.Size()
	}
	return rest, err
}

// skip goes on at byte to, where a whole batch begins.
func (f *followed) skip(file *os.File, to int64, why error) error {
	from, head := f.pos, make([]byte, format.HeaderSizeV2)
	if _, err := file.ReadAt(head, to); err != nil {
		return abi.E("read metadata", f.path, abi.FileKind(err), err)
	}
	h, err := format.ParseBatchHeader(head)
	if err != nil { // it was one a moment ago
		return errRewritten
	}
	buf := make([]byte, chunk)
	for f.pos < to {
		n, err := file.ReadAt(buf[:min(chunk, to-f.pos)], f.pos)
		if err != nil {
			return abi.E("read metadata", f.path, abi.FileKind(err), err)
		}
		if f.pos == 0 {
			f.head = slices.Clone(buf[:min(n, format.HeaderSizeV2)])
		}
		f.advance(buf[:n])
	}
	f.holes = append(f.holes, hole{from, to})
	if f.seq.doubt != nil {
		f.damage = append(f.damage, f.seq.doubt.problem(f.path))
	}
	lost := "what they held is not known"
	if h.BaseOffset > f.seq.next {
		lost = stretch(f.seq.next, h.BaseOffset-1, "is lost", "are lost")
	}
	f.damage = append(f.damage, problem(f.path, f.seq.next, "bytes %d to %d hold no whole batch: %w; %s", from, to-1, why, lost))
	f.seq = sequence{next: max(f.seq.next, h.BaseOffset)}
	return nil
}

// problems is what is wrong with the file now; next is what the next file begins with, -1: there is none.
func (f *followed) problems(next int64) []Problem {
	all := slices.Clone(f.damage)
	seq := f.seq
	if seq.doubt != nil && next >= 0 {
		all = append(all, seq.settle(f.path, next))
	} else if seq.doubt != nil {
		all = append(all, seq.doubt.problem(f.path))
	}
	if f.stop != nil {
		all = append(all, *f.stop)
	}
	switch {
	case next > seq.next:
		all = append(all, problem(f.path, seq.next, "%s in no file: the next one begins with %d", stretch(seq.next, next-1, "is", "are"), next))
	case next >= 0 && next < seq.next:
		all = append(all, problem(f.path, next, "it goes on to offset %d, and the next file begins with %d", seq.next-1, next))
	}
	return all
}
