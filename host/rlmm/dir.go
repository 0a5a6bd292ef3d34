package rlmm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// MetadataTopic is Kafka's topic of remote log metadata.
const MetadataTopic = "__remote_log_metadata"

// maxBatch bounds one batch of the metadata topic: a broker's message.max.bytes is 1 MiB by default.
const maxBatch = 64 << 20

// maxProblems bounds how many problems a Report names; more are counted.
const maxProblems = 100

// Report says what a source held, or what one look at it found.
type Report struct {
	Partitions int // of the metadata topic
	Records    int
	Applied    int
	Dropped    int       // events that Kafka would drop as well
	Problems   []Problem // the first hundred
	Reloaded   bool      // all was read again into another Store
}

// Problem is one thing that was passed over.
type Problem struct {
	Path   string
	Offset int64 // of the record, -1: not known
	What   error
	Drop   bool // an event that Kafka drops as well: nothing is lost
}

func (p Problem) String() string {
	if p.Offset < 0 {
		return fmt.Sprintf("%s: %v", p.Path, p.What)
	}
	return fmt.Sprintf("%s, offset %d: %v", p.Path, p.Offset, p.What)
}

// add takes in what another look found.
func (r *Report) add(o *Report) {
	r.Partitions, r.Records, r.Applied, r.Dropped = o.Partitions, r.Records+o.Records, r.Applied+o.Applied, r.Dropped+o.Dropped
	r.Problems = append(r.Problems, o.Problems[:min(len(o.Problems), maxProblems-len(r.Problems))]...)
}

func (r *Report) note(path string, offset int64, what error) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{path, offset, what, errors.As(what, new(dropped))})
	}
}

// Dir follows the partition directories of the metadata topic below a path, as a broker leaves them in its log directory
// or as it writes them. It is not safe for concurrent use; the Store that it fills is.
type Dir struct {
	path   string
	store  *Store
	files  map[string]*followed // by path; also those that are gone, since they may come back
	absent map[string]bool      // partition directories that are gone
	total  Report
}

// followed is how far a file was read.
type followed struct {
	info    os.FileInfo // of the file that was read; nil: none yet
	head    []byte      // the header of its first batch
	pos     int64       // of the first batch that was not applied
	next    int64       // the offset behind the last record that was
	problem string      // that was reported last
}

// NewDir makes a Dir that has read nothing.
func NewDir(path string) *Dir {
	return &Dir{path: path, store: NewStore(), files: map[string]*followed{}, absent: map[string]bool{}}
}

// Store is what was read. A look that reports Reloaded gives another one.
func (d *Dir) Store() *Store { return d.store }

// Total is what all looks since the last reload found.
func (d *Dir) Total() Report {
	total := d.total
	total.Problems = slices.Clone(total.Problems)
	return total
}

// errRewritten says that what was read is not what the files hold now, so that all must be read again.
var errRewritten = errors.New("the metadata was rewritten")

// Look reads what came since the last look. A batch that is not whole waits for a later look, and is reported once.
// A file that was copied anew is passed over as far as it was read; one that was cut, or that came to hold something else,
// makes Look read everything into another Store.
//
// Errors: NOT_FOUND or DENIED where the path can't be read, NOT_FOUND where it holds none of the directories. What was
// read before stays.
func (d *Dir) Look(ctx context.Context) (*Report, error) {
	r := &Report{}
	err := d.look(ctx, r)
	if errors.Is(err, errRewritten) {
		fresh := NewDir(d.path)
		r = &Report{Reloaded: true}
		if err = fresh.look(ctx, r); err != nil {
			return &Report{}, err
		}
		*d = *fresh
	}
	d.total.add(r)
	return r, err
}

func (d *Dir) look(ctx context.Context, r *Report) error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return abi.E("read metadata", d.path, abi.FileKind(err), err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		topic, _, ok := format.ParsePartitionDir(e.Name())
		if !ok || topic != MetadataTopic || !e.IsDir() {
			continue
		}
		dir := filepath.Join(d.path, e.Name())
		found[dir] = true
		if err := d.lookPartition(ctx, dir, r); err != nil {
			return err
		}
	}
	if r.Partitions = len(found); len(found) == 0 {
		return abi.Errorf("read metadata", d.path, abi.NotFound,
			"holds no directory %s-N: give the folder that a broker has as log.dirs, or a copy of it", MetadataTopic)
	}
	d.noteAbsent(found, r)
	return nil
}

// noteAbsent reports, once, each directory that was read before and is gone.
func (d *Dir) noteAbsent(found map[string]bool, r *Report) {
	for path := range d.files {
		dir := filepath.Dir(path)
		if !found[dir] && !d.absent[dir] {
			r.note(dir, -1, errors.New("the directory is gone; what it held stays"))
		}
		d.absent[dir] = !found[dir]
	}
}

