package rlmm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// MetadataTopic is Kafka's topic of remote log metadata.
const MetadataTopic = "__remote_log_metadata"

// maxBatch bounds one batch of the metadata topic: a broker's message.max.bytes is 1 MiB by default.
const maxBatch = 64 << 20

// maxProblems bounds how many problems a Report names; more are counted.
const maxProblems = 100

// Report says what a source held.
type Report struct {
	Partitions int // of the metadata topic
	Records    int
	Applied    int
	Dropped    int       // events that Kafka would drop as well
	Problems   []Problem // the first hundred
}

// Problem is one thing that was passed over.
type Problem struct {
	Path   string
	Offset int64 // of the record, -1: not known
	What   error
}

func (p Problem) String() string {
	if p.Offset < 0 {
		return fmt.Sprintf("%s: %v", p.Path, p.What)
	}
	return fmt.Sprintf("%s, offset %d: %v", p.Path, p.Offset, p.What)
}

func (r *Report) note(path string, offset int64, what error) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{path, offset, what})
	}
}

// LoadDir reads the partition directories of the metadata topic below dir, as a broker leaves them in its log directory,
// into s. Errors: NOT_FOUND or DENIED where dir can't be read, NOT_FOUND where it holds none of these directories.
// What can't be used is passed over, and named in the Report.
func (s *Store) LoadDir(ctx context.Context, dir string) (*Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, abi.E("read metadata", dir, abi.FileKind(err), err)
	}
	r := &Report{}
	for _, e := range entries {
		topic, _, ok := format.ParsePartitionDir(e.Name())
		if !ok || topic != MetadataTopic || !e.IsDir() {
			continue
		}
		r.Partitions++
		if err := s.loadPartition(ctx, filepath.Join(dir, e.Name()), r); err != nil {
			return r, err
		}
	}
	if r.Partitions == 0 {
		return nil, abi.Errorf("read metadata", dir, abi.NotFound,
			"holds no directory %s-N: give the folder that a broker has as log.dirs, or a copy of it", MetadataTopic)
	}
	return r, nil
}

func (s *Store) loadPartition(ctx context.Context, dir string, r *Report) error {
	entries, err := os.ReadDir(dir) // by name, hence by base offset: the names are padded
	if err != nil {
		return abi.E("read metadata", dir, abi.FileKind(err), err)
	}
	for _, e := range entries {
		if _, ext, ok := format.ParseSegmentFile(e.Name()); !ok || ext != ".log" {
			continue
		}
		if err := s.loadSegment(ctx, filepath.Join(dir, e.Name()), r); err != nil {
			return err
		}
	}
	return nil
}

// loadSegment applies the records of one file. A bad batch ends the file: where the next one begins is not known.
func (s *Store) loadSegment(ctx context.Context, path string, r *Report) error {
	f, err := os.Open(path)
	if err != nil {
		return abi.E("read metadata", path, abi.FileKind(err), err)
	}
	defer f.Close()
	for pos := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return abi.E("read metadata", path, abi.KindOf(err), err)
		}
		batch, h, err := readBatch(f, pos)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			r.note(path, -1, fmt.Errorf("at byte %d: %w; the rest of the file is passed over", pos, err))
			return nil
		}
		s.applyBatch(path, batch, &h, r)
		pos += h.Size()
	}
}

var errTorn = errors.New("torn batch: the file ends inside it")

// readBatch reads the batch at pos. io.EOF is the end of the file.
func readBatch(f *os.File, pos int64) ([]byte, format.BatchHeader, error) {
	var head [format.HeaderSizeV2]byte
	n, err := f.ReadAt(head[:], pos)
	if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
		return nil, format.BatchHeader{}, err
	}
	if head == ([format.HeaderSizeV2]byte{}) { // what an active segment has preallocated
		return nil, format.BatchHeader{}, io.EOF
	}
	h, err := format.ParseBatchHeader(head[:n])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, h, errTorn
	}
	if err != nil {
		return nil, h, err
	}
	if h.Size() > maxBatch {
		return nil, h, fmt.Errorf("a batch of %d bytes, %d at most", h.Size(), maxBatch)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, h, err
	}
	if pos+h.Size() > st.Size() {
		return nil, h, errTorn
	}
	b := make([]byte, h.Size())
	if _, err := f.ReadAt(b, pos); err != nil && !errors.Is(err, io.EOF) {
		return nil, h, err
	}
	return b, h, format.VerifyBatch(&h, b)
}

func (s *Store) applyBatch(path string, batch []byte, h *format.BatchHeader, r *Report) {
	if h.IsControl() {
		return
	}
	records, err := format.Records(batch, maxBatch)
	if err != nil {
		r.note(path, h.BaseOffset, err)
		return
	}
	for _, rec := range records {
		r.Records++
		err := s.Apply(rec.Value)
		if err == nil {
			r.Applied++
			continue
		}
		if d := dropped(""); errors.As(err, &d) {
			r.Dropped++
		}
		r.note(path, rec.Offset, err)
	}
}
