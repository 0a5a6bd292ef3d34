package rlmm

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/golden"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// load looks at a directory once.
func load(ctx context.Context, path string) (*Store, *Report, error) {
	d := NewDir(path)
	r, err := d.Look(ctx)
	return d.Store(), r, err
}

// TestDirFixtures: the states that six brokers ended in are what their metadata logs give.
func TestDirFixtures(t *testing.T) {
	golden.Each(t, func(t *testing.T, dir string) {
		s, r, err := load(context.Background(), filepath.Join(dir, "rlmm"))
		if err != nil || len(r.Problems) > 0 || r.Partitions == 0 || r.Applied != r.Records {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, g := range golden.Partitions(t, dir) {
			checkPartition(t, s, g)
		}
	})
}

func checkPartition(t *testing.T, s *Store, g golden.Partition) {
	t.Helper()
	topic, err := abi.ParseUUID(g.TopicID)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := s.Partition(abi.TopicIDPartition{Topic: g.Topic, TopicID: topic, Partition: g.Partition})
	var want []string
	for _, w := range g.RemoteSegments {
		if w.State != format.DeleteSegmentFinished.String() {
			want = append(want, fmt.Sprintf("%+v", w))
		}
	}
	var got []string
	if ok {
		for _, x := range p.Segments() {
			got = append(got, fmt.Sprintf("%+v", recorded(x)))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s-%d:\n got %s\nwant %s", g.Topic, g.Partition, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// recorded is a segment in the recorder's form.
func recorded(s *Segment) golden.Segment {
	g := golden.Segment{SegmentID: s.SegmentID.String(), StartOffset: s.StartOffset, EndOffset: s.EndOffset,
		LeaderEpochs: map[int32]int64{}, SizeInBytes: s.SizeBytes, MaxTimestampMs: s.MaxTimestampMs, TxnIdxEmpty: s.TxnIndexEmpty,
		State: s.State.String(), BrokerID: s.BrokerID, EventTimestampMs: s.EventTimestampMs,
		ObjectName: fmt.Sprintf("%s-%s/%020d-%s", s.TopicIDPartition, s.TopicID, s.StartOffset, s.SegmentID)}
	for _, e := range s.LeaderEpochs {
		g.LeaderEpochs[e.Epoch] = e.StartOffset
	}
	return g
}

// TestFixtureLookups: every batch of a remote segment is found through its epoch, by both lookups.
func TestFixtureLookups(t *testing.T) {
	golden.Each(t, func(t *testing.T, dir string) {
		s, _, err := load(context.Background(), filepath.Join(dir, "rlmm"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Partitions() {
			for _, seg := range p.Segments() {
				if seg.State != format.CopySegmentFinished {
					continue
				}
				for i, e := range seg.LeaderEpochs {
					for _, offset := range []int64{e.StartOffset, epochEnd(seg, i)} {
						a, ok := p.Lookup(e.Epoch, offset)
						b, kafka := p.KafkaLookup(e.Epoch, offset)
						if !ok || !kafka || a.SegmentID != seg.SegmentID || b.SegmentID != seg.SegmentID {
							t.Errorf("%s, epoch %d, offset %d: %v, %v", seg.Key(), e.Epoch, offset, a, b)
						}
					}
				}
			}
		}
	})
}

// epochEnd is the last offset, inclusive, of the i-th leader epoch inside the segment.
func epochEnd(s *Segment, i int) int64 {
	if i+1 < len(s.LeaderEpochs) {
		return s.LeaderEpochs[i+1].StartOffset - 1
	}
	return s.EndOffset
}

const part0 = "__remote_log_metadata-0"

func file(base int64) string { return filepath.Join(part0, format.SegmentFileName(base, ".log")) }

// TestDirDamage: what is wrong is named with its path and offset, and the rest is read.
func TestDirDamage(t *testing.T) {
	good := kafkabytes.MetadataLog(t, copied(1, 0, 9)...)
	later := kafkabytes.MetadataLogAt(t, 2, copied(2, 10, 19)...)
	flipped := kafkabytes.MetadataLog(t, copied(1, 0, 9)...)
	flipped[len(flipped)-3] ^= 1
	huge := append(slices.Clone(good), good[:61]...)
	copy(huge[len(good)+8:], []byte{0x7f, 0xff, 0xff, 0xff})
	illegal := []any{announce(1, 0, 9), move(1, format.DeleteSegmentFinished), move(1, format.CopySegmentFinished)}
	for _, tt := range []struct {
		name   string
		files  map[string][]byte
		listed string
		words  []string // of the one problem; none: there is none
	}{
		{"two segments", map[string][]byte{file(0): good, file(2): later}, "[1 2]", nil},
		{"no records", map[string][]byte{file(0): nil}, "", nil},
		{"preallocated zeros", map[string][]byte{file(0): append(slices.Clone(good), make([]byte, 4096)...)}, "[1]", nil},
		{"a torn batch at the end", map[string][]byte{file(0): append(slices.Clone(good), later[:100]...), file(2): later}, "[1 2]",
			[]string{file(0), fmt.Sprintf("byte %d", len(good)), "torn"}},
		{"a torn header at the end", map[string][]byte{file(0): append(slices.Clone(good), later[:20]...), file(2): later}, "[1 2]",
			[]string{file(0), "torn"}},
		{"a flipped bit", map[string][]byte{file(0): flipped}, "[1]", []string{file(0), "CRC"}},
		{"an absurd size", map[string][]byte{file(0): huge, file(2): later}, "[1 2]", []string{file(0), "2147483659 bytes"}},
		{"no batch at all", map[string][]byte{file(0): []byte(strings.Repeat("not Kafka's ", 20))}, "", []string{file(0), "byte 0"}},
		{"an unknown record", map[string][]byte{file(0): kafkabytes.MetadataLog(t, append([]any{[]byte{1, 77, 0, 1, 2}}, copied(1, 0, 9)...)...)}, "[1]",
			[]string{file(0), "offset 0", "api key 77"}},
		{"an empty record", map[string][]byte{file(0): kafkabytes.MetadataLog(t, append([]any{[]byte(nil)}, copied(1, 0, 9)...)...)}, "[1]",
			[]string{file(0), "offset 0"}},
		{"an illegal transition", map[string][]byte{file(0): kafkabytes.MetadataLog(t, illegal...)}, "[1]",
			[]string{file(0), "offset 1", "illegal transition", "DELETE_SEGMENT_FINISHED"}},
		{"other files", map[string][]byte{file(0): good, filepath.Join(part0, "notes.log"): []byte("x"),
			filepath.Join(part0, format.SegmentFileName(5, ".log.deleted")): later, "other-0/00000000000000000000.log": later}, "[1]", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a[b]c*")
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				kafkabytes.WriteFile(t, filepath.Join(dir, name), tt.files[name])
			}
			s, r, err := load(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if p, ok := s.Partition(tp); ok {
				got = listed(p)
			}
			want(t, "segments", got, tt.listed)
			checkProblems(t, r, tt.words)
		})
	}
}

func checkProblems(t *testing.T, r *Report, words []string) {
	t.Helper()
	if len(words) == 0 {
		if len(r.Problems) > 0 {
			t.Errorf("problems: %v", r.Problems)
		}
		return
	}
	if len(r.Problems) != 1 {
		t.Fatalf("%d problems, want one: %v", len(r.Problems), r.Problems)
	}
	for _, w := range words {
		if text := r.Problems[0].String(); !strings.Contains(text, w) {
			t.Errorf("problem %q does not say %q", text, w)
		}
	}
}

func TestDirNothing(t *testing.T) {
	empty := t.TempDir()
	for dir, words := range map[string]string{
		filepath.Join(empty, "missing"): "missing",
		empty:                           "__remote_log_metadata-N",
	} {
		_, _, err := load(context.Background(), dir)
		if abi.KindOf(err) != abi.NotFound || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	f := filepath.Join(empty, "file")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := load(context.Background(), f); abi.KindOf(err) != abi.NotFound {
		t.Errorf("a file: %v", err)
	}
}

func TestDirCancelled(t *testing.T) {
	dir := t.TempDir()
	kafkabytes.WriteMetadata(t, dir, copied(1, 0, 9)...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := load(ctx, dir); abi.KindOf(err) != abi.Cancelled {
		t.Errorf("a cancelled load: %v", err)
	}
}

// TestProblemsAreBounded: a file full of nonsense does not fill the memory with what was wrong in it.
func TestProblemsAreBounded(t *testing.T) {
	dir := t.TempDir()
	var nonsense []any
	for range maxProblems + 50 {
		nonsense = append(nonsense, []byte{9})
	}
	kafkabytes.WriteMetadata(t, dir, nonsense...)
	_, r, err := load(context.Background(), dir)
	if err != nil || len(r.Problems) != maxProblems || r.Records != maxProblems+50 || r.Applied != 0 {
		t.Errorf("%d problems of %d records, %v", len(r.Problems), r.Records, err)
	}
}

// TestDirOddFiles: what is no file of a log where one should be is named, and the rest is read. Opening a pipe would wait for a
// writer.
func TestDirOddFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		put  func(path string) error
		what string
	}{
		"a pipe":          {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "not a regular file"},
		"a directory":     {func(path string) error { return os.Mkdir(path, 0o700) }, "a directory"},
		"a dangling link": {func(path string) error { return os.Symlink("nowhere", path) }, "a link to a file that is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			kafkabytes.WriteMetadata(t, dir, copied(1, 0, 9)...)
			path := filepath.Join(dir, file(2))
			if err := tt.put(path); err != nil {
				t.Fatal(err)
			}
			s, r, err := load(context.Background(), dir)
			if err != nil {
				t.Fatal(err)
			}
			p, _ := s.Partition(tp)
			want(t, "segments", listed(p), "[1]")
			checkProblems(t, r, []string{path, tt.what})
		})
	}
}

// TestIncarnations: two topics of one name are two partitions.
func TestIncarnations(t *testing.T) {
	dir := t.TempDir()
	old, renewed := tp, tp
	renewed.TopicID = kafkabytes.ID(201)
	a, b := announce(1, 0, 9), announce(2, 0, 4)
	b.TopicIDPartition = renewed
	done := move(2, format.CopySegmentFinished)
	done.TopicIDPartition = renewed
	kafkabytes.WriteMetadata(t, dir, a, move(1, format.CopySegmentFinished), b, done)
	s, _, err := load(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if all := s.Partitions(); len(all) != 2 || all[0].ID != old || all[1].ID != renewed {
		t.Fatalf("partitions: %v", all)
	}
	p, _ := s.Partition(renewed)
	want(t, "the new one", at(p, p.Lookup, 0, 4, 5), "[4:2 5:-]")
}
