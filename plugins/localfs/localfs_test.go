package localfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/plugins/layout/kafkalocal"
)

const fixtures = "../../testdata/kafka/txn/remote"

var whole = bytesOf(0, abi.ToEnd)

func bytesOf(start, end int64) abi.Range { return abi.Range{Start: start, End: end} }

// open makes a Store over dir; settings come as "name", "value".
func open(t *testing.T, dir string, settings ...string) *Store {
	t.Helper()
	values := map[string]string{"root": dir}
	for i := 0; i < len(settings); i += 2 {
		values[settings[i]] = settings[i+1]
	}
	c, err := sdk.NewConfig(values, nil, map[string]string{"root": dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// segments finds every segment below dir/kafka-tiered-storage.
func segments(t *testing.T, dir string) []*abi.SegmentMetadata {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, kafkalocal.Folder, "*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no segments in %s: %v", dir, err)
	}
	var segs []*abi.SegmentMetadata
	for _, path := range logs {
		p, err := kafkalocal.ParseDir(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		f, err := kafkalocal.ParseFile(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		segs = append(segs, &abi.SegmentMetadata{TopicIDPartition: p, SegmentID: f.SegmentID, StartOffset: f.Start})
	}
	return segs
}

// read gives the bytes r of the object that src answers for.
func read(t *testing.T, s *Store, src *abi.Source, r abi.Range) []byte {
	t.Helper()
	defer src.Close()
	if src.Stream != nil {
		b, err := io.ReadAll(src.Stream)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f := src.Location.Parts[0].File
	if src.Location.Scope != abi.ScopeObject || len(src.Location.Parts) != 1 || f.Root != "root" || f.Offset != 0 || f.Length != src.OriginalSize {
		t.Fatalf("location %+v, file %+v", src.Location, f)
	}
	b := make([]byte, f.Length)
	if n, err := s.root.ReadAt(f.Path, b, 0); n != len(b) || err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("read %d of %d: %v", n, len(b), err)
	}
	if len(b) == 0 {
		return b
	}
	r, err := r.Clamp(int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return b[r.Start : r.End+1]
}

// TestFixtures reads every object of real brokers in both modes, from both places that root may name.
func TestFixtures(t *testing.T) {
	ctx := context.Background()
	for _, root := range []string{fixtures, filepath.Join(fixtures, kafkalocal.Folder)} {
		for _, mode := range []string{"location", "stream"} {
			s := open(t, root, "mode", mode, "layout", "kafkalocal")
			if err := s.Probe(ctx); err != nil {
				t.Errorf("%s: Probe: %v", root, err)
			}
			for _, seg := range segments(t, fixtures) {
				path, _ := kafkalocal.LogPath(seg)
				want, err := os.ReadFile(filepath.Join(fixtures, kafkalocal.Folder, path))
				if err != nil {
					t.Fatal(err)
				}
				size := int64(len(want))
				for _, r := range []abi.Range{whole, bytesOf(0, 0), bytesOf(1, size-1), bytesOf(size-1, size+5), bytesOf(size/2, size/2+9)} {
					src, err := s.FetchLogSegment(ctx, seg, r)
					if err != nil {
						t.Fatalf("%v %v: %v", seg.Key(), r, err)
					}
					if got := read(t, s, src, r); src.OriginalSize != size || !bytes.Equal(got, want[r.Start:min(r.End, size-1)+1]) {
						t.Errorf("%s, %v %v: %d bytes of %d are not the file's", mode, seg.Key(), r, len(got), src.OriginalSize)
					}
				}
				checkIndexes(t, s, seg)
			}
		}
	}
}

func checkIndexes(t *testing.T, s *Store, seg *abi.SegmentMetadata) {
	t.Helper()
	for _, typ := range abi.IndexTypes() {
		path, _ := kafkalocal.IndexPath(seg, typ)
		want, err := os.ReadFile(filepath.Join(fixtures, kafkalocal.Folder, path))
		src, fetchErr := s.FetchIndex(context.Background(), seg, typ)
		if errors.Is(err, os.ErrNotExist) && typ == abi.TransactionIndex {
			if !errors.Is(fetchErr, abi.NotFound) {
				t.Errorf("%v %v: %v, want NOT_FOUND", seg.Key(), typ, fetchErr)
			}
			continue
		}
		if err != nil || fetchErr != nil {
			t.Fatalf("%v %v: %v, %v", seg.Key(), typ, err, fetchErr)
		}
		if got := read(t, s, src, whole); !bytes.Equal(got, want) {
			t.Errorf("%v %v: %d bytes, want %d", seg.Key(), typ, len(got), len(want))
		}
	}
}

// tree makes a root with one segment of these suffixes, and gives the segment.
func tree(t *testing.T, size int, suffixes ...string) (string, *abi.SegmentMetadata) {
	t.Helper()
	root := t.TempDir()
	seg := &abi.SegmentMetadata{TopicIDPartition: abi.TopicIDPartition{Topic: "orders", TopicID: abi.UUID{1}, Partition: 3},
		SegmentID: abi.UUID{2}, StartOffset: 1201}
	log, err := kafkalocal.LogPath(seg)
	if err != nil {
		t.Fatal(err)
	}
	stem := filepath.Join(root, kafkalocal.Folder, strings.TrimSuffix(log, ".log"))
	if err := os.MkdirAll(filepath.Dir(stem), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range suffixes {
		if err := os.WriteFile(stem+suffix, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, seg
}

func TestRangesRefused(t *testing.T) {
	root, seg := tree(t, 10, ".log")
	for _, mode := range []string{"location", "stream"} {
		s := open(t, root, "mode", mode)
		for _, r := range []abi.Range{bytesOf(-1, 5), bytesOf(5, 4), bytesOf(10, 10), bytesOf(11, abi.ToEnd), bytesOf(0, -1)} {
			if _, err := s.FetchLogSegment(context.Background(), seg, r); !errors.Is(err, abi.Invalid) {
				t.Errorf("%s %v: %v, want INVALID", mode, r, err)
			}
		}
	}
}

// TestMissing is the table of ABI.md, section 3, for this layout.
func TestMissing(t *testing.T) {
	for _, typ := range abi.IndexTypes() {
		want := abi.Corrupt
		if typ == abi.TransactionIndex || typ == abi.LeaderEpochIndex {
			want = abi.NotFound
		}
		root, seg := tree(t, 1, ".log")
		if _, err := open(t, root).FetchIndex(context.Background(), seg, typ); !errors.Is(err, want) {
			t.Errorf("%v beside a log: %v, want %v", typ, err, want)
		}
		root, seg = tree(t, 1)
		if _, err := open(t, root).FetchIndex(context.Background(), seg, typ); !errors.Is(err, abi.NotFound) {
			t.Errorf("%v without a log: %v, want NOT_FOUND", typ, err)
		}
	}
	root, seg := tree(t, 1, ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint")
	s := open(t, root)
	if _, err := s.FetchLogSegment(context.Background(), seg, whole); !errors.Is(err, abi.NotFound) {
		t.Errorf("a segment without its log: %v, want NOT_FOUND", err)
	}
	if _, err := s.FetchIndex(context.Background(), seg, 9); !errors.Is(err, abi.Unsupported) {
		t.Errorf("index type 9: %v, want UNSUPPORTED", err)
	}
}

func TestEmptyIndexIsEmpty(t *testing.T) {
	root, seg := tree(t, 0, ".log", ".index")
	for _, mode := range []string{"location", "stream"} {
		s := open(t, root, "mode", mode)
		src, err := s.FetchIndex(context.Background(), seg, abi.OffsetIndex)
		if err != nil || src.OriginalSize != 0 {
			t.Fatalf("%s: %+v, %v", mode, src, err)
		}
		if got := read(t, s, src, whole); len(got) != 0 {
			t.Errorf("%s: %d bytes of an empty index", mode, len(got))
		}
	}
}

func TestNothingOutsideTheRoot(t *testing.T) {
	root, seg := tree(t, 1, ".log")
	log, _ := kafkalocal.LogPath(seg)
	file := filepath.Join(root, kafkalocal.Folder, log)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Remove(file), os.Symlink(secret, file)); err != nil {
		t.Fatal(err)
	}
	s := open(t, root, "mode", "stream")
	if src, err := s.FetchLogSegment(context.Background(), seg, whole); !errors.Is(err, abi.Denied) {
		t.Errorf("a link that leads out: %+v, %v, want DENIED", src, err)
	}
	seg.Topic = "../../orders"
	if src, err := s.FetchLogSegment(context.Background(), seg, whole); !errors.Is(err, abi.Denied) {
		t.Errorf("a topic that leads out: %+v, %v, want DENIED", src, err)
	}
}

func TestStreamOfFileThatShrank(t *testing.T) {
	root, seg := tree(t, 3*streamBuffer, ".log")
	log, _ := kafkalocal.LogPath(seg)
	src, err := open(t, root, "mode", "stream").FetchLogSegment(context.Background(), seg, whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, kafkalocal.Folder, log), streamBuffer+1); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(src.Stream); !errors.Is(err, abi.Corrupt) || len(b) != streamBuffer+1 {
		t.Errorf("%d bytes, %v, want CORRUPT after what is there", len(b), err)
	}
}

func TestStreamObeysCancel(t *testing.T) {
	root, seg := tree(t, 1, ".log")
	ctx, cancel := context.WithCancel(context.Background())
	src, err := open(t, root, "mode", "stream").FetchLogSegment(ctx, seg, whole)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(src.Stream); !errors.Is(err, abi.Cancelled) {
		t.Errorf("read after cancel: %v, want CANCELLED", err)
	}
}

func TestSettings(t *testing.T) {
	dirs := map[string]string{"root": t.TempDir()}
	for _, c := range []struct {
		values  map[string]string
		subject string
		kind    abi.Kind
		dirs    map[string]string
	}{
		{map[string]string{"root": "d", "layout": "aiven"}, "layout", abi.Invalid, dirs},
		{map[string]string{"root": "d", "mode": "fast"}, "mode", abi.Invalid, dirs},
		{map[string]string{}, "root", abi.Invalid, dirs},
		{map[string]string{"root": "d"}, "root", abi.Denied, nil},
	} {
		cfg, err := sdk.NewConfig(c.values, nil, c.dirs)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Plugin().New(context.Background(), cfg)
		var e *abi.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Subject != c.subject {
			t.Errorf("%v: %v, want %v about %q", c.values, err, c.kind, c.subject)
		}
		cfg.Close()
	}
}

func TestProbeRefusesAnotherDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "orders-3"), 0o700); err != nil { // a broker's log directory, not tiered storage
		t.Fatal(err)
	}
	err := open(t, dir).Probe(context.Background())
	if !errors.Is(err, abi.NotFound) || !strings.Contains(err.Error(), kafkalocal.Folder) {
		t.Errorf("Probe = %v, want NOT_FOUND that names what it looked for", err)
	}
}
