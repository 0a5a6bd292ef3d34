package locallog

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// TestBatchCutOut: a batch that is missing in the middle of a segment is told where the offset index beside it has those behind it
// further on, whether the index reaches beyond the file or not; an index that is wrong by itself is only that.
func TestBatchCutOut(t *testing.T) {
	seg := func() *kafkabytes.Segment {
		var batches []kafkabytes.Batch
		for i := range int64(8) {
			batches = append(batches, kafkabytes.Batch{Base: 10 * i, Last: 10*i + 9, Size: 100})
		}
		return kafkabytes.NewSegment(t, tp, 1, batches...)
	}
	for name, tt := range map[string]struct {
		damage func(*kafkabytes.Segment)
		told   bool
	}{
		"nothing":               {func(*kafkabytes.Segment) {}, false},
		"in the middle":         {func(s *kafkabytes.Segment) { s.Log = slices.Delete(s.Log, 300, 400) }, true},
		"two in the middle":     {func(s *kafkabytes.Segment) { s.Log = slices.Delete(s.Log, 300, 500) }, true},
		"before the last":       {func(s *kafkabytes.Segment) { s.Log = slices.Delete(s.Log, 600, 700) }, true},
		"within the index":      {func(s *kafkabytes.Segment) { s.Log, s.OffsetIndex = slices.Delete(s.Log, 300, 400), s.OffsetIndex[:40] }, true},
		"an entry of the index": {func(s *kafkabytes.Segment) { s.OffsetIndex[31] += 50 }, false},
		"the last entry":        {func(s *kafkabytes.Segment) { s.OffsetIndex[len(s.OffsetIndex)-2] += 8 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), seg()
			tt.damage(s)
			kafkabytes.WriteLog(t, dir, tp, s)
			kafkabytes.WriteFile(t, filepath.Join(dir, ".kafka_cleanshutdown"), []byte(`{"version":0,"brokerEpoch":1}`))
			d := openDir(t, dir)
			var found []finding.Finding
			d.Report(func(f finding.Finding) { found = append(found, f) })
			l := find(t, d, "t", 0)
			for offset := int64(5); offset < 80; offset += 10 {
				_, _, err := l.Find(offset, l.LogEnd)
				ok(t, err)
			}
			found = append(found, l.Findings...)
			if told := slices.ContainsFunc(found, func(f finding.Finding) bool {
				return !f.Repaired && named([]finding.Finding{f}, "missing in its middle")
			}); told != tt.told {
				t.Errorf("told %v: %v", told, found)
			}
		})
	}
}
