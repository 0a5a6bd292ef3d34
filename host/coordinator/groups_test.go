package coordinator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestCommitsLast: what was acknowledged is there again, without a close, in each version that asks.
func TestCommitsLast(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	s := first.connect(t)
	for version := first.Serves()[int16(kmsg.OffsetCommit)].Min; version <= 10; version++ {
		q := commitOf("g", orders, int32(version%4), int64(100+version))
		q.Version = version
		if code := mustCommit(t, s, q); code != 0 {
			t.Errorf("version %d: code %d", version, code)
		}
	}
	again := open(t, dir).connect(t)
	for version := int16(0); version <= 10; version++ {
		q := fetchOf("g", orders, 2)
		q.Version = version
		if version < 8 {
			q.Group, q.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "orders", Partitions: []int32{2}}}
		}
		resp := do[*kmsg.OffsetFetchResponse](t, again, q)
		got := int64(-1)
		if version < 8 && len(resp.Topics) == 1 && resp.ErrorCode == 0 {
			got = resp.Topics[0].Partitions[0].Offset
		} else if len(resp.Groups) == 1 && resp.Groups[0].ErrorCode == 0 {
			got = resp.Groups[0].Topics[0].Partitions[0].Offset
		}
		if got != 110 {
			t.Errorf("version %d: %+v", version, resp)
		}
	}
	list := do[*kmsg.ListGroupsResponse](t, again, newest(kmsg.NewPtrListGroupsRequest()))
	if len(list.Groups) != 1 || list.Groups[0].Group != "g" || list.Groups[0].GroupState != "Empty" {
		t.Errorf("%+v", list)
	}
}

