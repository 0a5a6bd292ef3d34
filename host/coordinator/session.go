package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// Session is one connection of a client. The member that joins over it waits over it.
type Session struct {
	c      *Coordinator
	link   *link
	rights Rights
}

// Connect begins a session of a client at this host, which descriptions of members show, and with these rights. They decide
// what a member of KIP-848 is assigned, and nothing else: what a client may ask for at all is decided by who hands it over.
func (c *Coordinator) Connect(host string, rights Rights) *Session {
	return &Session{c, c.newLink("/" + host), rights}
}

// Close ends a session, and what still waits in it. Its member stays until its session timeout, as at a broker.
func (s *Session) Close() { s.link.close() }

// Do answers a request that Serves lists; req may be changed. It returns when the group is ready to answer, which of
// JoinGroup and SyncGroup may be as long as a rebalance, when the coordinator drains, or when ctx ends; an answer then says
// COORDINATOR_NOT_AVAILABLE, of the version that was asked in.
func (s *Session) Do(ctx context.Context, client string, req kmsg.Request) kmsg.Response {
	switch q := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return s.commit(ctx, client, q)
	case *kmsg.OffsetFetchRequest:
		return s.fetch(ctx, client, q)
	case *kmsg.OffsetDeleteRequest:
		return s.deleteOffsets(ctx, client, q)
	case *kmsg.DeleteGroupsRequest:
		return s.deleteGroups(ctx, client, q)
	case *kmsg.JoinGroupRequest:
		return s.join(ctx, client, q)
	case *kmsg.SyncGroupRequest:
		return s.sync(ctx, client, q)
	case *kmsg.HeartbeatRequest:
		s.c.members.touch(memberKey(q.Group, q.MemberID), s.c.now())
		s.c.members.touch(groupKey(q.Group), s.c.now())
		return unknownMember(s.forward(ctx, client, q))
	case *kmsg.LeaveGroupRequest:
		return s.leave(ctx, client, q)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return s.heartbeat(ctx, client, q)
	case *kmsg.ConsumerGroupDescribeRequest:
		return s.describe(ctx, client, q)
	case *kmsg.ListGroupsRequest:
		return s.list(ctx, client, q)
	}
	return s.forward(ctx, client, req)
}

// forward asks kfake, and refuses where it gives no answer.
func (s *Session) forward(ctx context.Context, client string, q kmsg.Request) kmsg.Response {
	resp, err := s.ask(ctx, client, q)
	if err != nil {
		return Refuse(q, coordinatorNotAvailable, err.Error())
	}
	return resp
}

// ask asks kfake. An error was logged, where it is one of this program's.
func (s *Session) ask(ctx context.Context, client string, q kmsg.Request) (kmsg.Response, error) {
	return s.heard(ctx, client, q)(s.link.ask(ctx, nil, client, q, nil))
}

// heard logs an error of this program's.
func (s *Session) heard(ctx context.Context, client string, q kmsg.Request) func(kmsg.Response, error) (kmsg.Response, error) {
	return func(resp kmsg.Response, err error) (kmsg.Response, error) {
		if err != nil && !errors.Is(err, errDrained) && ctx.Err() == nil {
			s.c.log.Error("the group coordinator gave no answer", "request", kmsg.NameForKey(q.Key()), "client", client, "error", err)
		}
		return resp, err
	}
}

// wait is forward for what waits for other members. It ends when the coordinator drains or the member is let go, and goes on
// without the client when that goes. stop is called when it is over.
func (s *Session) wait(ctx context.Context, client, key string, q kmsg.Request, stop func()) kmsg.Response {
	s.c.left.end(key)
	ctx, letGo := context.WithCancelCause(ctx)
	defer letGo(nil)
	defer s.c.waits.begin(key, letGo)()
	stays := false
	resp, err := s.heard(ctx, client, q)(s.link.ask(ctx, s.c.draining, client, q, func(nc net.Conn, answered <-chan error) bool {
		stays = !errors.Is(context.Cause(ctx), errLetGo) && s.c.left.stay(key, nc, answered, s.c.draining, stop)
		return stays
	}))
	if !stays {
		stop()
	}
	switch {
	case errors.Is(err, errLetGo):
		return Refuse(q, unknownMemberID, err.Error())
	case err != nil:
		return Refuse(q, coordinatorNotAvailable, err.Error())
	}
	return resp
}

