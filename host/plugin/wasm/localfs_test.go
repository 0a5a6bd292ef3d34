package wasm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/grant"
)

var buildLocalfs = sync.OnceValues(func() (string, error) {
	return buildModule("../../../plugins/localfs/rsm-localfs", "rsm-localfs.wasm")
})

// remote is what a broker tiered, and in it a segment with its files.
const (
	remote      = "../../../testdata/kafka/basic/remote"
	segmentFile = remote + "/kafka-tiered-storage/telemetry-1-bAvKopIMRpqydQzBQbANJw/00000000000000000131-latZl5bAQ5yzdDPeXa5OqA"
)

func realSegment(t testing.TB) *abi.SegmentMetadata {
	t.Helper()
	seg := &abi.SegmentMetadata{TopicIDPartition: abi.TopicIDPartition{Topic: "telemetry", Partition: 1}, StartOffset: 131}
	var err, err2 error
	seg.TopicID, err = abi.ParseUUID("bAvKopIMRpqydQzBQbANJw")
	seg.SegmentID, err2 = abi.ParseUUID("latZl5bAQ5yzdDPeXa5OqA")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return seg
}

// localfs loads the localfs plugin as a module, over the broker's files.
func localfs(t testing.TB, mode string) (*Plugin, *grant.Roots) {
	t.Helper()
	path, err := buildLocalfs()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := grant.OpenRoots(map[string]string{"root": remote})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { roots.Close() })
	p := loadGuest(t, Options{Path: path})
	if err := p.Configure(t.Context(), map[string]string{"root": remote, "mode": mode}, nil, roots); err != nil {
		t.Fatal(err)
	}
	return p, roots
}

// bytesOf moves a Source of localfs: a stream, or a part of a file.
func bytesOf(t testing.TB, src *abi.Source, roots *grant.Roots, r abi.Range) []byte {
	t.Helper()
	defer src.Close()
	if src.Stream != nil {
		b, err := io.ReadAll(src.Stream)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	part := src.Location.Parts[0].File
	f, _, err := roots.Open(part.Root, part.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err = r.Clamp(src.OriginalSize)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, r.Len())
	if _, err := f.ReadAt(b, part.Offset+r.Start); err != nil {
		t.Fatal(err)
	}
	return b
}

// The plugin that people use, in both of its modes, gives the bytes that the broker wrote.
func TestLocalfsAsAModule(t *testing.T) {
	log, err := os.ReadFile(filepath.FromSlash(segmentFile + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"location", "stream"} {
		p, roots := localfs(t, mode)
		if err := p.Probe(t.Context()); err != nil {
			t.Errorf("%s: probe: %v", mode, err)
		}
		for _, r := range []abi.Range{{Start: 0, End: abi.ToEnd}, {Start: 7, End: 7}, {Start: 100, End: 4000}, {Start: int64(len(log)) - 1, End: abi.ToEnd}} {
			src, err := p.FetchLogSegment(t.Context(), realSegment(t), r)
			if err != nil {
				t.Fatalf("%s %v: %v", mode, r, err)
			}
			end := min(r.End, int64(len(log))-1)
			if got := bytesOf(t, src, roots, r); src.OriginalSize != int64(len(log)) || !bytes.Equal(got, log[r.Start:end+1]) {
				t.Errorf("%s %v: %d bytes of %d", mode, r, len(got), src.OriginalSize)
			}
		}
		for typ, suffix := range map[abi.IndexType]string{abi.OffsetIndex: ".index", abi.TimeIndex: ".timeindex", abi.LeaderEpochIndex: ".leader_epoch_checkpoint"} {
			want, err := os.ReadFile(filepath.FromSlash(segmentFile + suffix))
			if err != nil {
				t.Fatal(err)
			}
			src, err := p.FetchIndex(t.Context(), realSegment(t), typ)
			if err != nil {
				t.Fatalf("%s %v: %v", mode, typ, err)
			}
			if got := bytesOf(t, src, roots, abi.Range{End: abi.ToEnd}); !bytes.Equal(got, want) {
				t.Errorf("%s %v: %d bytes, want %d", mode, typ, len(got), len(want))
			}
		}
		if _, err := p.FetchIndex(t.Context(), realSegment(t), abi.TransactionIndex); !errors.Is(err, abi.NotFound) {
			t.Errorf("%s: an index that never was: %v", mode, err)
		}
		if _, err := p.FetchLogSegment(t.Context(), realSegment(t), abi.Range{Start: int64(len(log)), End: abi.ToEnd}); !errors.Is(err, abi.Invalid) {
			t.Errorf("%s: a start past the end: %v", mode, err)
		}
		if _, err := p.FetchLogSegment(t.Context(), segment("x"), abi.Range{End: abi.ToEnd}); !errors.Is(err, abi.NotFound) {
			t.Errorf("%s: a segment that is not there: %v", mode, err)
		}
	}
}

func BenchmarkLocalfs(b *testing.B) {
	for _, mode := range []string{"location", "stream"} {
		b.Run(mode, func(b *testing.B) {
			p, _ := localfs(b, mode)
			seg := realSegment(b)
			b.ReportAllocs()
			for b.Loop() {
				src, err := p.FetchLogSegment(b.Context(), seg, abi.Range{Start: 0, End: abi.ToEnd})
				if err != nil {
					b.Fatal(err)
				}
				if src.Stream != nil {
					n, err := io.Copy(io.Discard, src.Stream)
					if err != nil {
						b.Fatal(err)
					}
					b.SetBytes(n)
				}
				src.Close()
			}
		})
	}
}