// TestFetchAll: without topics all is told that a group committed of what is served.
func TestFetchAll(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	for _, q := range []*kmsg.OffsetCommitRequest{commitOf("g", payments, 1, 1), commitOf("g", orders, 3, 2), commitOf("g", orders, 0, 3), commitOf("h", orders, 1, 4)} {
		mustCommit(t, s, q)
	}
	q := fetchOf("g", orders, 0)
	q.Groups[0].Topics = nil
	resp := do[*kmsg.OffsetFetchResponse](t, s, q)
	got := ""
	for _, topic := range resp.Groups[0].Topics {
		for _, p := range topic.Partitions {
			got += fmt.Sprintf("%s-%d=%d ", abi.UUID(topic.TopicID), p.Partition, p.Offset)
		}
	}
	if want := fmt.Sprintf("%s-0=3 %s-3=2 %s-1=1 ", orders.ID, orders.ID, payments.ID); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// refusals are commits that are not taken.
var refusals = map[string]struct {
	change func(*kmsg.OffsetCommitRequest)
	want   int16
}{
	"a topic's id that is not served":  {func(q *kmsg.OffsetCommitRequest) { q.Topics[0].TopicID = [16]byte{9} }, unknownTopicID},
	"a topic's name that is not there": {func(q *kmsg.OffsetCommitRequest) { q.Version, q.Topics[0].Topic = 9, "missing" }, unknownTopicOrPartition},
	"a partition that is not there":    {func(q *kmsg.OffsetCommitRequest) { q.Topics[0].Partitions[0].Partition = 4 }, unknownTopicOrPartition},
	"a generation of nobody":           {func(q *kmsg.OffsetCommitRequest) { q.Generation, q.MemberID = 3, "m" }, unknownMemberID},
	"metadata that is too long": {func(q *kmsg.OffsetCommitRequest) {
		q.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", maxMetadata+1))
	}, offsetMetadataTooLarge},
	"a name that is too long":  {func(q *kmsg.OffsetCommitRequest) { q.Group = strings.Repeat("x", maxGroupName+1) }, invalidGroupID},
	"a name that is no text":   {func(q *kmsg.OffsetCommitRequest) { q.Group = "\xff" }, invalidGroupID},
	"a member that is not one": {func(q *kmsg.OffsetCommitRequest) { q.Group = "taken" }, unknownMemberID},
}

func TestCommitRefused(t *testing.T) {
	o := open(t, t.TempDir())
	s := o.connect(t)
	joined(t, o.connect(t), "taken")
	for name, r := range refusals {
		q := commitOf("g", orders, 1, 5)
		r.change(q)
		if code := mustCommit(t, s, q); code != r.want {
			t.Errorf("%s: code %d, want %d", name, code, r.want)
		}
	}
	if n := o.offsets.count(); n != 0 {
		t.Errorf("%d offsets are kept", n)
	}
}

// TestUnknownGroup: a client that asks about a group that is not there is told so in a way after which it goes on.
func TestUnknownGroup(t *testing.T) {
	s := open(t, "").connect(t)
	if got := offsetOf(t, s, "nobody", orders, 0); got != -1 {
		t.Errorf("offset %d", got)
	}
	beat := newest(kmsg.NewPtrHeartbeatRequest())
	beat.Group, beat.MemberID, beat.Generation = "nobody", "m", 1
	if resp := do[*kmsg.HeartbeatResponse](t, s, beat); resp.ErrorCode != unknownMemberID {
		t.Errorf("%+v", resp)
	}
	sync := newest(kmsg.NewPtrSyncGroupRequest())
	sync.Group, sync.MemberID = "nobody", "m"
	if resp := do[*kmsg.SyncGroupResponse](t, s, sync); resp.ErrorCode != unknownMemberID {
		t.Errorf("%+v", resp)
	}
	leave := newest(kmsg.NewPtrLeaveGroupRequest())
	leave.Group, leave.Members = "nobody", []kmsg.LeaveGroupRequestMember{{MemberID: "m"}, {InstanceID: kmsg.StringPtr("i")}}
	resp := do[*kmsg.LeaveGroupResponse](t, s, leave)
	if resp.ErrorCode != 0 || len(resp.Members) != 2 || resp.Members[0].ErrorCode != unknownMemberID || *resp.Members[1].InstanceID != "i" || resp.Members[1].ErrorCode != unknownMemberID {
		t.Errorf("%+v", resp)
	}
	old := kmsg.NewPtrLeaveGroupRequest()
	old.Version, old.Group, old.MemberID = 2, "nobody", "m"
	if resp := do[*kmsg.LeaveGroupResponse](t, s, old); resp.ErrorCode != unknownMemberID {
		t.Errorf("%+v", resp)
	}
	del := newest(kmsg.NewPtrDeleteGroupsRequest())
	del.Groups = []string{"nobody"}
	if resp := do[*kmsg.DeleteGroupsResponse](t, s, del); resp.Groups[0].ErrorCode != groupIDNotFound {
		t.Errorf("%+v", resp)
	}
	if list := do[*kmsg.ListGroupsResponse](t, s, newest(kmsg.NewPtrListGroupsRequest())); len(list.Groups) != 0 {
		t.Errorf("%+v", list.Groups)
	}
}

// TestBeatsOfNobody: a heartbeat of KIP-848 that lets nobody in makes no group, and a member whose group is not there any more,
// as after a restart, is told to join again.
func TestBeatsOfNobody(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	owns, assigned, nameless := beat("owns", "m", epochJoins, "orders"), beat("assigned", "m", epochJoins, "orders"), beat("", "m", epochJoins, "orders")
	away, nobody := beat("is away", "m", epochAway), beat("is away, and nobody", "m", epochAway)
	away.InstanceID = kmsg.StringPtr("i")
	owns.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: orders.ID, Partitions: []int32{1}}}
	assigned.ServerAssignor = kmsg.StringPtr("own")
	for _, of := range []struct {
		q    *kmsg.ConsumerGroupHeartbeatRequest
		want int16
	}{
		{beat("stays", "m", 3, "orders"), unknownMemberID}, {beat("beats", "m", 3), unknownMemberID},
		{beat("goes", "m", epochGoes), unknownMemberID}, {away, unknownMemberID}, {nobody, invalidRequest},
		{owns, invalidRequest}, {assigned, unsupportedAssignor}, {nameless, invalidRequest},
	} {
		if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, of.q); resp.ErrorCode != of.want {
			t.Errorf("%q: code %d, want %d", of.q.Group, resp.ErrorCode, of.want)
		}
	}
	if list := do[*kmsg.ListGroupsResponse](t, s, newest(kmsg.NewPtrListGroupsRequest())); len(list.Groups) != 0 || len(o.groups) != 0 {
		t.Errorf("%+v; %d are counted", list.Groups, len(o.groups))
	}
}

