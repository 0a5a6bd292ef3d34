package server

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/coordinator"
)

const noRule = "no rule allows it"

// groups answers a request about groups by the rules. What changes something is held against them before it is done; what
// only tells something is done, and then the answer loses what the client may not see.
func (m may) groups(q kmsg.Request, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	switch q := q.(type) {
	case *kmsg.JoinGroupRequest:
		return m.member(q.Group, q, do)
	case *kmsg.SyncGroupRequest:
		return m.member(q.Group, q, do)
	case *kmsg.HeartbeatRequest:
		return m.member(q.Group, q, do)
	case *kmsg.LeaveGroupRequest:
		return m.member(q.Group, q, do)
	case *kmsg.ConsumerGroupHeartbeatRequest:
		return m.heartbeat(q, do)
	case *kmsg.OffsetCommitRequest:
		return m.commit(q, do)
	case *kmsg.OffsetFetchRequest:
		return m.committed(q, do)
	case *kmsg.OffsetDeleteRequest:
		return m.deleteOffsets(q, do)
	case *kmsg.DeleteGroupsRequest:
		return m.deleteGroups(q, do)
	case *kmsg.DescribeGroupsRequest:
		resp := do(q).(*kmsg.DescribeGroupsResponse)
		for i := range resp.Groups {
			if g := &resp.Groups[i]; !m.group(access.Describe, g.Group) {
				none := kmsg.NewDescribeGroupsResponseGroup()
				none.Group, none.ErrorCode, none.ErrorMessage = g.Group, groupAuthorizationFailed, kmsg.StringPtr(noRule)
				*g = none
			}
		}
		return resp
	case *kmsg.ConsumerGroupDescribeRequest:
		return m.describeMembers(do(q).(*kmsg.ConsumerGroupDescribeResponse))
	case *kmsg.ListGroupsRequest:
		resp := do(q).(*kmsg.ListGroupsResponse)
		if m.sees(access.Cluster, "") {
			return resp
		}
		resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !m.sees(access.Group, g.Group) })
		return resp
	}
	return coordinator.Refuse(q, groupAuthorizationFailed, noRule) // a request that nobody thought of here
}

// member answers what a member of a group does.
func (m may) member(group string, q kmsg.Request, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	if !m.group(access.Read, group) {
		return coordinator.Refuse(q, groupAuthorizationFailed, noRule)
	}
	return do(q)
}

// heartbeat is member for KIP-848, where the server assigns: what, is decided by groupRights.
func (m may) heartbeat(q *kmsg.ConsumerGroupHeartbeatRequest, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	for _, t := range q.SubscribedTopicNames {
		if m.group(access.Read, q.Group) && !m.topic(access.Describe, t) {
			return coordinator.Refuse(q, topicAuthorizationFailed, noRule)
		}
	}
	return m.member(q.Group, q, do)
}

// groupRights are what the connection's client may do, as the assignment of partitions asks: by the rules that are in force
// then, and without a line in the log.
func (c *conn) groupRights() coordinator.Rights {
	may := func(op access.Operation) func(string) bool {
		return func(topic string) bool { return c.s.o.Access.Rules().Allow(c.who, op, access.Topic, topic) }
	}
	return coordinator.Rights{See: may(access.Describe), Read: may(access.Read), Since: func() any { return c.s.o.Access.Rules() }}
}

// commit keeps the offsets of topics that the client may read.
func (m may) commit(q *kmsg.OffsetCommitRequest, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	if !m.group(access.Read, q.Group) {
		return coordinator.Refuse(q, groupAuthorizationFailed, noRule)
	}
	refused := *q
	refused.Topics = nil
	q.Topics = slices.DeleteFunc(q.Topics, func(t kmsg.OffsetCommitRequestTopic) bool {
		good := m.named(access.Read, t.Topic, t.TopicID)
		if !good {
			refused.Topics = append(refused.Topics, t)
		}
		return !good
	})
	denied := coordinator.Refuse(&refused, topicAuthorizationFailed, noRule).(*kmsg.OffsetCommitResponse)
	if len(q.Topics) == 0 && len(refused.Topics) > 0 {
		return denied
	}
	resp := do(q).(*kmsg.OffsetCommitResponse)
	resp.Topics = append(resp.Topics, denied.Topics...)
	return resp
}

