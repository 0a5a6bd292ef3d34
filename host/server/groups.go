package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/coordinator"
)

const noCoordinator = "this server coordinates consumer groups alone: it takes no transactions, and has no share groups"

// groupTopics is a Host as its groups see it.
type groupTopics struct{ s *Server }

// Topics implements coordinator.Topics.
func (g groupTopics) Topics() []coordinator.Topic {
	var out []coordinator.Topic
	for _, t := range g.s.topics() {
		out = append(out, coordinator.Topic{Name: t.Name, ID: t.WireID(), Partitions: partitionCount(t)})
	}
	return out
}

// Changed implements coordinator.Topics.
func (g groupTopics) Changed() <-chan struct{} { return g.s.host.Changed() }

// lostOffsets is coordinator.Others: what groups committed at the broker of the log directories.
func (s *Server) lostOffsets(taken func(source string) int64, visit func(*coordinator.Offsets) error) error {
	return s.host.EachLostOffsets(context.Background(), taken, func(l *host.LostOffsets) error { return visit(LostOffsets(l)) })
}

// LostOffsets is what a broker kept of its groups, as a coordinator takes it up.
func LostOffsets(l *host.LostOffsets) *coordinator.Offsets {
	out := &coordinator.Offsets{Source: l.Source, End: l.End, Each: make([]coordinator.Offset, len(l.Commits))}
	for i, c := range l.Commits {
		out.Each[i] = coordinator.Offset{Group: c.Group, Topic: c.Topic, TopicID: c.TopicID, Partition: c.Partition,
			Offset: c.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata, At: c.At}
	}
	return out
}

// partitionCount counts the partitions that a topic must have for those that are known of it. Some may hold nothing, and be
// known of nowhere; a number far above all that are known is one that groups are not told of: they keep a place for each below it.
func partitionCount(t *host.Topic) int32 {
	most, n := int32(1000+100*len(t.Partitions)), int32(0)
	for _, p := range t.Partitions {
		if p.ID.Partition < most {
			n = max(n, p.ID.Partition+1)
		}
	}
	return n
}

// group hands a request to the group coordinator. A connection has one session there.
func group(ctx context.Context, c *conn, req *request) (kmsg.Response, error) {
	if c.groups == nil {
		c.groups = c.s.groups.Connect(ipOf(c.nc), c.groupRights())
	}
	once(req.msg)
	do := func(q kmsg.Request) kmsg.Response { return c.s.boundEpochs(c.groups.Do(ctx, req.client, q)) }
	if may := c.may(req); !may.everything() {
		return may.groups(req.msg, do), nil
	}
	return do(req.msg), nil
}

// transactions is the coordinator type of transactional producers.
const transactions = 1

// findCoordinator: of groups it is this server. A transactional producer is refused for good: with an error that passes it
// would ask again until its time is over.
func findCoordinator(_ context.Context, c *conn, req *request, q *kmsg.FindCoordinatorRequest) (*kmsg.FindCoordinatorResponse, error) {
	one := kmsg.NewFindCoordinatorResponseCoordinator()
	one.NodeID, one.Host, one.Port = c.s.node, c.address.host, c.address.port
	if q.CoordinatorType != 0 {
		one.NodeID, one.Host, one.Port, one.ErrorCode, one.ErrorMessage = -1, "", -1, coordinatorNotAvailable, kmsg.StringPtr(noCoordinator)
	}
	if q.CoordinatorType == transactions {
		one.ErrorCode, one.ErrorMessage = transactionalIDDenied, kmsg.StringPtr(readOnly)
	}
	resp, may := kmsg.NewPtrFindCoordinatorResponse(), c.may(req)
	answer := func(key string) kmsg.FindCoordinatorResponseCoordinator {
		one := one
		if one.Key = key; one.ErrorCode == 0 && !may.group(access.Describe, key) {
			one.NodeID, one.Host, one.Port, one.ErrorCode, one.ErrorMessage = -1, "", -1, groupAuthorizationFailed, kmsg.StringPtr(noRule)
		}
		return one
	}
	if q.Version >= 4 {
		for _, key := range eachOnce(q.CoordinatorKeys) {
			resp.Coordinators = append(resp.Coordinators, answer(key))
		}
		return resp, nil
	}
	one = answer(q.CoordinatorKey)
	resp.NodeID, resp.Host, resp.Port, resp.ErrorCode, resp.ErrorMessage = one.NodeID, one.Host, one.Port, one.ErrorCode, one.ErrorMessage
	return resp, nil
}
