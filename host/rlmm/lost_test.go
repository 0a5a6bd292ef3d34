package rlmm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// base sets the base offset of the batch at pos, which no CRC covers.
func base(log []byte, pos, offset int64) []byte {
	log = slices.Clone(log)
	binary.BigEndian.PutUint64(log[pos:], uint64(offset))
	return log
}

// zero makes n bytes from pos on zeros.
func zero(log []byte, pos, n int64) []byte {
	log = slices.Clone(log)
	clear(log[pos : pos+n])
	return log
}

// checkLook holds what one look at a directory finds against what is listed then and the words of its problems, one each; one
// that ends with "(repaired)" is.
func checkLook(t *testing.T, dir, segments string, problems ...string) {
	t.Helper()
	s, r, err := load(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if p, ok := s.Partition(tp); ok {
		got = listed(p)
	}
	want(t, "segments", got, segments)
	ok := len(r.Problems) == len(problems)
	for i := 0; ok && i < len(problems); i++ {
		text, repaired := strings.CutSuffix(problems[i], " (repaired)")
		ok = strings.Contains(r.Problems[i].String(), text) && r.Problems[i].Repaired == repaired
	}
	if !ok {
		t.Errorf("problems:\n%v\nwant\n%v", r.Problems, problems)
	}
}

// TestBaseOffsets: a base offset that is wrong hides no batch, is told, and is told from batches that are missing or come twice.
func TestBaseOffsets(t *testing.T) {
	log, ends := threeLog(t)
	batch := func(i int) []byte { return log[append([]int64{0}, ends...)[i]:ends[i]] }
	behind := kafkabytes.MetadataLogAt(t, 6, copied(4, 30, 39)...)
	for _, tt := range []struct {
		name     string
		files    map[int64][]byte
		listed   string
		problems []string
	}{
		{"the first is high", map[int64][]byte{0: base(log, 0, 3<<48)}, "[1 2 3]", []string{"offset 0: the batch at byte 0 has the base offset 844424930131968 (repaired)"}},
		{"one in the middle is high", map[int64][]byte{0: base(log, ends[1], 1<<40)}, "[1 2 3]", []string{"has the base offset 1099511627776, and by what is around it, it is 2 (repaired)"}},
		{"one in the middle is low", map[int64][]byte{0: base(log, ends[1], 0)}, "[1 2 3]", []string{"it is 2 (repaired)"}},
		{"the last is high", map[int64][]byte{0: base(log, ends[4], 77)}, "[1 2 3]", []string{"the base offset 77, and the one before it ends before 5"}},
		{"the last of a file is high", map[int64][]byte{0: base(log, ends[4], 77), 6: behind}, "[1 2 3 4]", []string{"it is 5 (repaired)"}},
		{"the first of a later file is low", map[int64][]byte{0: log, 6: base(behind, 0, 1)}, "[1 2 3 4]", []string{"it is 6 (repaired)"}},
		{"a batch is missing", map[int64][]byte{0: slices.Concat(log[:ends[1]], log[ends[3]:])}, "[1 3]", []string{"offset 2: offsets 2 to 3 are missing before byte"}},
		{"the first is missing", map[int64][]byte{0: log[ends[1]:]}, "[2 3]", []string{"offset 0: offsets 0 to 1 are missing before byte 0"}},
		{"a batch comes twice", map[int64][]byte{0: slices.Concat(log[:ends[3]], batch(1), log[ends[3]:])}, "[1 2 3]", []string{"is one that came before (repaired)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for at, b := range tt.files {
				kafkabytes.WriteFile(t, filepath.Join(dir, file(at)), b)
			}
			checkLook(t, dir, tt.listed, tt.problems...)
		})
	}
}

