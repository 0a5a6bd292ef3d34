package locallog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// TestHoles takes segments of 0-29, 30-59, 60-89 away, whole or in part: what is left is read, what is missing is known with its
// offsets and a file, and a scan does not pass over it.
func TestHoles(t *testing.T) {
	size := len(kafkabytes.Batch{Base: 0, Last: 2, ProducerID: -1}.Bytes(t))
	file := func(base int64, ext string) string { return filepath.Join(name, format.SegmentFileName(base, ext)) }
	gone := func(base int64, exts ...string) (out []string) {
		for _, ext := range exts {
			out = append(out, file(base, ext))
		}
		return out
	}
	all := []string{".log", ".index", ".timeindex", ".txnindex"}
	for _, tt := range []struct {
		name        string
		damage      func(segs []*kafkabytes.Segment)
		gone        []string
		hw          string
		from, until int64
		finding     string
	}{
		{"nothing", nil, nil, "t 0 90", 0, 0, ""},
		{"the middle segment's log", nil, gone(30, ".log"), "t 0 90", 30, 60, "00000000000000000030.log: offsets are missing up to offset 59: it is not there, and 00000000000000000030.index is"},
		{"all of the middle segment", nil, gone(30, all...), "t 0 90", 30, 60, "00000000000000000000.log: offsets are missing up to offset 59: it ends with offset 29, and the next segment begins at 60"},
		{"the content of the middle segment", func(s []*kafkabytes.Segment) { s[1].Log = nil }, nil, "t 0 90", 30, 60, "30.log: offsets are missing up to offset 59: it is empty"},
		{"the content of the middle segment and its index", func(s []*kafkabytes.Segment) { s[1].Log, s[1].OffsetIndex = nil, nil }, nil, "t 0 90", 30, 60, "it is empty"},
		{"two batches at its end", func(s []*kafkabytes.Segment) { s[1].Log = s[1].Log[:8*size] }, nil, "t 0 90", 54, 60, "30.log: offsets are missing up to offset 59: it ends with offset 53"},
		{"a part of its last batch", func(s []*kafkabytes.Segment) { s[1].Log = s[1].Log[:10*size-1] }, nil, "t 0 90", 57, 60, "is cut at byte"},
		{"a part of a header", func(s []*kafkabytes.Segment) { s[1].Log = s[1].Log[:9*size+20] }, nil, "t 0 90", 57, 60, "is cut at byte"},
		{"the first segment's log", nil, gone(0, ".log"), "t 0 90", 0, 30, "00000000000000000000.log: offsets are missing up to offset 29: it is not there"},
		{"the last segment's log", nil, gone(60, ".log"), "t 0 90", 60, 90, "60.log: offsets are missing up to offset 89: it is not there"},
		{"all of the last segment", nil, gone(60, all...), "t 0 90", 60, 90, "30.log: offsets are missing up to offset 89: the log ends there, and its high watermark is 90"},
		{"the content of the last segment", func(s []*kafkabytes.Segment) { s[2].Log = nil }, nil, "t 0 90", 60, 90, "60.log: offsets are missing up to offset 89"},
		{"what lies above the high watermark", func(s []*kafkabytes.Segment) { s[2].Log = s[2].Log[:5*size] }, nil, "t 0 75", 0, 0, "60.index"},
		{"all segments", nil, slices.Concat(gone(0, ".log"), gone(30, ".log"), gone(60, ".log")), "t 0 90", 0, 90, "00000000000000000000.log: offsets are missing up to offset 89"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeThree(t, func(s []*kafkabytes.Segment) {
				if tt.damage != nil {
					tt.damage(s)
				}
			})
			kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, tt.hw)
			for _, f := range tt.gone {
				if err := os.Remove(filepath.Join(dir, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			l := find(t, openDir(t, dir), "t", 0)
			if text := findingText(l); (tt.finding == "") != (text == "") || !strings.Contains(text, tt.finding) {
				t.Errorf("findings %q", text)
			}
			holds(t, l, tt.from, tt.until)
			if l.Begin() != 0 || l.HighWatermark > l.LogEnd {
				t.Errorf("begin %d, high watermark %d, log end %d", l.Begin(), l.HighWatermark, l.LogEnd)
			}
		})
	}
}

// TestHoleOfCompactedPartition: what compaction may have taken is no hole, and what the segment's own index still knows is one.
func TestHoleOfCompactedPartition(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(s *kafkabytes.Segment)
		want   bool
	}{
		{"the content of a segment", func(s *kafkabytes.Segment) { s.Log = nil }, true},
		{"a part of it", func(s *kafkabytes.Segment) { s.Log = s.Log[:len(s.Log)/2] }, true},
		{"all batches and entries", func(s *kafkabytes.Segment) { s.Log, s.OffsetIndex = nil, nil }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeThree(t, func(s []*kafkabytes.Segment) { tt.damage(s[1]) })
			kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 90")
			kafkabytes.WriteCheckpoint(t, dir, compactionName, "t 0 60")
			_, got := find(t, openDir(t, dir), "t", 0).Hole(59)
			if got != tt.want {
				t.Errorf("a hole at offset 59: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestLastSegmentBeginsWithItsName: what is left out in front of the last segment's first batch is told, but where compaction was.
func TestLastSegmentBeginsWithItsName(t *testing.T) {
	later := kafkabytes.Batch{Base: 70, Last: 72, ProducerID: -1}.Bytes(t)
	for _, tt := range []struct {
		name, cleaned, want string
		damage              func(s *kafkabytes.Segment)
	}{
		{"as it was", "", "", func(*kafkabytes.Segment) {}},
		{"of another segment", "", "60.log: its first batch begins with offset 70, and its name says 60", func(s *kafkabytes.Segment) { s.Log, s.OffsetIndex, s.TimeIndex = later, nil, nil }},
		{"compacted", "t 0 90", "", func(s *kafkabytes.Segment) { s.Log, s.OffsetIndex, s.TimeIndex = later, nil, nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeThree(t, func(s []*kafkabytes.Segment) { tt.damage(s[2]) })
			kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 60")
			if tt.cleaned != "" {
				kafkabytes.WriteCheckpoint(t, dir, compactionName, tt.cleaned)
			}
			if text := findingText(find(t, openDir(t, dir), "t", 0)); tt.want == "" && strings.Contains(text, "its name says") || !strings.Contains(text, tt.want) {
				t.Errorf("findings %q, want %q", text, tt.want)
			}
		})
	}
}

// TestNoSegmentIsAFinding: a broker's partition has one at least, also an empty one.
func TestNoSegmentIsAFinding(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	if text := findingText(find(t, openDir(t, dir), "t", 0)); !strings.Contains(text, "it holds no segment") {
		t.Errorf("findings %q", text)
	}
}

// holds checks that a log has each offset below its high watermark but those of a hole.
func holds(t *testing.T, l *Log, from, until int64) {
	t.Helper()
	for offset := range l.HighWatermark {
		inside := offset >= from && offset < until
		if h, ok := l.Hole(offset); ok != inside || ok && (h.From != from || h.Until != until) {
			t.Errorf("hole of %d: %+v, %v", offset, h, ok)
		}
		if s, ok, err := l.Find(offset, l.LogEnd); !inside && (err != nil || !ok || s.First.BaseOffset != offset-offset%3) {
			t.Errorf("find %d: batch %d, %v, %v", offset, s.First.BaseOffset, ok, err)
		}
		err := l.Scan(offset, func(b *Batch) (bool, error) {
			if b.BaseOffset >= until && offset < until {
				t.Errorf("a scan from %d comes to %d", offset, b.BaseOffset)
			}
			return t.Failed(), nil
		})
		if errors.Is(err, ErrHole) != (offset < until) {
			t.Errorf("a scan from %d: %v", offset, err)
		}
		if t.Failed() {
			return
		}
	}
}

// TestCompactedOffsetsAreNoHole: where the cleaner was, or other offsets are left out inside of a segment, the end of a segment
// may lie below the next one.
func TestCompactedOffsetsAreNoHole(t *testing.T) {
	whole := kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 0, Last: 4}, kafkabytes.Batch{Base: 5, Last: 9})
	thin := kafkabytes.NewSegment(t, tp, 1, kafkabytes.Batch{Base: 0, Last: 4}, kafkabytes.Batch{Base: 7, Last: 9})
	next := kafkabytes.NewSegment(t, tp, 2, kafkabytes.Batch{Base: 20, Last: 24})
	for _, tt := range []struct {
		name    string
		first   *kafkabytes.Segment
		cleaner []string // lines of the cleaner's checkpoint; nil: there is none
		index   bool     // an index of a segment at 10 is there
		hole    bool
	}{
		{"nothing says so", whole, nil, false, true},
		{"the cleaner was at another partition", whole, []string{"t 1 20"}, false, true},
		{"the cleaner was there", whole, []string{"t 0 20"}, false, false},
		{"the cleaner was there, and an index has no segment", whole, []string{"t 0 20"}, true, true},
		{"offsets are left out inside of a segment", thin, nil, false, false},
		{"offsets are left out, and an index has no segment", thin, nil, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			kafkabytes.WriteLog(t, dir, tp, tt.first, next)
			kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 25")
			if tt.cleaner != nil {
				kafkabytes.WriteCheckpoint(t, dir, compactionName, tt.cleaner...)
			}
			if tt.index {
				kafkabytes.WriteFile(t, filepath.Join(dir, name, format.SegmentFileName(10, ".timeindex")), nil)
			}
			l := find(t, openDir(t, dir), "t", 0)
			if _, ok := l.Hole(15); ok != tt.hole {
				t.Errorf("a hole: %v; findings %q", ok, findingText(l))
			}
		})
	}
}

// TestLookAtHoles: a hole that a later segment makes, and one at the log's end that is filled.
func TestLookAtHoles(t *testing.T) {
	segs := threeSegments(t)
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp, segs[0])
	kafkabytes.WriteCheckpoint(t, dir, highWatermarkName, "t 0 60")
	d := looked(t, nil, dir)
	hole := func(offset int64, want bool) {
		t.Helper()
		d = looked(t, d, dir)
		if h, ok := find(t, d, "t", 0).Hole(offset); ok != want {
			t.Errorf("offset %d: %+v, %v", offset, h, ok)
		}
	}
	hole(30, true)
	kafkabytes.WriteLog(t, dir, tp, segs[:2]...)
	hole(30, false)
	if err := os.Remove(filepath.Join(dir, name, format.SegmentFileName(30, ".log"))); err != nil {
		t.Fatal(err)
	}
	kafkabytes.WriteLog(t, dir, tp, segs[0], segs[2])
	hole(30, true)
	hole(60, false)
	kafkabytes.WriteLog(t, dir, tp, segs...)
	hole(30, false)
}