// committed tells the offsets of groups and topics that the client may see. One that asks for all topics hears of those.
func (m may) committed(q *kmsg.OffsetFetchRequest, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	if q.Version < 8 && !m.group(access.Describe, q.Group) {
		return coordinator.Refuse(q, groupAuthorizationFailed, noRule)
	}
	all := map[string]bool{"": q.Topics == nil}
	for _, g := range q.Groups {
		all[g.Group] = g.Topics == nil
	}
	resp := do(q).(*kmsg.OffsetFetchResponse)
	var topics []kmsg.OffsetFetchResponseTopic
	for _, t := range resp.Topics {
		if !m.seesOffsets(all[""], t.Topic, abi.UUID{}) {
			if all[""] {
				continue
			}
			for i := range t.Partitions {
				t.Partitions[i] = kmsg.OffsetFetchResponseTopicPartition{Partition: t.Partitions[i].Partition, Offset: -1, LeaderEpoch: -1, ErrorCode: topicAuthorizationFailed}
			}
		}
		topics = append(topics, t)
	}
	resp.Topics = topics
	for i := range resp.Groups {
		m.committedOf(&resp.Groups[i], all[resp.Groups[i].Group])
	}
	return resp
}

// committedOf takes out of one group's answer what the client may not see.
func (m may) committedOf(g *kmsg.OffsetFetchResponseGroup, all bool) {
	if !m.group(access.Describe, g.Group) {
		*g = kmsg.OffsetFetchResponseGroup{Group: g.Group, ErrorCode: groupAuthorizationFailed}
		return
	}
	var topics []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range g.Topics {
		if !m.seesOffsets(all, t.Topic, t.TopicID) {
			if all {
				continue
			}
			for i := range t.Partitions {
				t.Partitions[i] = kmsg.OffsetFetchResponseGroupTopicPartition{Partition: t.Partitions[i].Partition, Offset: -1, LeaderEpoch: -1, ErrorCode: topicAuthorizationFailed}
			}
		}
		topics = append(topics, t)
	}
	g.Topics = topics
}

// seesOffsets says whether the client may see a topic's offsets; who asked for all is not told in the log what it may not.
func (m may) seesOffsets(all bool, name string, id abi.UUID) bool {
	if all && name != "" {
		return m.sees(access.Topic, name)
	}
	return m.named(access.Describe, name, id)
}

// deleteOffsets deletes those of topics that the client may read, of a group that it may delete.
func (m may) deleteOffsets(q *kmsg.OffsetDeleteRequest, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	if !m.group(access.Delete, q.Group) {
		return coordinator.Refuse(q, groupAuthorizationFailed, noRule)
	}
	var denied []kmsg.OffsetDeleteResponseTopic
	q.Topics = slices.DeleteFunc(q.Topics, func(t kmsg.OffsetDeleteRequestTopic) bool {
		good := m.topic(access.Read, t.Topic)
		if !good {
			one := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				one.Partitions = append(one.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: topicAuthorizationFailed})
			}
			denied = append(denied, one)
		}
		return !good
	})
	resp := do(q).(*kmsg.OffsetDeleteResponse)
	resp.Topics = append(resp.Topics, denied...)
	return resp
}

// deleteGroups deletes those that the client may delete.
func (m may) deleteGroups(q *kmsg.DeleteGroupsRequest, do func(kmsg.Request) kmsg.Response) kmsg.Response {
	refused := *q
	refused.Groups = nil
	q.Groups = slices.DeleteFunc(q.Groups, func(g string) bool {
		good := m.group(access.Delete, g)
		if !good {
			refused.Groups = append(refused.Groups, g)
		}
		return !good
	})
	denied := coordinator.Refuse(&refused, groupAuthorizationFailed, noRule).(*kmsg.DeleteGroupsResponse)
	if len(q.Groups) == 0 {
		return denied
	}
	resp := do(q).(*kmsg.DeleteGroupsResponse)
	resp.Groups = append(resp.Groups, denied.Groups...)
	return resp
}

// describeMembers takes out groups that the client may not see, and those with a member that has such a topic.
func (m may) describeMembers(resp *kmsg.ConsumerGroupDescribeResponse) kmsg.Response {
	for i := range resp.Groups {
		g := &resp.Groups[i]
		code := int16(0)
		if !m.group(access.Describe, g.Group) {
			code = groupAuthorizationFailed
		} else if !m.seesMembers(g.Members) {
			code = topicAuthorizationFailed
		}
		if code != 0 {
			none := kmsg.NewConsumerGroupDescribeResponseGroup()
			none.Group, none.ErrorCode, none.ErrorMessage = g.Group, code, kmsg.StringPtr(noRule)
			*g = none
		}
	}
	return resp
}

func (m may) seesMembers(members []kmsg.ConsumerGroupDescribeResponseGroupMember) bool {
	for i := range members {
		for _, a := range []*kmsg.Assignment{&members[i].Assignment, &members[i].TargetAssignment} {
			for _, t := range a.TopicPartitions {
				if !m.topic(access.Describe, t.Topic) {
					return false
				}
			}
		}
	}
	return true
}