// TestHoles: what holds no batch is told with its bytes, and what follows it is read.
func TestHoles(t *testing.T) {
	log, ends := threeLog(t)
	flip := func(at int64) []byte { b := slices.Clone(log); b[at] ^= 1; return b }
	hole := func(from, to int64) string { return fmt.Sprintf("bytes %d to %d hold no whole batch", from, to-1) }
	const orphan = "was never announced or is gone (repaired)"
	for _, tt := range []struct {
		name     string
		log      []byte
		listed   string
		problems []string
	}{
		{"zeros at the begin", zero(log, 0, 100), "[2 3]", []string{hole(0, ends[0]), orphan}},
		{"zeros over a header", zero(log, ends[3], 61), "[1 2]", []string{hole(ends[3], ends[4]), orphan}},
		{"zeros over the end of one and the begin of the next", zero(log, ends[1]-20, 40), "[1 3]",
			[]string{hole(ends[0], ends[2]), orphan}},
		{"zeros between two", slices.Concat(log[:ends[1]], make([]byte, 700<<10), log[ends[1]:]), "[1 2 3]", []string{hole(ends[1], ends[1]+700<<10)}},
		{"a flipped bit", flip(ends[1] + 70), "[1 3]", []string{hole(ends[1], ends[2]), orphan}},
		{"a length that is too large", flip(ends[1] + 9), "[1 3]", []string{hole(ends[1], ends[2]), orphan}},
		{"a length that is too small", flip(ends[1] + 11), "[1 3]", []string{hole(ends[1], ends[2]), orphan}},
		{"another magic", flip(ends[1] + 16), "[1 3]", []string{hole(ends[1], ends[2]), orphan}},
		{"bytes that are missing", slices.Concat(log[:ends[1]+30], log[ends[1]+50:]), "[1 3]", []string{hole(ends[1], ends[2]-20), orphan}},
		{"two", zero(flip(ends[0]+70), ends[3], 20), "[1 2]", []string{hole(ends[0], ends[1]), hole(ends[3], ends[4]), orphan}},
		{"zeros at the end", slices.Concat(log, make([]byte, 700<<10)), "[1 2 3]", nil},
		{"nothing but zeros", make([]byte, 1000), "", nil},
		{"something behind zeros at the end", append(slices.Concat(log, make([]byte, 700<<10)), 1), "[1 2 3]", []string{"zeros, with something behind them"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			kafkabytes.WriteFile(t, filepath.Join(dir, file(0)), tt.log)
			checkLook(t, dir, tt.listed, tt.problems...)
		})
	}
}