// TestDrainEndsWaits: a member that waits for others is answered when the coordinator drains, or its client goes.
func TestDrainEndsWaits(t *testing.T) {
	o := open(t, "")
	joined(t, o.connect(t), "g") // who never comes back to the rebalance
	second := o.connect(t)
	resp := do[*kmsg.JoinGroupResponse](t, second, joinOf("g", ""))
	waiting := func(ctx context.Context, s *Session) chan kmsg.Response {
		done := make(chan kmsg.Response, 1)
		go func() { done <- s.Do(ctx, "waiter", joinOf("g", resp.MemberID)) }() // ends with ctx or Drain, both below
		hammer.Eventually(t, 10*time.Second, func() bool {
			q := newest(kmsg.NewPtrDescribeGroupsRequest())
			q.Groups = []string{"g"}
			return do[*kmsg.DescribeGroupsResponse](t, o.connect(t), q).Groups[0].State == "PreparingRebalance"
		})
		return done
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := waiting(ctx, second)
	cancel()
	if got := (<-done).(*kmsg.JoinGroupResponse); got.ErrorCode != coordinatorNotAvailable {
		t.Errorf("%+v", got)
	}
	done = waiting(context.Background(), second) // over a new connection inside
	o.Drain()
	if got := (<-done).(*kmsg.JoinGroupResponse); got.ErrorCode != coordinatorNotAvailable {
		t.Errorf("%+v", got)
	}
	if code := mustCommit(t, second, commitOf("other", orders, 0, 1)); code != 0 {
		t.Errorf("a commit while it drains: code %d", code)
	}
	if o.log.String() != "" {
		t.Errorf("the log says %s", o.log)
	}
}

// TestLostInside: when the connection to kfake is lost, that request is answered COORDINATOR_NOT_AVAILABLE, the log says so,
// and the next one is served.
func TestLostInside(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("g", orders, 0, 1))
	s.link.nc.Close()
	if code := mustCommit(t, s, commitOf("g", orders, 0, 2)); code != coordinatorNotAvailable {
		t.Errorf("code %d", code)
	}
	if !strings.Contains(o.log.String(), "gave no answer") {
		t.Errorf("the log says %s", o.log)
	}
	if code := mustCommit(t, s, commitOf("g", orders, 0, 3)); code != 0 {
		t.Errorf("code %d", code)
	}
}

// TestRefusesEverything: what can't be asked inside is refused with its code, in every version of everything that is served.
func TestRefusesEverything(t *testing.T) {
	o := open(t, "")
	for key, served := range o.Serves() {
		for version := served.Min; version <= served.Max; version++ {
			q := kmsg.RequestForKey(key)
			q.SetVersion(version)
			fillGroups(q)
			resp := Refuse(q, coordinatorNotAvailable, "it is away")
			if resp.GetVersion() != version {
				t.Errorf("%s version %d: version %d", kmsg.NameForKey(key), version, resp.GetVersion())
			}
			if !slices.Contains(codesOf(reflect.ValueOf(resp)), int64(coordinatorNotAvailable)) {
				t.Errorf("%s version %d says no code: %+v", kmsg.NameForKey(key), version, resp)
			}
		}
	}
	if len(o.Serves()) != len(keys) {
		t.Errorf("%d requests are served, want %d: %v", len(o.Serves()), len(keys), o.Serves())
	}
}

// fillGroups puts something into the lists of a request.
func fillGroups(q kmsg.Request) {
	switch q := q.(type) {
	case *kmsg.OffsetCommitRequest:
		version := q.Version
		*q = *commitOf("g", orders, 0, 1)
		q.Version = version
	case *kmsg.OffsetFetchRequest:
		version := q.Version
		*q = *fetchOf("g", orders, 0)
		q.Version = version
	case *kmsg.DescribeGroupsRequest:
		q.Groups = []string{"g"}
	case *kmsg.DeleteGroupsRequest:
		q.Groups = []string{"g"}
	case *kmsg.ConsumerGroupDescribeRequest:
		q.Groups = []string{"g"}
	}
}

// codesOf gives every ErrorCode in a message.
func codesOf(v reflect.Value) []int64 {
	var out []int64
	walk(v, func(name string, v reflect.Value) {
		if name == "ErrorCode" {
			out = append(out, v.Int())
		}
	})
	return out
}

// walk calls fn for every field of a message.
func walk(v reflect.Value, fn func(name string, v reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), fn)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), fn)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fn(v.Type().Field(i).Name, v.Field(i))
				walk(v.Field(i), fn)
			}
		}
	}
}

// onlyRealIDs fails the test for each id in an answer that is not one of a topic that is served, and counts those that are.
func onlyRealIDs(t *testing.T, resp kmsg.Response, real ...Topic) (n int) {
	t.Helper()
	walk(reflect.ValueOf(resp), func(name string, v reflect.Value) {
		id, ok := v.Interface().([16]byte)
		if !ok || id == [16]byte{} {
			return
		}
		if n++; !slices.ContainsFunc(real, func(is Topic) bool { return is.ID == id }) {
			t.Errorf("%T: %s %v is no real id", resp, name, abi.UUID(id))
		}
	})
	return n
}