// unknownMember says of a group that does not exist what Kafka says, and of one that lost its members: clients join again.
// GROUP_ID_NOT_FOUND, which kfake gives, ends them.
func unknownMember(resp kmsg.Response) kmsg.Response {
	code := new(int16)
	switch r := resp.(type) {
	case *kmsg.SyncGroupResponse:
		code = &r.ErrorCode
	case *kmsg.HeartbeatResponse:
		code = &r.ErrorCode
	}
	if *code == groupIDNotFound {
		*code = unknownMemberID
	}
	return resp
}

// join lets a member of the classic protocol in.
func (s *Session) join(ctx context.Context, client string, q *kmsg.JoinGroupRequest) kmsg.Response {
	if code, why := s.c.admit(q.Group); code != 0 {
		return Refuse(q, code, why)
	}
	if q.ProtocolType == "" || len(q.Protocols) == 0 {
		return Refuse(q, inconsistentGroupProtocol, "")
	}
	q.Protocols = eachOnce(q.Protocols)
	return s.joinClassic(ctx, client, q)
}

// joinMade joins a group that is one of the classic protocol.
func (s *Session) joinMade(ctx context.Context, client string, q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	key := memberKey(q.Group, q.MemberID)
	if q.MemberID == "" {
		key = s.newcomer() // who is given an id
	}
	if code, why := s.c.hold(q.Group, key, joins(client, q)); code != 0 {
		return Refuse(q, code, why).(*kmsg.JoinGroupResponse)
	}
	if q.MemberID == "" && q.InstanceID != nil {
		s.settle(ctx, client, q.Group, *q.InstanceID)
	}
	if generation, ok := s.c.members.generation(key); ok {
		defer s.c.keepIn(q.Group, q.MemberID, q.InstanceID, generation)()
	}
	resp := s.wait(ctx, client, key, q, func() {}).(*kmsg.JoinGroupResponse)
	switch {
	case resp.ErrorCode == 0, resp.ErrorCode == memberIDRequired:
		s.c.members.rename(key, memberKey(q.Group, resp.MemberID))
		if resp.ErrorCode == 0 {
			s.c.members.joined(memberKey(q.Group, resp.MemberID), resp.Generation, *cmp.Or(resp.Protocol, new(string)))
		}
	case resp.ErrorCode == unknownMemberID, q.MemberID == "" && resp.ErrorCode != coordinatorNotAvailable: // after which kfake may have it
		s.c.members.drop(key)
	}
	return resp
}

// newcomer is the ledger's key for a member that has no id yet. One that went before it got one stays under it.
func (s *Session) newcomer() string { return fmt.Sprintf("n%d", s.c.newcomers.Add(1)) }

// sync gives a member what its leader assigned.
func (s *Session) sync(ctx context.Context, client string, q *kmsg.SyncGroupRequest) kmsg.Response {
	key := memberKey(q.Group, q.MemberID)
	s.c.members.touch(key, s.c.now())
	waiting := func() {}
	if len(q.GroupAssignment) > 0 {
		if code, why := s.c.hold(q.Group, groupKey(q.Group), assigns(q)); code != 0 {
			return Refuse(q, code, why)
		}
		asked := assigns(q)
		asked.bytes *= 2 // the request here, and as kfake has it: a wait may go on when its connection is not there to be counted
		if code, why := s.c.hold(q.Group, waitKey(key), asked); code != 0 {
			return Refuse(q, code, why)
		}
		waiting = func() { s.c.members.drop(waitKey(key)) }
	}
	keepsIn := s.c.keepIn(q.Group, q.MemberID, q.InstanceID, q.Generation)
	return unknownMember(s.wait(ctx, client, key, q, func() { keepsIn(); waiting() }))
}