// TestEvidence: a log that lost its end, its begin, a file or a directory looks whole, and what a broker wrote beside it says
// that it is not.
func TestEvidence(t *testing.T) {
	log, ends := threeLog(t)
	later := kafkabytes.MetadataLogAt(t, 6, copied(4, 30, 39)...)
	index := func(offset, pos int64) []byte { return kafkabytes.AppendEntry(nil, offset, pos) }
	times := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, 1700000000000), 5)
	aside := func(base int64, ext string) string {
		return filepath.Join(part0, format.SegmentFileName(base, ext))
	}
	epochs := filepath.Join(part0, "leader-epoch-checkpoint")
	const checkpoint = "replication-offset-checkpoint"
	for _, tt := range []struct {
		name     string
		files    map[string][]byte
		listed   string
		problems []string
	}{
		{"nothing is missing", map[string][]byte{file(0): log, file(6): later, aside(6, ".index"): index(1, 0), aside(6, ".snapshot"): nil, aside(8, ".snapshot"): nil,
			epochs: []byte("0\n2\n0 0\n1 8\n"), checkpoint: []byte("0\n1\n__remote_log_metadata 0 8\n")}, "[1 2 3 4]", nil},
		{"an empty file is a log that begins", map[string][]byte{file(0): nil, aside(0, ".index"): make([]byte, 8000), epochs: []byte("0\n1\n0 0\n"),
			checkpoint: []byte("0\n1\n__remote_log_metadata 0 0\n")}, "", nil},
		{"a file that was just made", map[string][]byte{file(0): log, file(6): nil}, "[1 2 3]", nil},

		{"by the checkpoint of high watermarks", map[string][]byte{file(0): log[:ends[3]], checkpoint: []byte("0\n1\n__remote_log_metadata 0 6\n")}, "[1 2]",
			[]string{"the files end before it, and by "}},
		{"by that of recovery points", map[string][]byte{file(0): log[:ends[3]], "recovery-point-offset-checkpoint": []byte("0\n1\n__remote_log_metadata 0 6\n")}, "[1 2]",
			[]string{"recovery-point-offset-checkpoint there are offsets up to 5"}},
		{"by the offset index", map[string][]byte{file(0): log[:ends[3]], aside(0, ".index"): append(index(5, ends[4]), make([]byte, 800)...)}, "[1 2]", []string{".index there are offsets up to 5"}},
		{"by the time index", map[string][]byte{file(0): log[:ends[3]], aside(0, ".timeindex"): append(times, make([]byte, 1200)...)}, "[1 2]", []string{".timeindex there are offsets up to 5"}},
		{"by a snapshot", map[string][]byte{file(0): log[:ends[3]], aside(6, ".snapshot"): nil}, "[1 2]", []string{".snapshot there are offsets up to 5"}},
		{"by the leader epochs", map[string][]byte{file(0): log[:ends[3]], epochs: []byte("0\n2\n0 0\n3 6\n")}, "[1 2]", []string{"leader-epoch-checkpoint there are offsets up to 5"}},
		{"zeros over the end", map[string][]byte{file(0): zero(log, ends[3], ends[5]-ends[3]), aside(6, ".snapshot"): nil}, "[1 2]", []string{"the files end before it, and by "}},
		{"an empty file", map[string][]byte{file(0): nil, aside(6, ".snapshot"): nil}, "", []string{"the files end before it, and by "}},
		{"no file", map[string][]byte{aside(0, ".index"): index(5, 100)}, "", []string{"the files end before it, and by "}},
		{"a file in the middle", map[string][]byte{file(0): log[:ends[3]], file(6): later}, "[1 2 4]", []string{"offset 4: offsets 4 to 5 are in no file: the next one begins with 6"}},
		{"an empty file in the middle", map[string][]byte{file(0): log[:ends[3]], file(4): nil, file(6): later}, "[1 2 4]", []string{"offset 4: offsets 4 to 5 are in no file: the next one begins with 6"}},
		{"the last file, by its index", map[string][]byte{file(0): log, aside(6, ".index"): index(1, 0)}, "[1 2 3]", []string{"the files end before it, and by "}},
		{"the first file", map[string][]byte{file(6): later, epochs: []byte("0\n1\n0 0\n")}, "[4]", []string{"offsets 0 to 5 are in no file: the first one begins with 6, and by the leader epochs"}},
		{"an index of what was read that is wrong", map[string][]byte{file(0): log, aside(0, ".index"): index(999, ends[2])}, "[1 2 3]", nil},
		{"a checkpoint that is damaged", map[string][]byte{file(0): log, checkpoint: []byte("9\nx")}, "[1 2 3]", []string{"what it says of the metadata's ends is not known (repaired)"}},
		{"a directory, by its number", map[string][]byte{file(0): log, "__remote_log_metadata-2/00000000000000000000.log": nil}, "[1 2 3]",
			[]string{"__remote_log_metadata-1: the directory is missing, and there is partition 2"}},
		{"directories, by their numbers", map[string][]byte{file(0): log, "__remote_log_metadata-2147483647/00000000000000000000.log": nil}, "[1 2 3]",
			[]string{"__remote_log_metadata-1: the directories of the partitions 1 to 2147483646 are missing"}},
		{"a directory, by the checkpoint", map[string][]byte{file(0): log, checkpoint: []byte("0\n2\n__remote_log_metadata 1 40\n__remote_log_metadata 0 6\n")}, "[1 2 3]",
			[]string{"__remote_log_metadata-1: the directory is missing, and by "}},
		{"a directory without records", map[string][]byte{file(0): log, checkpoint: []byte("0\n2\n__remote_log_metadata 1 0\n__remote_log_metadata 0 6\n")}, "[1 2 3]", nil},
		{"a file in place of a directory", map[string][]byte{file(0): log, "__remote_log_metadata-1": nil}, "[1 2 3]", []string{"no directory, where one of the metadata topic's partitions should be"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, b := range tt.files {
				kafkabytes.WriteFile(t, filepath.Join(dir, name), b)
			}
			checkLook(t, dir, tt.listed, tt.problems...)
		})
	}
}