// TestOnlyRealIDs: no answer has an id that kfake made up, whatever is asked; those with ids have the real ones.
func TestOnlyRealIDs(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", 0, "orders", "payments"))
	if n := onlyRealIDs(t, resp, orders, payments); n != 2 || resp.ErrorCode != 0 {
		t.Fatalf("%d ids in %+v", n, resp)
	}
	owned := beat("g", "m", resp.MemberEpoch, "orders", "payments")
	for _, a := range resp.Assignment.Topics {
		owned.Topics = append(owned.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: a.TopicID, Partitions: a.Partitions})
	}
	if again := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, owned); again.ErrorCode != 0 {
		t.Errorf("what it was given is not its own: %+v", again)
	}
	commit := commitOf("g", orders, 0, 7)
	commit.MemberID, commit.Generation = "m", resp.MemberEpoch
	if code := mustCommit(t, s, commit); code != 0 {
		t.Errorf("a commit of the member: code %d", code)
	}
	ids := map[int16]int{resp.Key(): 2}
	for key, served := range o.Serves() {
		for version := served.Min; version <= served.Max; version++ {
			q := kmsg.RequestForKey(key)
			q.SetVersion(version)
			fillGroups(q)
			switch q := q.(type) {
			case *kmsg.OffsetFetchRequest:
				q.Group, q.Groups[0].Topics = "g", nil
			case *kmsg.ConsumerGroupHeartbeatRequest:
				*q = *beat("g", fmt.Sprint("other", version), 0, "payments")
				q.Version = version
			case *kmsg.DeleteGroupsRequest:
				q.Groups[0] = "another"
			}
			ids[key] += onlyRealIDs(t, do[kmsg.Response](t, s, q), orders, payments)
		}
	}
	for _, key := range []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe} {
		if ids[int16(key)] == 0 {
			t.Errorf("%s told no id: nothing was looked at", kmsg.NameForKey(int16(key)))
		}
	}
}

// assigned gives what a member is assigned, from one heartbeat to the next, until it is what is wanted.
func assigned(t *testing.T, s *Session, group, member string, want map[abi.UUID]int, subscribed ...string) {
	t.Helper()
	epoch, got := int32(0), map[abi.UUID]int{}
	owned := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	hammer.Eventually(t, 20*time.Second, func() bool {
		q := beat(group, member, epoch, subscribed...)
		q.Topics = owned
		resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, q)
		if resp.ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			clear(got)
			owned = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for _, a := range resp.Assignment.Topics {
				got[a.TopicID] = len(a.Partitions)
				owned = append(owned, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: a.TopicID, Partitions: a.Partitions})
			}
		}
		return reflect.DeepEqual(got, want)
	})
}

// TestFollowsTopics: what is assigned follows what is served: new topics, more partitions, a topic that is gone, and one that
// was made again, whose offsets are not those of the old one.
func TestFollowsTopics(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("g", payments, 1, 55))
	see := func(member string, want map[abi.UUID]int) {
		t.Helper()
		assigned(t, s, "follower-"+member, member, want, "orders", "payments", "new")
	}
	see("a", map[abi.UUID]int{orders.ID: 4, payments.ID: 2})
	more := Topic{"orders", orders.ID, 6}
	again := Topic{"payments", abi.UUID{2, 3}, 3}
	fresh := Topic{"new", abi.UUID{5}, 1}
	o.topics.serve(more, payments, fresh)
	see("b", map[abi.UUID]int{orders.ID: 6, payments.ID: 2, fresh.ID: 1})
	o.topics.serve(more, again)
	see("c", map[abi.UUID]int{orders.ID: 6, again.ID: 3})
	see("a", map[abi.UUID]int{orders.ID: 6, again.ID: 3})
	if code := mustCommit(t, s, commitOf("g", payments, 1, 56)); code != unknownTopicID {
		t.Errorf("a commit for the old topic: code %d", code)
	}
	if got := offsetOf(t, s, "g", again, 1); got != -1 {
		t.Errorf("the new topic has offset %d of the old one", got)
	}
	o.topics.serve(more)
	see("d", map[abi.UUID]int{orders.ID: 6})
	o.topics.serve(more, payments) // it was gone for one look alone
	see("e", map[abi.UUID]int{orders.ID: 6, payments.ID: 2})
	if got := offsetOf(t, s, "g", payments, 1); got != 55 {
		t.Errorf("offset %d, want 55", got)
	}
}