// leave lets members go.
func (s *Session) leave(ctx context.Context, client string, q *kmsg.LeaveGroupRequest) kmsg.Response {
	resp := s.leaveSettled(ctx, client, q)
	if resp.ErrorCode == groupIDNotFound {
		return nobodyLeft(q)
	}
	if q.Version < 3 && resp.ErrorCode == 0 {
		s.c.gone(memberKey(q.Group, q.MemberID))
	}
	for _, m := range resp.Members {
		if m.ErrorCode == 0 {
			s.c.gone(memberKey(q.Group, m.MemberID))
		}
	}
	return resp
}

// gone forgets a member that was let go.
func (c *Coordinator) gone(key string) {
	c.members.drop(key)
	c.waits.letGo(key)
	c.left.end(key)
}

// nobodyLeft is Kafka's answer to those that leave a group that does not exist: each is told that it is no member.
func nobodyLeft(q *kmsg.LeaveGroupRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.LeaveGroupResponse)
	if q.Version < 3 {
		resp.ErrorCode = unknownMemberID
	}
	for _, m := range q.Members {
		one := kmsg.NewLeaveGroupResponseMember()
		one.MemberID, one.InstanceID, one.ErrorCode = m.MemberID, m.InstanceID, unknownMemberID
		resp.Members = append(resp.Members, one)
	}
	return resp
}

// eachOnce leaves out what stands again: kfake counts how many members have a protocol, and panics where one counts twice.
func eachOnce(protocols []kmsg.JoinGroupRequestProtocol) []kmsg.JoinGroupRequestProtocol {
	seen := map[string]bool{}
	return slices.DeleteFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		again := seen[p.Name]
		seen[p.Name] = true
		return again
	})
}