// TestExpectedEnds: a checkpoint elsewhere tells of ends too, until it tells of others.
func TestExpectedEnds(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	f.write(0, log[:ends[3]])
	f.Expect(map[string]map[int32]int64{"checkpoint": {0: 6, 1: 2}})
	r, err := f.Look(context.Background())
	if err != nil || len(r.Problems) != 2 {
		t.Fatalf("problems %v, %v", r.Problems, err)
	}
	f.Expect(map[string]map[int32]int64{"checkpoint": {0: 4}})
	if r, err = f.Look(context.Background()); err != nil || len(r.Mended) != 2 {
		t.Errorf("mended %v, %v", r.Mended, err)
	}
}

// TestLinkedDirectory: a link to a partition's directory is followed; one to nothing is told.
func TestLinkedDirectory(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	kafkabytes.WriteMetadata(t, elsewhere, copied(1, 0, 9)...)
	link := filepath.Join(dir, part0)
	if err := os.Symlink(filepath.Join(elsewhere, part0), link); err != nil {
		t.Fatal(err)
	}
	checkLook(t, dir, "[1]")
	if err := os.Rename(elsewhere, elsewhere+".away"); err != nil {
		t.Fatal(err)
	}
	checkLook(t, dir, "", "a link to a directory that is not there")
}

// TestPreallocated: what is written into a file that was made longer is seen, though its size stays.
func TestPreallocated(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	const size = 3 << 20
	for i, want := range []string{"1/1 [1][5:- 15:- 25:-]", "1/1 " + one, "1/1 [1 2][5:1 15:- 25:-]", "1/1 " + two} {
		f.write(0, append(slices.Clone(log[:ends[i]]), make([]byte, size-ends[i])...))
		f.looks(want)
	}
}

// TestInvalidNames: metadata of what a broker would never make is a problem, with a text that is safe to show, and no partition.
func TestInvalidNames(t *testing.T) {
	for name, tt := range map[string]struct {
		topic     string
		partition int32
		zeroID    bool
		words     string
	}{
		"control characters":   {"ev\x1b[31mil\nforged \xff", 0, false, `"ev\x1b[31mil\nforged \xff" is no name of a topic`},
		"empty":                {"", 0, false, `"" is no name of a topic`},
		"a dot":                {".", 0, false, `"." is no name of a topic`},
		"a path":               {"../../etc", 0, false, `"../../etc" is no name of a topic`},
		"too long":             {strings.Repeat("x", 250), 0, false, "is no name of a topic"},
		"a negative partition": {"t", -1, false, "partition -1"},
		"an absurd partition":  {"t", 5_000_000, false, "topic t has no partition 5000000"},
		"the id of zeros":      {"t", 0, true, "topic t has the id of zeros"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := announce(1, 0, 9)
			e.Topic, e.Partition = tt.topic, tt.partition
			if tt.zeroID {
				e.TopicID = [16]byte{}
			}
			kafkabytes.WriteMetadata(t, dir, e)
			s, r, err := load(context.Background(), dir)
			if err != nil || len(s.Partitions()) != 0 {
				t.Fatalf("partitions %v, %v", s.Partitions(), err)
			}
			checkProblems(t, r, []string{tt.words})
			if text := r.Problems[0].String(); strings.ContainsAny(text, "\x1b\n") || !utf8.ValidString(text) {
				t.Errorf("%q is not safe to show", text)
			}
		})
	}
}
