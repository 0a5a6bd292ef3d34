package damage

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locality"
)

// verdict is what a look at damaged data gave.
type verdict struct {
	wrong []string // silent wrong answers, and errors that name nothing
	told  []string // errors and findings, for people
	// broken: one of wrong is a crash, or too much memory, which is wrong whatever was damaged.
	broken bool
}

func (v *verdict) brokef(format string, args ...any) {
	v.broken = true
	v.wrongf(format, args...)
}

func (v *verdict) wrongf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// offsetNamed is a text that names an offset.
var offsetNamed = regexp.MustCompile(`offsets? -?\d`)

// names reports whether a text tells a person where to look: the file or folder, the partition, or the offset.
func (d *scene) names(text string) bool {
	if offsetNamed.MatchString(text) {
		return true
	}
	for _, f := range d.damages {
		if strings.Contains(text, filepath.Base(f.path)) || strings.Contains(text, filepath.Base(filepath.Dir(f.path))) {
			return true
		}
	}
	for _, k := range d.truth.partitions {
		if strings.Contains(text, k.topic) { // with its number, or the topic as a whole
			return true
		}
	}
	return strings.Contains(text, d.dir)
}

// told takes in an error: it is an answer where it names something.
func (d *scene) told(v *verdict, where string, err error) {
	v.told = append(v.told, fmt.Sprintf("%s: %v", where, err))
	if !d.names(err.Error()) {
		v.wrongf("%s: the error names neither file, partition nor offset: %v", where, err)
	}
}

// unrepaired gives the findings because of which an answer may be incomplete.
func unrepaired(all []finding.Finding) []finding.Finding {
	var out []finding.Finding
	for _, f := range all {
		if !f.Repaired {
			out = append(out, f)
		}
	}
	return out
}

// concerning says whether there is such a finding about a partition.
func concerning(all []finding.Finding, p partition) bool {
	for _, f := range unrepaired(all) {
		if f.Concerns(p.topic, p.number) {
			return true
		}
	}
	return false
}

// compare holds what a consumer got against what is true. Where findings are known to concern the partition, or where it ended
// with an error, records may be missing; one that is not as it was written is excused by a finding alone, since who was given it
// has used it before the error came.
func (k *known) compare(v *verdict, where string, iso locality.Isolation, got whole, found bool) {
	want := k.records[iso]
	where = fmt.Sprintf("%s of %s, %s", where, k.partition, iso)
	if found {
		return
	}
	next := 0
	for _, r := range got.records {
		for next < len(want) && want[next].offset < r.offset {
			next++
		}
		if next == len(want) || want[next] != r {
			v.wrongf("%s: the record at offset %d is wrong, or not to be delivered, without a finding", where, r.offset)
			return
		}
		next++
	}
	if got.err == nil && len(got.records) < len(want) {
		v.wrongf("%s: %d of %d records, offsets %d to %d (%d to %d are right), first missing %d, without an error or a finding", where, len(got.records), len(want),
			got.start, got.end, firstOffset(want), k.end[iso], firstMissing(want, got.records))
	}
}

// holdsFrom reports whether there is a record at or above an offset: the end of a log may be compacted away.
func (k *known) holdsFrom(offset int64, iso locality.Isolation) bool {
	n := len(k.records[iso])
	return n > 0 && k.records[iso][n-1].offset >= offset
}

func firstOffset(all []record) int64 {
	if len(all) == 0 {
		return -1
	}
	return all[0].offset
}

func firstMissing(want, got []record) int64 {
	have := map[int64]bool{}
	for _, r := range got {
		have[r.offset] = true
	}
	for _, r := range want {
		if !have[r.offset] {
			return r.offset
		}
	}
	return -1
}

// compareFetch holds one fetch from an offset against what is true: its records are those that come next.
func (k *known) compareFetch(v *verdict, from int64, iso locality.Isolation, f got, found bool) {
	if found {
		return
	}
	where := fmt.Sprintf("fetch of %s at offset %d, %s", k.partition, from, iso)
	var want []record
	for _, r := range k.records[iso] {
		if r.offset >= from && (len(f.decoded) > 0 && r.offset <= f.decoded[len(f.decoded)-1].Offset || r.offset < f.next) {
			want = append(want, r)
		}
	}
	for i := range f.decoded {
		if i >= len(want) || newRecord(&f.decoded[i]) != want[i] {
			v.wrongf("%s: the record at offset %d is wrong, or not the next one, without a finding", where, f.decoded[i].Offset)
			return
		}
	}
	if f.err == nil && len(want) > len(f.decoded) {
		v.wrongf("%s: record %d is passed over, without a finding", where, want[len(f.decoded)].offset)
	}
	if f.err == nil && !f.late && f.next == from && k.holdsFrom(from, iso) {
		v.wrongf("%s: nothing, for ever", where)
	}
}
