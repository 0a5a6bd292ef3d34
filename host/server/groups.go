package server

import "github.com/twmb/franz-go/pkg/kmsg"

const noCoordinator = "this server has no coordinator for consumer groups yet: assign partitions, or read without a group"

// findCoordinator: there is none.
func findCoordinator(q *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Port = coordinatorNotAvailable, kmsg.StringPtr(noCoordinator), -1, -1
	for _, key := range q.CoordinatorKeys {
		one := kmsg.NewFindCoordinatorResponseCoordinator()
		one.Key, one.NodeID, one.Port, one.ErrorCode, one.ErrorMessage = key, -1, -1, coordinatorNotAvailable, kmsg.StringPtr(noCoordinator)
		resp.Coordinators = append(resp.Coordinators, one)
	}
	return resp
}

// listGroups: there are none.
func listGroups(*kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse {
	return kmsg.NewPtrListGroupsResponse()
}

// describeGroups: a group that does not exist is dead, as a broker says it.
func describeGroups(q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	for _, g := range q.Groups {
		one := kmsg.NewDescribeGroupsResponseGroup()
		one.Group, one.State, one.AuthorizedOperations = g, "Dead", noAuthorizedOperations
		if q.Version >= 6 {
			one.ErrorCode, one.ErrorMessage = 69, kmsg.StringPtr("there are no groups here yet") // GROUP_ID_NOT_FOUND
		}
		resp.Groups = append(resp.Groups, one)
	}
	return resp
}

func joinGroup(*kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.Generation, resp.Protocol = coordinatorNotAvailable, -1, kmsg.StringPtr("")
	return resp
}

func syncGroup(*kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = coordinatorNotAvailable
	return resp
}

func heartbeat(*kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = coordinatorNotAvailable
	return resp
}

func leaveGroup(*kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.ErrorCode = coordinatorNotAvailable
	return resp
}

func offsetCommit(q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range q.Topics {
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: coordinatorNotAvailable})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func offsetFetch(q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	resp.ErrorCode = coordinatorNotAvailable
	for _, t := range q.Topics {
		out := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetFetchResponseTopicPartition()
			one.Partition, one.Offset, one.LeaderEpoch, one.ErrorCode = p, -1, -1, coordinatorNotAvailable
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	for _, g := range q.Groups {
		resp.Groups = append(resp.Groups, kmsg.OffsetFetchResponseGroup{Group: g.Group, ErrorCode: coordinatorNotAvailable})
	}
	return resp
}
