package coordinator

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestListFilters: states and types are asked for in any case of letters, as Kafka's tools and its documentation write them
func TestListFilters(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("left", orders, 0, 1))
	joined(t, o.connect(t), "busy")
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, o.connect(t), beat("new", "m", 0))
	for _, c := range []struct {
		states, types []string
		version       int16
		want          string
	}{
		{nil, nil, 5, "busy left new"},
		{nil, []string{"Classic", "Consumer"}, 5, "busy left new"},
		{nil, []string{"Classic"}, 5, "busy left"},
		{nil, []string{"consumer"}, 5, "new"},
		{nil, []string{"share"}, 5, ""},
		{[]string{"Empty"}, nil, 5, "left"},
		{[]string{"empty"}, nil, 4, "left"},
		{[]string{"completingRebalance", "empty"}, []string{"CLASSIC"}, 5, "busy left"},
		{[]string{"Nonsense"}, nil, 5, ""},
	} {
		q := kmsg.NewPtrListGroupsRequest()
		q.Version, q.StatesFilter, q.TypesFilter = c.version, c.states, c.types
		var got []string
		for _, g := range do[*kmsg.ListGroupsResponse](t, s, q).Groups {
			got = append(got, g.Group)
		}
		slices.Sort(got)
		if names := strings.Join(got, " "); names != c.want {
			t.Errorf("states %v, types %v, version %d: %q, want %q", c.states, c.types, c.version, names, c.want)
		}
	}
}

// TestDescribedAssignor: which assignor is at work is told also where no member names one, as a broker does it.
func TestDescribedAssignor(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	for assignor, want := range map[string]string{"": "uniform", "range": "range"} {
		q := beat("g"+assignor, "m", 0, "orders")
		if assignor != "" {
			q.ServerAssignor = &assignor
		}
		if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q); resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		ask := newest(kmsg.NewPtrConsumerGroupDescribeRequest())
		ask.Groups = []string{"g" + assignor, "none"}
		got := do[*kmsg.ConsumerGroupDescribeResponse](t, s, ask).Groups
		if got[0].AssignorName != want || got[1].ErrorCode == 0 || got[1].AssignorName != "" {
			t.Errorf("%q: %+v", assignor, got)
		}
	}
}

// TestLargeAnswersAreNotKept: after a large answer a session's connection to kfake is closed, with the buffer that kfake keeps for it,
// and the next question opens another; a member stays.
func TestLargeAnswersAreNotKept(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	q := joinOf("g", "")
	q.Protocols[0].Metadata = make([]byte, 4*keptAnswer)
	in := do[*kmsg.JoinGroupResponse](t, s, q)
	q.MemberID = in.MemberID
	in = do[*kmsg.JoinGroupResponse](t, s, q)
	if in.ErrorCode != 0 || s.link.nc != nil {
		t.Errorf("code %d, connection %v", in.ErrorCode, s.link.nc)
	}
	beat := newest(kmsg.NewPtrHeartbeatRequest())
	beat.Group, beat.MemberID, beat.Generation = "g", in.MemberID, in.Generation
	if r := do[*kmsg.HeartbeatResponse](t, s, beat); r.ErrorCode != 0 || s.link.nc == nil {
		t.Errorf("code %d, connection %v", r.ErrorCode, s.link.nc)
	}
}
