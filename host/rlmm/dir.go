package rlmm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// MetadataTopic is Kafka's topic of remote log metadata.
const MetadataTopic = "__remote_log_metadata"

// Dir follows the partition directories of the metadata topic below a path, as a broker leaves them in its log directory
// or as it writes them. It is not safe for concurrent use; the Store that it fills is.
type Dir struct {
	path    string
	store   *Store
	logs    map[int32]*metadataLog // by partition; also those that are gone, since they may come back
	ends    map[int32]claim        // what the checkpoints beside the partitions say of their ends
	told    map[int32]claim        // the same, from elsewhere
	records []Problem              // of records, the first hundred
	beside  []Problem              // of the checkpoints
	total   Report

	next *Dir // what the files hold now, where that is something else; nil: they hold what was read
	wait int  // looks at next
}

// NewDir makes a Dir that has read nothing.
func NewDir(path string) *Dir {
	return &Dir{path: path, store: NewStore(), logs: map[int32]*metadataLog{}, ends: map[int32]claim{}, told: map[int32]claim{}}
}

// Store is what was read. A look that reports Reloaded gives another one.
func (d *Dir) Store() *Store { return d.store }

// Total is what was read since the last reload, with the problems that stand.
func (d *Dir) Total() Report {
	total := d.total
	total.Problems = slices.Clone(total.Problems)
	return total
}

// Expect tells, by the path of each checkpoint that lies elsewhere, of the ends, exclusive, that it gives the metadata topic's
// partitions. A log that ends below is a problem of the next look. What was told before is forgotten.
func (d *Dir) Expect(checkpoints map[string]map[int32]int64) {
	d.told = map[int32]claim{}
	for path, ends := range checkpoints {
		for n, end := range ends {
			add(d.told, n, claim{path, end, 0, -1})
		}
	}
}

// maxWait bounds the looks at files that hold something else than what was read, until that is taken for all.
const maxWait = 10

// Look reads what came since the last look. Behind a damaged batch it goes on with the next whole one; a batch at the end that
// is not whole waits for a later look. A file that was copied anew is passed over as far as it was read.
//
// A file that is shorter than what was read of it is no news: a log only grows, and loses its begin. It may be a copy that is
// being made. What was read stays, and a problem stands with it. Files that hold something else are read into another Store,
// which takes the first one's place when it is whole: when it holds as much, or a look finds nothing more in it.
//
// Errors: NOT_FOUND or DENIED where the path can't be read, NOT_FOUND where it holds none of the directories. What was
// read before stays.
func (d *Dir) Look(ctx context.Context) (*Report, error) {
	was := d.total.Problems
	r, err := d.lookOrReload(ctx)
	d.total.count(r)
	d.total.Problems = d.problems()
	r.compare(was, d.total.Problems)
	return r, err
}

func (d *Dir) lookOrReload(ctx context.Context) (*Report, error) {
	r := &Report{}
	err := d.look(ctx, r)
	if !errors.Is(err, errRewritten) {
		d.next, d.wait = nil, 0
		return r, err
	}
	next := d.next
	if next == nil {
		next = NewDir(d.path)
	}
	more := &Report{}
	next.told = d.told
	err = next.look(ctx, more)
	if errors.Is(err, errRewritten) { // once more
		d.next, err = nil, nil
		return r, err
	}
	d.next = next
	next.total.count(more)
	if err != nil || !d.replaced(more) {
		return r, err
	}
	*d = *next
	d.total = Report{} // the caller counts
	all := next.total
	all.Reloaded = true
	return &all, nil
}

// replaced decides whether the next view takes this one's place, after a look at it that gave more.
func (d *Dir) replaced(more *Report) bool {
	d.wait++
	if d.wait >= maxWait {
		return true
	}
	for _, l := range d.next.logs {
		if !l.whole() {
			return false
		}
	}
	return d.next.total.Records >= d.total.Records || d.wait > 1 && more.Records == 0
}

func (d *Dir) look(ctx context.Context, r *Report) error {
	d.ends, d.beside = checkpointed(d.path) // before the logs, which a broker writes first
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return abi.E("read metadata", d.path, abi.FileKind(err), err)
	}
	found := false
	for _, e := range entries {
		topic, n, ok := format.ParsePartitionDir(e.Name())
		if !ok || topic != MetadataTopic {
			continue
		}
		found = true
		if d.logs[n] == nil {
			d.logs[n] = &metadataLog{path: filepath.Join(d.path, e.Name()), start: -1}
		}
	}
	if !found {
		return abi.Errorf("read metadata", d.path, abi.NotFound,
			"holds no directory %s-N: give the folder that a broker has as log.dirs, or a copy of it", MetadataTopic)
	}
	r.Partitions = len(d.logs)
	var rewritten error
	for _, n := range slices.Sorted(maps.Keys(d.logs)) {
		err := d.logs[n].look(ctx, func(path string, batch []byte, h *format.BatchHeader) { d.applyBatch(path, batch, h, r) })
		switch {
		case errors.Is(err, errRewritten): // the others are followed all the same
			rewritten = err
		case err != nil:
			return err
		}
	}
	return rewritten
}

// problems is what stands, the first hundred.
func (d *Dir) problems() []Problem {
	all := slices.Clone(d.beside)
	if d.next != nil {
		all = append(all, problem(d.path, -1, "the files hold something else than what was read, and may not be whole yet: what was read stays"))
	}
	numbers := slices.Sorted(maps.Keys(d.logs))
	all = append(all, d.missing(numbers)...)
	for _, n := range numbers {
		all = append(all, d.logs[n].problems(d.ends[n], d.told[n])...)
	}
	all = append(all, d.records...)
	return all[:min(len(all), maxProblems)]
}

// missing is the partitions that are not here, though there are ones with higher numbers or a checkpoint names them.
func (d *Dir) missing(numbers []int32) (all []Problem) {
	next := int32(0)
	for _, n := range numbers {
		switch {
		case n == next+1:
			all = append(all, problem(d.partition(next), -1, "the directory is missing, and there is partition %d: what it told is not known", n))
		case n > next:
			all = append(all, problem(d.partition(next), -1, "the directories of the partitions %d to %d are missing, and there is partition %d: what they told is not known",
				next, n-1, n))
		}
		next = n + 1
	}
	for _, claims := range []map[int32]claim{d.ends, d.told} {
		for _, n := range slices.Sorted(maps.Keys(claims)) {
			if c := claims[n]; n >= next && c.end > 0 && d.logs[n] == nil {
				all = append(all, problem(d.partition(n), -1, "the directory is missing, and by %s it has offsets up to %d: what it told is not known", c.path, c.end-1))
			}
		}
	}
	return all
}

func (d *Dir) partition(n int32) string {
	return filepath.Join(d.path, fmt.Sprintf("%s-%d", MetadataTopic, n))
}

// applyBatch applies the records of a batch.
func (d *Dir) applyBatch(path string, batch []byte, h *format.BatchHeader, r *Report) {
	if h.IsControl() {
		return
	}
	records, err := format.Records(batch, maxBatch)
	if err != nil {
		d.note(Problem{Path: path, Offset: h.BaseOffset, What: err})
		return
	}
	for _, rec := range records {
		r.Records++
		err := d.store.Apply(rec.Value)
		if err == nil {
			r.Applied++
			continue
		}
		if errors.As(err, new(dropped)) {
			r.Dropped++
		}
		d.note(recordProblem(path, rec.Offset, err))
	}
}

func (d *Dir) note(p Problem) {
	if len(d.records) < maxProblems {
		d.records = append(d.records, p)
	}
}