// TestTopicWithoutID: it can be committed for by name; a member of KIP-848 is not assigned it, and the log says why. Offsets
// from before the id was known stay its own.
func TestTopicWithoutID(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	o.topics.serve(orders, Topic{"local", abi.UUID{}, 1})
	assigned(t, s, "g", "m", map[abi.UUID]int{orders.ID: 4}, "orders", "local")
	hammer.Eventually(t, 20*time.Second, func() bool {
		q := commitOf("other", Topic{"local", abi.UUID{}, 1}, 0, 9)
		q.Version = 9
		return mustCommit(t, s, q) == 0
	})
	known := Topic{"local", abi.UUID{8}, 1}
	o.topics.serve(orders, known)
	assigned(t, s, "h", "m", map[abi.UUID]int{orders.ID: 4, known.ID: 1}, "orders", "local")
	if got := offsetOf(t, s, "other", known, 0); got != 9 {
		t.Errorf("offset %d, want 9", got)
	}
}

// TestTopicsThatCollide: kfake takes no two topics whose names differ in "." and "_" alone. The others are coordinated, and
// the log names the one that is not.
func TestTopicsThatCollide(t *testing.T) {
	o := open(t, "")
	o.topics.serve(orders, Topic{"a.b", abi.UUID{3}, 1}, Topic{"a_b", abi.UUID{4}, 1})
	hammer.Eventually(t, 20*time.Second, func() bool { return strings.Contains(o.log.String(), "a.b") })
	s := o.connect(t)
	if code := mustCommit(t, s, commitOf("g", Topic{"a_b", abi.UUID{4}, 1}, 0, 1)); code != 0 {
		t.Errorf("code %d", code)
	}
	if code := mustCommit(t, s, commitOf("g", Topic{"a.b", abi.UUID{3}, 1}, 0, 1)); code != unknownTopicID {
		t.Errorf("code %d", code)
	}
}

// TestProtocolsTakeTurns: a group moves from one protocol to the other while it has no member, with its offsets; a member of
// the other one is refused while it has.
func TestProtocolsTakeTurns(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("g", orders, 1, 11))
	in := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", 0, "orders"))
	if in.ErrorCode != 0 {
		t.Fatalf("%+v", in)
	}
	if resp := do[*kmsg.JoinGroupResponse](t, s, joinOf("g", "")); resp.ErrorCode != inconsistentGroupProtocol {
		t.Errorf("%+v", resp)
	}
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", -1))
	member := joined(t, s, "g")
	sync := newest(kmsg.NewPtrSyncGroupRequest())
	sync.Group, sync.MemberID, sync.Generation = "g", member.MemberID, member.Generation
	do[*kmsg.SyncGroupResponse](t, s, sync)
	q := commitOf("g", orders, 2, 12)
	q.MemberID, q.Generation = member.MemberID, member.Generation
	if code := mustCommit(t, s, q); code != 0 {
		t.Errorf("a commit: code %d", code)
	}
	if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("g", "m", 0, "orders")); resp.ErrorCode != groupIDNotFound {
		t.Errorf("%+v", resp)
	}
	leave := newest(kmsg.NewPtrLeaveGroupRequest())
	leave.Version, leave.Group, leave.Members = 5, "g", []kmsg.LeaveGroupRequestMember{{MemberID: member.MemberID}}
	do[*kmsg.LeaveGroupResponse](t, s, leave)
	if a, b := offsetOf(t, s, "g", orders, 1), offsetOf(t, s, "g", orders, 2); a != 11 || b != 12 {
		t.Errorf("offsets %d and %d, want 11 and 12", a, b)
	}
}

// TestProtocolTypesTakeTurns: a group whose members left is anybody's, also of members of another protocol type, with what was
// committed; while they are in it is theirs.
func TestProtocolTypesTakeTurns(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("g", orders, 0, 5))
	join := func(protocolType string) *kmsg.JoinGroupResponse {
		q := joinOf("g", "")
		q.Version, q.ProtocolType = 3, protocolType
		return do[*kmsg.JoinGroupResponse](t, s, q)
	}
	for _, protocolType := range []string{"connect", "consumer", "connect"} {
		is := join(protocolType)
		if is.ErrorCode != 0 {
			t.Fatalf("%s: code %d", protocolType, is.ErrorCode)
		}
		if code := join("other").ErrorCode; code != inconsistentGroupProtocol {
			t.Errorf("another while %s is in: code %d", protocolType, code)
		}
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: is.MemberID}}
		do[*kmsg.LeaveGroupResponse](t, s, leave)
	}
	if at := offsetOf(t, s, "g", orders, 0); at != 5 {
		t.Errorf("offset %d", at)
	}
}