// makeClassic turns a group that members of KIP-848 left back into one of the classic protocol, and one that members of
// another protocol type left into one of none, which kfake doesn't. Where they are still in, they stay alone: nobody can move
// such a group while it works.
func (s *Session) makeClassic(ctx context.Context, client, group, protocolType string) int16 {
	q := kmsg.NewPtrConsumerGroupDescribeRequest()
	q.Groups = []string{group}
	resp, err := s.ask(ctx, client, q)
	if err != nil {
		return coordinatorNotAvailable
	}
	is := resp.(*kmsg.ConsumerGroupDescribeResponse).Groups
	of848 := len(is) == 1 && is[0].ErrorCode == 0
	switch {
	case of848 && len(is[0].Members) > 0:
		return inconsistentGroupProtocol
	case !of848 && !s.leftBy(ctx, client, group, protocolType):
		return 0
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{group}
	if resp, err = s.ask(ctx, client, del); err != nil {
		return coordinatorNotAvailable
	}
	for _, g := range resp.(*kmsg.DeleteGroupsResponse).Groups {
		switch {
		case g.ErrorCode == nonEmptyGroup && !of848: // another was let in meanwhile, who may be of the same type: kfake looks
			return 0
		case g.ErrorCode != 0 && g.ErrorCode != groupIDNotFound:
			return inconsistentGroupProtocol // a member came back
		}
	}
	if err := s.c.revive(group); err != nil {
		return coordinatorNotAvailable
	}
	return 0
}

// leftBy reports a group that has no members, and had some of another protocol type.
func (s *Session) leftBy(ctx context.Context, client, group, protocolType string) bool {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = 5, []string{group}
	resp, err := s.ask(ctx, client, q)
	if err != nil {
		return false
	}
	is := resp.(*kmsg.DescribeGroupsResponse).Groups
	return len(is) == 1 && is[0].State == "Empty" && is[0].ProtocolType != "" && is[0].ProtocolType != protocolType
}

// heartbeat is KIP-848's, with the topic ids of either side.
func (s *Session) heartbeat(ctx context.Context, client string, q *kmsg.ConsumerGroupHeartbeatRequest) kmsg.Response {
	if code, why := s.mayBeat(ctx, client, q); code != 0 {
		return Refuse(q, code, why)
	}
	if code, why := s.c.admit(q.Group); code != 0 {
		return Refuse(q, code, why)
	}
	pattern := int64(0)
	if q.SubscribedTopicRegex != nil {
		var err error
		if pattern, err = checkRegex(*q.SubscribedTopicRegex); err != nil {
			return Refuse(q, invalidRegularExpression, err.Error())
		}
	}
	w, err := s.subscribe(q)
	if err != nil {
		return Refuse(q, invalidRegularExpression, err.Error())
	}
	known := s.c.members.has(memberKey(q.Group, q.MemberID))
	key, code, why := s.holdSubscription(client, q, pattern)
	if code != 0 {
		return Refuse(q, code, why)
	}
	q.SubscribedTopicRegex = nil // it is names now
	if q.Topics != nil {
		owned := make([]kmsg.ConsumerGroupHeartbeatRequestTopic, 0, len(q.Topics))
		for _, t := range q.Topics {
			if inner, ok := s.c.known.toInner(t.TopicID); ok {
				t.TopicID = inner
				owned = append(owned, t)
			}
		}
		q.Topics = owned
	}
	s.c.makeFull(q)
	do := func() *kmsg.ConsumerGroupHeartbeatResponse {
		return s.forward(ctx, client, q).(*kmsg.ConsumerGroupHeartbeatResponse)
	}
	var resp *kmsg.ConsumerGroupHeartbeatResponse
	if q.MemberEpoch > epochJoins {
		resp = do()
	} else {
		resp = s.turn(q, do)
	}
	if resp.ErrorCode == unknownMemberID || resp.ErrorCode != 0 && !known { // it is not in
		s.c.members.drop(key)
	}
	if resp.MemberID != nil {
		s.c.members.rename(key, memberKey(q.Group, *resp.MemberID))
	}
	if w != nil && resp.ErrorCode == 0 {
		s.c.members.wishes(memberKey(q.Group, *cmp.Or(resp.MemberID, &q.MemberID)), w)
	}
	if resp.Assignment == nil {
		return resp
	}
	given := make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, 0, len(resp.Assignment.Topics))
	for _, t := range resp.Assignment.Topics {
		is, ok := s.c.known.toReal(t.TopicID)
		if !ok || is.ID.IsZero() {
			s.c.log.Warn("a topic can't be assigned to a member of a KIP-848 group: no file tells its id", "group", q.Group, "topic", is.Name)
			continue
		}
		t.TopicID = is.ID
		given = append(given, t)
	}
	resp.Assignment.Topics = given
	return resp
}

// mayBeat refuses the heartbeats after which kfake has a group that nobody is in: it makes one before it looks at what a
// heartbeat says. Where there is no group Kafka says GROUP_ID_NOT_FOUND to its member, which ends the Java client. Here that may
// be one from before a restart, whose group would be there at a broker: it is told to join again.
func (s *Session) mayBeat(ctx context.Context, client string, q *kmsg.ConsumerGroupHeartbeatRequest) (code int16, why string) {
	switch {
	case q.Group == "":
		return invalidRequest, "a group has a name"
	case q.ServerAssignor != nil && *q.ServerAssignor != "uniform" && *q.ServerAssignor != "range":
		return unsupportedAssignor, "the assignors are uniform and range"
	case q.MemberEpoch == epochAway && q.InstanceID == nil:
		return invalidRequest, "only a static member may go and come back, and it says which it is"
	case q.MemberEpoch == epochJoins && (q.Topics == nil || len(q.Topics) > 0):
		return invalidRequest, "a member that joins owns no partitions, and says so"
	case q.MemberEpoch != epochJoins && !s.exists(ctx, client, q.Group):
		return unknownMemberID, "there is no such group"
	}
	return 0, ""
}

