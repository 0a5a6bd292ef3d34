package rlmm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
)

// TestHolesOfALineage: what no lookup finds, and nothing else, is a hole.
func TestHolesOfALineage(t *testing.T) {
	for _, tt := range []struct {
		name     string
		events   []any
		lineage  epoch.Lineage
		from, to int64
		want     string
	}{
		{"none", all(copied(1, 0, 9), copied(2, 10, 19)), lineage(0, 0), 0, 20, ""},
		{"nothing is copied", nil, lineage(0, 0), 5, 20, "5-20"},
		{"in the middle", all(copied(1, 0, 9), copied(2, 20, 29)), lineage(0, 0), 0, 30, "10-20"},
		{"at both ends", all(copied(1, 5, 9)), lineage(0, 0), 0, 20, "0-5 10-20"},
		{"beside what is asked for", all(copied(1, 5, 9), copied(2, 30, 39)), lineage(0, 0), 6, 10, ""},
		{"behind a segment inside another", all(copied(1, 0, 30), copied(2, 5, 9), copied(3, 40, 49)), lineage(0, 0), 0, 50, "31-40"},
		{"a copy that has begun", all(copied(1, 0, 9), []any{announce(2, 10, 19)}, copied(3, 20, 29)), lineage(0, 0), 0, 30, "10-20"},
		{"a deletion that has begun", append(all(copied(1, 0, 9), copied(2, 10, 19)), move(1, format.DeleteSegmentStarted)), lineage(0, 0), 0, 20, "0-10"},
		{"a fenced leader's", all(copied(1, 0, 9), copied(2, 10, 19, 1, 10), copied(3, 20, 29, 2, 20)), lineage(0, 0, 2, 15), 0, 30, "10-20"},
		{"before the lineage begins", all(copied(1, 0, 9), copied(2, 10, 19)), lineage(0, 7), 0, 20, "0-7"},
		{"no lineage", all(copied(1, 0, 9)), lineage(), 0, 10, "0-10"},
		{"an epoch of several segments", all(copied(1, 0, 9, 0, 0, 1, 5), copied(2, 10, 19, 1, 10)), lineage(0, 0, 1, 5), 0, 20, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := partition(t, tt.events...)
			holes := p.Holes(tt.lineage, tt.from, tt.to)
			var got []string
			for _, h := range holes {
				got = append(got, fmt.Sprintf("%d-%d", h.From, h.To))
			}
			want(t, "holes", strings.Join(got, " "), tt.want)
			for offset := tt.from; offset < tt.to; offset++ {
				le, ok := tt.lineage.ForOffset(offset)
				if ok {
					_, ok = p.Lookup(le.Epoch, offset)
				}
				in := false
				for _, h := range holes {
					in = in || h.From <= offset && offset < h.To
				}
				if ok == in {
					t.Errorf("offset %d: found %v, in a hole %v", offset, ok, in)
				}
			}
		})
	}
}