// TestProtocolTypesComeAtOnce: members of one type that come at once to a group that another type left are all let in, whoever of them
// finds it left.
func TestProtocolTypesComeAtOnce(t *testing.T) {
	o := open(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 60 {
		join := func(s *Session, protocolType string) *kmsg.JoinGroupResponse {
			q := joinOf(fmt.Sprint("g", n), "")
			q.Version, q.ProtocolType, q.RebalanceTimeoutMillis = 3, protocolType, 200
			return s.Do(ctx, "c", q).(*kmsg.JoinGroupResponse)
		}
		s := o.connect(t)
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = fmt.Sprint("g", n), []kmsg.LeaveGroupRequestMember{{MemberID: join(s, "consumer").MemberID}}
		do[*kmsg.LeaveGroupResponse](t, s, leave)
		for range 4 {
			s := o.connect(t)
			wg.Go(func() {
				if code := join(s, "connect").ErrorCode; code == inconsistentGroupProtocol {
					t.Errorf("group %d: code %d", n, code)
				}
			})
		}
	}
	wg.Wait()
}

// TestDeleted: groups and offsets that clients delete are gone, also after a restart; not those of a group with members.
func TestDeleted(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	s := o.connect(t)
	for _, group := range []string{"gone", "part", "busy"} {
		mustCommit(t, s, commitOf(group, orders, 0, 1))
		mustCommit(t, s, commitOf(group, orders, 1, 2))
	}
	joined(t, o.connect(t), "busy")
	del := newest(kmsg.NewPtrDeleteGroupsRequest())
	del.Groups = []string{"gone", "busy"}
	if resp := do[*kmsg.DeleteGroupsResponse](t, s, del); resp.Groups[0].ErrorCode != 0 || resp.Groups[1].ErrorCode != 68 { // NON_EMPTY_GROUP
		t.Errorf("%+v", resp)
	}
	offsets := newest(kmsg.NewPtrOffsetDeleteRequest())
	offsets.Group = "part"
	offsets.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
	if resp := s.Do(context.Background(), "", offsets).(*kmsg.OffsetDeleteResponse); resp.ErrorCode != 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	want := map[string]int64{"gone": -1, "part": -1, "busy": 1}
	for _, is := range []*opened{o, open(t, dir)} {
		for group, offset := range want {
			if got := offsetOf(t, is.connect(t), group, orders, 0); got != offset {
				t.Errorf("%s: offset %d, want %d", group, got, offset)
			}
		}
		if got := offsetOf(t, is.connect(t), "part", orders, 1); got != 2 {
			t.Errorf("offset %d, want 2", got)
		}
	}
}

// TestSweep: offsets of a group without members go after the retention, and the group with them; those of one with members
// stay, but for topics that are gone. A group that never committed ends at the second sweep.
func TestSweep(t *testing.T) {
	o := open(t, t.TempDir())
	s := o.connect(t)
	for _, group := range []string{"left", "busy"} {
		mustCommit(t, s, commitOf(group, orders, 0, 1))
		mustCommit(t, s, commitOf(group, payments, 0, 2))
	}
	joined(t, o.connect(t), "busy")
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("visitor", "m", epochJoins, "orders"))
	do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("visitor", "m", epochGoes))
	o.topics.serve(orders)
	hammer.Eventually(t, 10*time.Second, func() bool { _, ok := o.known.named("payments"); return !ok })
	start := time.Now()
	groups := func() string {
		var out []string
		for _, g := range do[*kmsg.ListGroupsResponse](t, s, newest(kmsg.NewPtrListGroupsRequest())).Groups {
			out = append(out, g.Group)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for _, step := range []struct {
		after   time.Duration
		groups  string
		offsets int
	}{{0, "busy left visitor", 4}, {sweepEvery, "busy left", 4}, {retention - time.Hour, "busy left", 4}, {retention + time.Hour, "busy", 1}} {
		if err := o.sweep(start.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if got := groups(); got != step.groups || o.offsets.count() != step.offsets {
			t.Errorf("after %v: groups %q with %d offsets, want %q with %d", step.after, got, o.offsets.count(), step.groups, step.offsets)
		}
	}
}

// TestSweepWithoutTopic: offsets of a topic that is not served for a while stay, however old they are: when nobody looked
// before it may be back with the next look.
func TestSweepWithoutTopic(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	mustCommit(t, s, commitOf("left", payments, 0, 2))
	serve := func(topics ...Topic) {
		o.topics.serve(topics...)
		hammer.Eventually(t, 10*time.Second, func() bool { _, ok := o.known.named("payments"); return ok == (len(topics) > 1) })
	}
	serve(orders)
	at := time.Now().Add(2 * retention)
	for i, step := range []struct {
		after   time.Duration
		served  []Topic
		offsets int
	}{{0, []Topic{orders}, 1}, {retention - time.Hour, []Topic{orders, payments}, 1}, {retention - time.Minute, []Topic{orders}, 1},
		{2*retention - time.Hour, []Topic{orders}, 1}, {2 * retention, []Topic{orders}, 0}} {
		serve(step.served...)
		if err := o.sweep(at.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if got := o.offsets.count(); got != step.offsets {
			t.Errorf("step %d: %d offsets, want %d", i, got, step.offsets)
		}
	}
}

// TestTooManyGroups: one more is refused, in words, and there is room again when one is deleted.
func TestTooManyGroups(t *testing.T) {
	o := open(t, "")
	s := o.connect(t)
	for i := range maxGroups {
		o.groups[fmt.Sprint("g", i)] = struct{}{}
	}
	if resp := do[*kmsg.ConsumerGroupHeartbeatResponse](t, s, beat("one more", "m", 0, "orders")); resp.ErrorCode != policyViolation || !strings.Contains(*resp.ErrorMessage, "10000 groups") {
		t.Errorf("%+v", resp)
	}
	if resp := do[*kmsg.JoinGroupResponse](t, s, joinOf("one more", "")); resp.ErrorCode != policyViolation {
		t.Errorf("%+v", resp)
	}
	if code := mustCommit(t, s, commitOf("one more", orders, 0, 1)); code != policyViolation {
		t.Errorf("code %d", code)
	}
	if code := mustCommit(t, s, commitOf("g7", orders, 0, 1)); code != 0 {
		t.Errorf("one that is there: code %d", code)
	}
	del := newest(kmsg.NewPtrDeleteGroupsRequest())
	del.Groups = []string{"g7"}
	do[*kmsg.DeleteGroupsResponse](t, s, del)
	if code := mustCommit(t, s, commitOf("one more", orders, 0, 1)); code != 0 {
		t.Errorf("code %d", code)
	}
}

// TestAnythingIsAnswered: requests with random contents, which know of each other's members, get answers of their version,
// from many clients at once, while hours pass and sessions end. kfake runs in this process: what made it panic would end the
// server.
func TestAnythingIsAnswered(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		var members pool
		var clients sync.WaitGroup
		for p := range 8 {
			clients.Go(func() {
				anything(t, o, &scrambler{rand.New(rand.NewPCG(seed, uint64(p))), &members}, 1000)
			})
		}
		clients.Wait()
	})
}

// anything asks n things.
func anything(t *testing.T, o *opened, sc *scrambler, n int) {
	s := o.Connect("192.0.2.7", Rights{})
	defer s.Close()
	for range n {
		q := sc.request(o.Serves())
		version := q.GetVersion()
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(sc.r.IntN(20_000))*time.Millisecond) // some wait for others
		resp := s.Do(ctx, "scrambled", q)
		cancel()
		if resp == nil || resp.GetVersion() != version {
			t.Errorf("%s version %d: %+v", kmsg.NameForKey(q.Key()), version, resp)
			continue
		}
		resp.AppendTo(nil)
		onlyRealIDs(t, resp, Topic{ID: abi.UUID{9, 9}}, orders, payments)
		sc.members.learn(resp)
		if sc.r.IntN(10) == 0 {
			time.Sleep(time.Duration(sc.r.IntN(10_000)) * time.Millisecond)
		}
	}
}