func (d *Dir) lookPartition(ctx context.Context, dir string, r *Report) error {
	entries, err := os.ReadDir(dir) // by name, hence by base offset: the names are padded
	if err != nil {
		return abi.E("read metadata", dir, abi.FileKind(err), err)
	}
	var paths []string
	for _, e := range entries {
		if _, ext, ok := format.ParseSegmentFile(e.Name()); ok && ext == ".log" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	for i, path := range paths {
		later := slices.ContainsFunc(paths[i+1:], func(p string) bool { return d.files[p] != nil && d.files[p].pos > 0 })
		if err := d.lookFile(ctx, path, later, r); err != nil {
			return err
		}
	}
	return nil
}

// lookFile applies what a file has more than it had. later says that a file behind it was read already.
func (d *Dir) lookFile(ctx context.Context, path string, later bool, r *Report) error {
	known := d.files[path]
	if known == nil {
		known = &followed{}
		d.files[path] = known
	}
	info, err := os.Stat(path)
	if err == nil && known.info != nil && os.SameFile(known.info, info) && info.Size() == known.pos && info.ModTime().Equal(known.info.ModTime()) {
		return nil // nothing new
	}
	if err == nil && info.Mode().Type()&^fs.ModeDir != 0 { // opening a pipe would wait for its writer
		return abi.Errorf("read metadata", path, abi.Invalid, "not a regular file")
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // deleted since it was listed
	}
	if err != nil {
		return abi.E("read metadata", path, abi.FileKind(err), err)
	}
	defer f.Close()
	if err := known.identify(f); err != nil {
		return err
	}
	return d.readFile(ctx, f, known, later, r)
}

// identify holds f against what was read of the file of its name: the same file, a copy of it, or another one. That it has the
// same number says nothing: a file system gives the number of a deleted file to the next one.
func (k *followed) identify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return abi.E("read metadata", f.Name(), abi.FileKind(err), err)
	}
	head := make([]byte, format.HeaderSizeV2)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return abi.E("read metadata", f.Name(), abi.FileKind(err), err)
	}
	if k.pos > 0 && (info.Size() < k.pos || !bytes.HasPrefix(head[:n], k.head)) {
		return errRewritten
	}
	if k.info == nil || !os.SameFile(k.info, info) {
		k.pos = 0
	}
	k.info = info
	return nil
}

// readFile applies the batches of f from where known stands. A bad batch ends it: where the next one begins is not known.
func (d *Dir) readFile(ctx context.Context, f *os.File, known *followed, later bool, r *Report) error {
	rest := io.NewSectionReader(f, known.pos, math.MaxInt64-known.pos)
	in := &batchReader{f: f, in: bufio.NewReaderSize(rest, 256<<10)}
	for {
		if err := ctx.Err(); err != nil {
			return abi.E("read metadata", f.Name(), abi.KindOf(err), err)
		}
		batch, h, err := in.next(known.pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			known.note(f.Name(), err, r)
			return nil
		}
		if h.LastOffset >= known.next {
			if later {
				return errRewritten // it would come too late
			}
			d.applyBatch(f.Name(), batch, &h, known.next, r)
			known.next = h.LastOffset + 1
		}
		if known.pos == 0 {
			known.head = slices.Clone(batch[:min(len(batch), format.HeaderSizeV2)])
		}
		known.pos += h.Size()
	}
}

// note reports what ends a file, once.
func (k *followed) note(path string, err error, r *Report) {
	text := fmt.Sprintf("at byte %d: %v", k.pos, err)
	if text == k.problem {
		return
	}
	k.problem = text
	r.note(path, -1, fmt.Errorf("at byte %d: %w; the rest of the file is passed over", k.pos, err))
}

var errTorn = errors.New("torn batch: the file ends inside it")

// batchReader reads the batches of a file that may grow meanwhile.
type batchReader struct {
	f    *os.File
	in   *bufio.Reader
	size int64 // that the file has at least
	buf  []byte
}

// next reads the batch at pos, where the reader stands. It is valid up to the next call. io.EOF is the end of the file.
func (b *batchReader) next(pos int64) ([]byte, format.BatchHeader, error) {
	head, err := b.in.Peek(format.HeaderSizeV2)
	if err != nil && (!errors.Is(err, io.EOF) || len(head) == 0) {
		return nil, format.BatchHeader{}, err
	}
	if len(bytes.Trim(head, "\x00")) == 0 { // what an active segment has preallocated
		return nil, format.BatchHeader{}, io.EOF
	}
	h, err := format.ParseBatchHeader(head)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, h, errTorn
	case err != nil:
		return nil, h, err
	case h.Size() > maxBatch:
		return nil, h, fmt.Errorf("a batch of %d bytes, %d at most", h.Size(), maxBatch)
	}
	if err := b.reaches(pos + h.Size()); err != nil {
		return nil, h, err
	}
	b.buf = slices.Grow(b.buf[:0], int(h.Size()))[:h.Size()]
	if _, err := io.ReadFull(b.in, b.buf); err != nil {
		return nil, h, err
	}
	return b.buf, h, format.VerifyBatch(&h, b.buf)
}

// reaches checks that the file has the bytes up to end, before room is made for them.
func (b *batchReader) reaches(end int64) error {
	if end <= b.size {
		return nil
	}
	info, err := b.f.Stat()
	if err != nil {
		return err
	}
	if b.size = info.Size(); end > b.size {
		return errTorn
	}
	return nil
}

// applyBatch applies the records of a batch from offset from on.
func (d *Dir) applyBatch(path string, batch []byte, h *format.BatchHeader, from int64, r *Report) {
	if h.IsControl() {
		return
	}
	records, err := format.Records(batch, maxBatch)
	if err != nil {
		r.note(path, h.BaseOffset, err)
		return
	}
	for _, rec := range records {
		if rec.Offset < from {
			continue
		}
		r.Records++
		err := d.store.Apply(rec.Value)
		if err == nil {
			r.Applied++
			continue
		}
		if drop := dropped(""); errors.As(err, &drop) {
			r.Dropped++
		}
		r.note(path, rec.Offset, err)
	}
}
