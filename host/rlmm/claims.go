package rlmm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// A log that lost its end or its begin looks like a shorter log. What a broker wrote beside it tells: names of files, indexes,
// snapshots, leader epochs, and the checkpoints of the log directory. A broker writes each of them after the records of which it
// tells, so that they are read before the log is, and never say more than there is.

// claim is what a file says of a log: that it has all offsets before end.
type claim struct {
	path string
	end  int64
	base int64 // of the file with the batch that it tells of
	pos  int64 // of that batch, -1: it names none
}

// maxSmall bounds a checkpoint that is read whole.
const maxSmall = 16 << 20

// claims is what the files beside a log say of its end, and start what they say of its begin; -1: nothing.
func claims(dir string, entries []fs.DirEntry) (all []claim, start int64) {
	last, start := int64(-1), int64(-1)
	var greatest claim
	for _, e := range entries {
		base, ext, ok := format.ParseSegmentFile(e.Name())
		if !ok || ext != ".log" && ext != ".index" && ext != ".timeindex" && ext != ".snapshot" {
			continue
		}
		if base > greatest.end {
			greatest = claim{filepath.Join(dir, e.Name()), base, 0, -1}
		}
		if ext != ".snapshot" {
			last = max(last, base)
		}
	}
	if greatest.end > 0 {
		all = append(all, greatest)
	}
	if last >= 0 {
		all = append(all, offsetIndexClaim(filepath.Join(dir, format.SegmentFileName(last, ".index")), last)...)
		all = append(all, timeIndexClaim(filepath.Join(dir, format.SegmentFileName(last, ".timeindex")), last)...)
	}
	path := filepath.Join(dir, "leader-epoch-checkpoint")
	if b, err := readSmall(path); err == nil {
		if epochs, err := format.ParseLeaderEpochs(b); err == nil && len(epochs) > 0 {
			start = epochs[0].StartOffset
			all = append(all, claim{path, epochs[len(epochs)-1].StartOffset, 0, -1})
		}
	}
	return all, start
}

// offsetIndexClaim is the last entry of an offset index: the last offset of a batch and its position.
func offsetIndexClaim(path string, base int64) []claim {
	b, ok := lastEntry(path, 8)
	if !ok {
		return nil
	}
	return []claim{{path, base + int64(binary.BigEndian.Uint32(b)) + 1, base, int64(binary.BigEndian.Uint32(b[4:]))}}
}

// timeIndexClaim is the last entry of a time index: a time and an offset.
func timeIndexClaim(path string, base int64) []claim {
	b, ok := lastEntry(path, 12)
	if !ok {
		return nil
	}
	return []claim{{path, base + int64(binary.BigEndian.Uint32(b[8:])) + 1, 0, -1}}
}

// lastEntry is the last entry of an index that is not zeros: an active one is made at its full size.
func lastEntry(path string, size int64) ([]byte, bool) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	entry := make([]byte, size)
	low, high := int64(0), info.Size()/size // the entry before low is none of zeros, that at high is
	for low < high {
		mid := (low + high) / 2
		if _, err := f.ReadAt(entry, mid*size); err != nil {
			return nil, false
		}
		if blank(entry) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == 0 {
		return nil, false
	}
	_, err = f.ReadAt(entry, (low-1)*size)
	return entry, err == nil
}

// openRegular opens a regular file; opening a pipe would wait for its writer.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	return f, info, err
}

func readSmall(path string) ([]byte, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(b) > maxSmall {
		err = fmt.Errorf("larger than %d bytes", maxSmall)
	}
	return b, err
}

// checkpointed is what the checkpoints in the directory of the metadata topic's partitions say of their ends, by partition.
func checkpointed(dir string) (ends map[int32]claim, damaged []Problem) {
	ends = map[int32]claim{}
	for _, name := range []string{"replication-offset-checkpoint", "recovery-point-offset-checkpoint"} {
		path := filepath.Join(dir, name)
		b, err := readSmall(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var offsets map[format.CheckpointKey]int64
		if err == nil {
			offsets, err = format.ParseOffsetCheckpoint(b)
		}
		if err != nil {
			damaged = append(damaged, Problem{path, -1, fmt.Errorf("what it says of the metadata's ends is not known: %w", cause(err)), true})
			continue
		}
		for key, end := range offsets {
			if key.Topic == MetadataTopic {
				add(ends, key.Partition, claim{path, end, 0, -1})
			}
		}
	}
	return ends, damaged
}

// add keeps the greatest claim on a partition.
func add(ends map[int32]claim, partition int32, c claim) {
	if old, ok := ends[partition]; !ok || c.end > old.end {
		ends[partition] = c
	}
}

// cause is an error without its path, for a message that has it.
func cause(err error) error {
	if e := (*abi.Error)(nil); errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