// pool is the members that were heard of, the last ones.
type pool struct {
	mu     sync.Mutex
	ids    []string
	epochs []int32
}

func (p *pool) learn(resp kmsg.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		p.ids, p.epochs = append(p.ids, r.MemberID), append(p.epochs, r.Generation)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		if r.MemberID != nil {
			p.ids, p.epochs = append(p.ids, *r.MemberID), append(p.epochs, r.MemberEpoch)
		}
	}
	p.ids, p.epochs = p.ids[max(0, len(p.ids)-10):], p.epochs[max(0, len(p.epochs)-10):]
}

func (p *pool) some(r *rand.Rand) (string, int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) == 0 || r.IntN(4) == 0 {
		return "", int32(r.IntN(4) - 2)
	}
	i := r.IntN(len(p.ids))
	return p.ids[i], p.epochs[i]
}

// scrambler makes requests.
type scrambler struct {
	r       *rand.Rand
	members *pool
}

// words are what scrambled strings are made of: few, so that requests meet.
var words = []string{"", "g", "h", "m", "orders", "payments", "consumer", "range", "uniform", "Empty", "[", "o.*", "\xff", strings.Repeat("x", 2000)}

// request makes a request. Most of them could be right.
func (s *scrambler) request(served map[int16]Range) kmsg.Request {
	key := int16(keys[s.r.IntN(len(keys))])
	if s.r.IntN(2) == 0 {
		key = int16([]kmsg.Key{kmsg.JoinGroup, kmsg.ConsumerGroupHeartbeat}[s.r.IntN(2)])
	}
	q := kmsg.RequestForKey(key)
	s.scramble(reflect.ValueOf(q).Elem())
	q.SetVersion(served[key].Min + int16(s.r.IntN(int(served[key].Max-served[key].Min)+1)))
	if s.r.IntN(4) == 0 {
		return q
	}
	s.mend(q)
	return q
}

