package kafkalocal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

func mustUUID(t *testing.T, s string) abi.UUID {
	t.Helper()
	u, err := abi.ParseUUID(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPaths(t *testing.T) {
	seg := &abi.SegmentMetadata{
		TopicIDPartition: abi.TopicIDPartition{Topic: "tombstone-tail", TopicID: mustUUID(t, "N9QUoluGR0COa0FwcWqlbQ")},
		SegmentID:        mustUUID(t, "adGCAPMeQoeyq59yI_POLg"),
		StartOffset:      102,
	}
	const stem = "tombstone-tail-0-N9QUoluGR0COa0FwcWqlbQ/00000000000000000102-adGCAPMeQoeyq59yI_POLg"
	if got, err := LogPath(seg); err != nil || got != stem+".log" {
		t.Errorf("LogPath = %q, %v", got, err)
	}
	for typ, suffix := range map[abi.IndexType]string{
		abi.OffsetIndex: ".index", abi.TimeIndex: ".timeindex", abi.ProducerSnapshot: ".snapshot",
		abi.TransactionIndex: ".txnindex", abi.LeaderEpochIndex: ".leader_epoch_checkpoint",
	} {
		if got, err := IndexPath(seg, typ); err != nil || got != stem+suffix {
			t.Errorf("IndexPath(%v) = %q, %v", typ, got, err)
		}
	}
	for _, typ := range []abi.IndexType{-1, 0, 6} {
		if _, err := IndexPath(seg, typ); !errors.Is(err, abi.Unsupported) {
			t.Errorf("IndexPath(%v) = %v, want UNSUPPORTED", typ, err)
		}
	}
	seg.StartOffset = -1
	if _, err := LogPath(seg); !errors.Is(err, abi.Invalid) {
		t.Errorf("negative start offset: %v, want INVALID", err)
	}
}

func TestDirRefuses(t *testing.T) {
	for _, c := range []struct {
		topic     string
		partition int32
		want      abi.Kind
	}{
		{"", 0, abi.Denied},
		{".", 0, abi.Denied},
		{"..", 0, abi.Denied},
		{"../etc", 0, abi.Denied},
		{"a/b", 0, abi.Denied},
		{"/", 0, abi.Denied},
		{"a\x00b", 0, abi.Denied},
		{strings.Repeat("a", 250), 0, abi.Denied},
		{"orders", -1, abi.Invalid},
	} {
		got, err := Dir(abi.TopicIDPartition{Topic: c.topic, Partition: c.partition})
		if got != "" || !errors.Is(err, c.want) {
			t.Errorf("Dir(%q, %d) = %q, %v, want %v", c.topic, c.partition, got, err, c.want)
		}
	}
}

func TestDirRoundTrip(t *testing.T) {
	ids := []abi.UUID{{}, mustUUID(t, "-SqBbJZ31QFSVZm9vH_APQ"), mustUUID(t, "_____________________w")}
	for _, topic := range []string{"a", "a-b", "a-0-b", "-", "a..b", "...", "tópico", strings.Repeat("x", 249)} {
		for _, partition := range []int32{0, 7, 2147483647} {
			for _, id := range ids {
				want := abi.TopicIDPartition{Topic: topic, TopicID: id, Partition: partition}
				name, err := Dir(want)
				if err != nil {
					t.Fatalf("Dir(%v): %v", want, err)
				}
				if got, err := ParseDir(name); err != nil || got != want {
					t.Errorf("ParseDir(%q) = %v, %v, want %v", name, got, err, want)
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const id = "N9QUoluGR0COa0FwcWqlbQ"
	for _, name := range []string{"", "-", id, "-" + id, "orders-" + id, "orders-x-" + id, "orders-007-" + id, "orders-+7-" + id,
		"orders--7x-" + id, "orders-2147483648-" + id, "orders-0-N9QUoluGR0COa0FwcWqlb!", "orders-0-N9QUoluGR0COa0FwcWqlbR"} {
		if p, err := ParseDir(name); !errors.Is(err, abi.Invalid) {
			t.Errorf("ParseDir(%q) = %v, %v, want INVALID", name, p, err)
		}
	}
	for _, name := range []string{"..-0-" + id, "-0-" + id} {
		if p, err := ParseDir(name); !errors.Is(err, abi.Denied) {
			t.Errorf("ParseDir(%q) = %v, %v, want DENIED", name, p, err)
		}
	}
	for _, name := range []string{"", ".log", id + ".log", "1-" + id + ".log", "00000000000000000102-" + id,
		"00000000000000000102-" + id + ".", "00000000000000000102-" + id + ".logs", "00000000000000000102-" + id + ".log.tmp",
		"0000000000000000+102-" + id + ".log", "-0000000000000000102-" + id + ".log", "99999999999999999999-" + id + ".log",
		"000000000000000000102-" + id + ".log"} {
		if f, err := ParseFile(name); !errors.Is(err, abi.Invalid) {
			t.Errorf("ParseFile(%q) = %v, %v, want INVALID", name, f, err)
		}
	}
}

// TestFixtures reads every name that six real brokers wrote, and writes it again.
func TestFixtures(t *testing.T) {
	roots, err := filepath.Glob(filepath.FromSlash("../../../testdata/kafka/*/remote/" + Folder))
	if err != nil || len(roots) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	seen := map[string]int{}
	for _, root := range roots {
		err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			dir, name := filepath.Split(path)
			p, err := ParseDir(strings.TrimSuffix(dir, "/"))
			if err != nil {
				return err
			}
			f, err := ParseFile(name)
			if err != nil {
				return err
			}
			seen[f.Suffix]++
			seg := &abi.SegmentMetadata{TopicIDPartition: p, SegmentID: f.SegmentID, StartOffset: f.Start}
			again, err := LogPath(seg)
			if typ, ok := f.Index(); ok {
				again, err = IndexPath(seg, typ)
			}
			if err != nil || again != path {
				t.Errorf("%q came back as %q, %v", path, again, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
	if len(seen) != 6 {
		t.Errorf("the fixtures have %v, want all six kinds of object", seen)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("tombstone-tail-0-N9QUoluGR0COa0FwcWqlbQ")
	f.Add("00000000000000000102-adGCAPMeQoeyq59yI_POLg.log")
	f.Add("..-0-N9QUoluGR0COa0FwcWqlbQ")
	f.Fuzz(func(t *testing.T, name string) {
		if p, err := ParseDir(name); err == nil {
			if again, err := Dir(p); err != nil || again != name {
				t.Errorf("%q came back as %q, %v", name, again, err)
			}
		}
		if o, err := ParseFile(name); err == nil && o.String() != name {
			t.Errorf("%q came back as %q", name, o)
		}
	})
}