// exists reports a group that kfake has. A heartbeat of the classic protocol, of nobody, changes nothing. One that is deleted
// right after comes back with the heartbeat of KIP-848, empty, until a sweep ends it.
func (s *Session) exists(ctx context.Context, client, group string) bool {
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group = 3, group
	resp, err := s.ask(ctx, client, q)
	return err != nil || resp.(*kmsg.HeartbeatResponse).ErrorCode != groupIDNotFound
}

// makeFull makes a heartbeat by which a member wants something else one that kfake looks at: it does where everything is
// said again, and clients say what is new alone. Where the member doesn't say what it owns, it may own anything: then kfake
// takes nothing for given up, and an old epoch for an old one, as where nothing is said.
func (c *Coordinator) makeFull(q *kmsg.ConsumerGroupHeartbeatRequest) {
	if q.MemberEpoch <= 0 || q.SubscribedTopicNames == nil && q.SubscribedTopicRegex == nil {
		return
	}
	if q.RebalanceTimeoutMillis == -1 {
		q.RebalanceTimeoutMillis = 0 // which it knows since the member joined, and doesn't look at
	}
	if q.Topics == nil {
		q.Topics = c.known.everything()
	}
}

// holdSubscription holds what a member of KIP-848 says that it wants, as long as it is in, under the ledger's key that it gives.
func (s *Session) holdSubscription(client string, q *kmsg.ConsumerGroupHeartbeatRequest, pattern int64) (key string, code int16, why string) {
	key = memberKey(q.Group, q.MemberID)
	if q.MemberEpoch == 0 && q.MemberID == "" {
		key = s.newcomer() // version 0: it is given an id
	}
	switch {
	case q.MemberEpoch == -1:
		s.c.members.drop(key)
	case q.MemberEpoch == 0 || q.SubscribedTopicNames != nil || q.SubscribedTopicRegex != nil:
		code, why = s.c.hold(q.Group, key, s.c.members.beats(key, client, q, pattern))
	default:
		s.c.members.touch(key, s.c.now())
	}
	return key, code, why
}

// describe describes groups of KIP-848, with real topic ids, and with the assignor that is at work where members name none:
// Kafka's default.
func (s *Session) describe(ctx context.Context, client string, q *kmsg.ConsumerGroupDescribeRequest) kmsg.Response {
	resp := s.forward(ctx, client, q).(*kmsg.ConsumerGroupDescribeResponse)
	for i := range resp.Groups {
		if g := &resp.Groups[i]; g.ErrorCode == 0 && g.AssignorName == "" {
			g.AssignorName = "uniform"
		}
		for j := range resp.Groups[i].Members {
			m := &resp.Groups[i].Members[j]
			if w := s.c.members.wish(memberKey(resp.Groups[i].Group, m.MemberID)); w != nil {
				m.SubscribedTopics, m.SubscribedTopicRegex = append([]string{}, w.names...), nil
				if w.source != "" {
					m.SubscribedTopicRegex = &w.source
				}
			}
			for _, a := range []*kmsg.Assignment{&m.Assignment, &m.TargetAssignment} {
				for k := range a.TopicPartitions {
					t := &a.TopicPartitions[k]
					is, _ := s.c.known.toReal(t.TopicID)
					t.TopicID, t.Topic = is.ID, is.Name
				}
			}
		}
	}
	return resp
}

// admit lets a group be, or says why not.
func (c *Coordinator) admit(group string) (code int16, why string) {
	if len(group) > maxGroupName || !utf8.ValidString(group) {
		return invalidGroupID, fmt.Sprintf("a group id has at most %d bytes, and is UTF-8", maxGroupName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.groups[group]; ok {
		return 0, ""
	}
	if len(c.groups) >= maxGroups {
		why := abi.Errorf("join group", group, abi.Exhausted, "there are %d groups, and no more are kept: delete some", maxGroups)
		c.log.Warn("a group is refused", "error", why)
		return policyViolation, why.Error()
	}
	c.groups[group] = struct{}{}
	return 0, ""
}

// forget lets other groups come in the place of these.
func (c *Coordinator) forget(groups ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range groups {
		delete(c.groups, g)
		delete(c.emptySince, g)
	}
}