// mend makes a request one of a member: classic ones are in c and both, those of KIP-848 in k and both.
func (s *scrambler) mend(q kmsg.Request) {
	id, epoch := s.members.some(s.r)
	classic, next := s.one("c", "c", "both"), s.one("k", "k", "both")
	instance := []*string{nil, nil, kmsg.StringPtr("i"), kmsg.StringPtr("j")}[s.r.IntN(4)]
	switch q := q.(type) {
	case *kmsg.JoinGroupRequest:
		q.Group, q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = classic, id, "consumer", 6000, 10
		q.InstanceID, q.Protocols = instance, nil
		for range 1 + s.r.IntN(3) {
			q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: s.one("range", "sticky", "own"), Metadata: []byte(s.one("", "a"))})
		}
	case *kmsg.SyncGroupRequest:
		q.Group, q.MemberID, q.Generation, q.Protocol, q.ProtocolType = classic, id, epoch, nil, nil
	case *kmsg.HeartbeatRequest:
		q.Group, q.MemberID, q.Generation = classic, id, epoch
	case *kmsg.LeaveGroupRequest:
		q.Group, q.MemberID, q.Members = classic, id, []kmsg.LeaveGroupRequestMember{{MemberID: id, InstanceID: instance}}
	case *kmsg.OffsetCommitRequest:
		q.Group, q.MemberID, q.Generation = s.one(classic, next), id, epoch
	case *kmsg.DescribeGroupsRequest:
		q.Groups = []string{classic, next}
	case *kmsg.ConsumerGroupDescribeRequest:
		q.Groups = []string{classic, next}
	case *kmsg.DeleteGroupsRequest:
		q.Groups = []string{s.one("both", "both", "c", "k")}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		q.Group, q.MemberID, q.MemberEpoch, q.InstanceID = next, id, epoch, instance
		q.ServerAssignor, q.SubscribedTopicRegex, q.RebalanceTimeoutMillis = nil, nil, 10
		q.SubscribedTopicNames = []string{"orders", "payments"}[s.r.IntN(2):]
		if s.r.IntN(3) == 0 {
			q.MemberEpoch, q.Topics = int32(s.r.IntN(3)-2), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			q.MemberID = s.one(id, "m", "n")
		}
	}
}

func (s *scrambler) one(of ...string) string { return of[s.r.IntN(len(of))] }

// scramble fills a value at random.
func (s *scrambler) scramble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[kmsg.Tags]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.scramble(v.Field(i))
			}
		}
	case reflect.Slice:
		if s.r.IntN(5) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), s.r.IntN(4), 4))
		}
		for i := range v.Len() {
			s.scramble(v.Index(i))
		}
	case reflect.Pointer:
		if s.r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			s.scramble(v.Elem())
		}
	case reflect.Array:
		if id, ok := v.Addr().Interface().(*[16]byte); ok {
			*id = [][16]byte{{}, orders.ID, payments.ID, {9, 9}}[s.r.IntN(4)]
		}
	case reflect.String:
		v.SetString(words[s.r.IntN(len(words))])
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{-2, -1, 0, 1, 2, 3, 6000, 100}[s.r.IntN(8)])
	case reflect.Uint8:
		v.SetUint(uint64(s.r.IntN(256)))
	case reflect.Bool:
		v.SetBool(s.r.IntN(2) == 0)
	}
}
