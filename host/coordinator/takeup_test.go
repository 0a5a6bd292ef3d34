package coordinator

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// others gives one source, unless it was taken up so far.
func others(source string, end int64, all ...Offset) Others {
	return func(taken func(string) int64, visit func(*Offsets) error) error {
		if taken(source) >= end {
			return nil
		}
		return visit(&Offsets{source, end, all})
	}
}

// openTaking is open with other coordinators' offsets.
func openTaking(t *testing.T, dir string, from Others) *opened {
	t.Helper()
	o := &opened{topics: &topics{now: []Topic{orders, payments}}, log: &buffer{}}
	var err error
	if o.Coordinator, err = Open(Options{Topics: o.topics, Dir: dir, Others: from, Log: slog.New(slog.NewTextHandler(o.log, nil))}); err != nil {
		t.Fatal(err)
	}
	return o
}

func committedOf(o *opened, group string, t Topic, partition int32) int64 {
	if is := o.offsets.find(group, t, partition); is != nil {
		return is.offset
	}
	return -1
}

// TestOffsetsOfAnotherClusterAreTakenUpOnce: a group goes on where it was, has no members, and what happens to it here is not
// undone by a restart; what the source has beyond that is taken up, but not in place of what a client committed here.
func TestOffsetsOfAnotherClusterAreTakenUpOnce(t *testing.T) {
	dir := t.TempDir()
	first := others("c/p-0", 10,
		Offset{"moves", "orders", abi.UUID{}, 0, 70, 3, "meta", 1000, false},
		Offset{"moves", "orders", orders.ID, 1, 71, -1, "", 1000, false},
		Offset{"other", "orders", abi.UUID{9}, 0, 72, -1, "", 1000, false}, // of an incarnation that is not served
		Offset{"other", "gone", abi.UUID{}, 0, 73, -1, "", 1000, false},
		Offset{"leaves", "payments", abi.UUID{}, 0, 74, -1, "", 1000, false},
		Offset{strings.Repeat("x", maxGroupName+1), "orders", abi.UUID{}, 0, 75, -1, "", 1000, false})
	o := openTaking(t, dir, first)
	if a, b, c := committedOf(o, "moves", orders, 0), committedOf(o, "moves", orders, 1), committedOf(o, "other", orders, 0); a != 70 || b != 71 || c != -1 {
		t.Errorf("%d %d %d", a, b, c)
	}
	for _, want := range []string{"taken up", "from=c/p-0", "groups=3", "offsets=5", "of_topics_not_served=2", "refused=1"} {
		if !strings.Contains(o.log.String(), want) {
			t.Errorf("the log says %s, want %s", o.log, want)
		}
	}
	s := o.Connect("192.0.2.7", Rights{})
	for _, g := range do[*kmsg.ListGroupsResponse](t, s, newest(kmsg.NewPtrListGroupsRequest())).Groups {
		if g.GroupState != "Empty" {
			t.Errorf("%+v", g)
		}
	}
	if code := mustCommit(t, s, commitOf("moves", orders, 0, 90)); code != 0 {
		t.Errorf("code %d", code)
	}
	del := newest(kmsg.NewPtrDeleteGroupsRequest())
	del.Groups = []string{"leaves"}
	if resp := do[*kmsg.DeleteGroupsResponse](t, s, del); resp.Groups[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	s.Close()
	if err := o.Close(); err != nil {
		t.Error(err)
	}

	o = openTaking(t, dir, first)
	if a, b := committedOf(o, "moves", orders, 0), committedOf(o, "leaves", payments, 0); a != 90 || b != -1 || strings.Contains(o.log.String(), "taken up") {
		t.Errorf("%d %d: %s", a, b, o.log)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}

	o = openTaking(t, dir, others("c/p-0", 20, Offset{"moves", "orders", abi.UUID{}, 0, 95, 3, "", 1 << 60, false}, Offset{"moves", "orders", orders.ID, 1, 81, -1, "", 2000, false}))
	if a, b := committedOf(o, "moves", orders, 0), committedOf(o, "moves", orders, 1); a != 90 || b != 81 || !strings.Contains(o.log.String(), "that_have_one_here=1") {
		t.Errorf("%d %d: %s", a, b, o.log)
	}
	kept, err := ReadKept(dir)
	if err != nil || kept.Damage != "" {
		t.Fatalf("%+v, %v", kept, err)
	}
	if diff := cmp.Diff(map[string]int64{"c/p-0": 20}, kept.Sources); diff != "" || len(kept.Each) != 4 {
		t.Errorf("%s: %+v", diff, kept.Each)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// TestMoreThanThereIsRoomFor: the groups for which there is room are taken up, and the log names the one that is not.
func TestMoreThanThereIsRoomFor(t *testing.T) {
	all := []Offset{{Group: "a", Topic: "orders", Offset: 1}}
	for p := range int32(maxGroupData / maxMetadata) {
		all = append(all, Offset{Group: "large", Topic: "orders", Partition: p, Metadata: strings.Repeat("m", maxMetadata)})
	}
	all = append(all, Offset{Group: "z", Topic: "orders", Offset: 2})
	o := openTaking(t, "", others("s", 1, all...))
	defer o.Close()
	if a, z, large := committedOf(o, "a", orders, 0), committedOf(o, "z", orders, 0), committedOf(o, "large", orders, 0); a != 1 || z != 2 || large != -1 {
		t.Errorf("%d %d %d", a, z, large)
	}
	if !strings.Contains(o.log.String(), "group=large") {
		t.Errorf("the log says %s", o.log)
	}
}

// TestNothingIsKept: where there is no directory nothing is read of it, and one that lost its file is an error.
func TestNothingIsKept(t *testing.T) {
	if kept, err := ReadKept(t.TempDir() + "/none"); err != nil || len(kept.Each) != 0 {
		t.Errorf("%+v, %v", kept, err)
	}
}
