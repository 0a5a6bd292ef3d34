package rlmm

import (
	"fmt"
	"testing"

	"github.com/rsmhost/rsmhost/host/epoch"
)

// TestWithinLineage is both tables of spec 10.1.
func TestWithinLineage(t *testing.T) {
	type row struct {
		epochs     []int64
		start, end int64
		want       bool
	}
	whole := []int64{0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 7, 70}
	for _, tt := range []struct {
		name   string
		cache  epoch.Lineage
		logEnd int64
		rows   []row
	}{
		{"lineage", lineage(whole...), 90, []row{
			{[]int64{1, 15, 2, 20, 3, 30}, 15, 35, true},
			{[]int64{1, 15}, 15, 19, true},
			{[]int64{0, 0}, 0, 5, true},
			{[]int64{7, 70}, 70, 75, true},
			{[]int64{1, 15, 2, 20}, 15, 29, true},
			{[]int64{1, 15, 2, 20}, 15, 35, false},
			{[]int64{5, 55, 6, 60, 7, 70}, 55, 85, false},
			{[]int64{1, 15, 2, 20, 4, 40}, 15, 45, false},
			{whole, 15, 90, false},
			{whole, 15, 95, false},
			{[]int64{1, 5, 2, 20}, 5, 25, false},
		}},
		{"overlap", lineage(7, 51, 9, 100), 210, []row{
			{[]int64{5, 14, 7, 15, 9, 100}, 14, 150, true},
			{[]int64{2, 5, 3, 6}, 2, 7, false},
			{[]int64{7, 15, 9, 100, 10, 200}, 15, 250, false},
			{[]int64{8, 75}, 75, 100, false},
			{[]int64{7, 15, 9, 101}, 15, 150, false},
			{[]int64{9, 99}, 99, 150, false},
		}},
		{"equal starts", lineage(0, 0, 1, 0, 2, 0, 3, 30, 4, 40, 5, 60, 6, 60, 7, 70, 8, 70), 100, []row{
			{[]int64{2, 0, 3, 30}, 0, 39, true},
			{[]int64{0, 0, 1, 0, 2, 0, 3, 30}, 0, 39, true},
			{[]int64{6, 60}, 60, 69, true},
			{[]int64{5, 60, 6, 60}, 60, 69, true},
			{[]int64{5, 60}, 60, 69, false},
		}},
		{"an empty lineage", lineage(), 100, []row{{[]int64{0, 0}, 0, 5, false}}},
	} {
		for _, r := range tt.rows {
			s := announce(1, r.start, r.end, r.epochs...)
			if got := WithinLineage(&s.SegmentMetadata, tt.cache, tt.logEnd); got != r.want {
				t.Errorf("%s: %v of %d-%d: %v, want %v", tt.name, r.epochs, r.start, r.end, got, r.want)
			}
		}
	}
}

// The tests O1 to O4 are those of RemoteLogManagerTest; O5, the log start at start-up, is the catalog's.

// TestShared: where a segment leaves the lineage, from an offset on where both have the same epoch.
func TestShared(t *testing.T) {
	log := lineage(0, 0, 2, 20, 4, 40)
	for _, tt := range []struct {
		name       string
		own        []int64
		start, end int64
		from, want int64
	}{
		{"of one epoch", []int64{0, 0}, 0, 9, 5, 10},
		{"up to where the next epoch begins", []int64{0, 0}, 0, 19, 5, 20},
		{"of several", []int64{0, 10, 2, 20, 4, 40}, 10, 59, 12, 60},
		{"the old epoch goes on", []int64{0, 0}, 0, 29, 5, 20},
		{"a later one goes on", []int64{0, 10, 2, 20}, 10, 49, 12, 40},
		{"an epoch that the log has not", []int64{0, 10, 1, 15}, 10, 29, 12, 15},
		{"the next epoch, too early", []int64{0, 10, 2, 15}, 10, 29, 12, 15},
		{"the next epoch, too late", []int64{0, 10, 2, 25}, 10, 29, 12, 20},
		{"an epoch that wrote nothing", []int64{0, 10, 1, 20, 2, 20}, 10, 29, 12, 30},
		{"the front is not asked about", []int64{1, 10, 2, 20}, 10, 29, 20, 30},
	} {
		s := announce(1, tt.start, tt.end, tt.own...)
		if got := Shared(&s.SegmentMetadata, log, tt.from); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func highest(t *testing.T, cache epoch.Lineage, events ...any) string {
	t.Helper()
	e, h := partition(t, events...).HighestInLineage(cache, 1000)
	return fmt.Sprintf("(%d, epoch %d)", h, e)
}

func TestO1HighestRemoteOffset(t *testing.T) {
	want(t, "highest", highest(t, lineage(0, 0, 1, 500), copied(1, 0, 200)...), "(200, epoch 0)")
}

func TestO2UncleanElection(t *testing.T) {
	want(t, "highest", highest(t, lineage(0, 0, 1, 150, 2, 300), copied(1, 0, 200)...), "(149, epoch 0)")
}

func TestO3NothingRemote(t *testing.T) {
	want(t, "highest", highest(t, lineage(0, 0, 1, 150)), "(-1, epoch -1)")
}

// TestO4LogStartOffset also says where we differ: a segment that can't be read is no begin.
func TestO4LogStartOffset(t *testing.T) {
	cache := lineage(0, 0, 1, 250, 2, 550)
	p := partition(t, all([]any{announce(3, 300, 499, 1, 300)}, copied(1, 500, 539, 1, 500), copied(2, 540, 700, 1, 540))...)
	if got, ok := p.LogStartInLineage(cache); got != 500 || !ok {
		t.Errorf("log start %d, %v, want 500", got, ok)
	}
	if got, ok := partition(t).LogStartInLineage(lineage(1, 250, 2, 550)); ok {
		t.Errorf("log start %d where nothing is remote: the local one counts", got)
	}
}
