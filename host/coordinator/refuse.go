package coordinator

import "github.com/twmb/franz-go/pkg/kmsg"

// Error codes of the protocol that this package gives itself, or looks for.
const (
	unknownTopicOrPartition   int16 = 3
	offsetMetadataTooLarge    int16 = 12
	coordinatorNotAvailable   int16 = 15
	illegalGeneration         int16 = 22
	inconsistentGroupProtocol int16 = 23
	invalidGroupID            int16 = 24
	unknownMemberID           int16 = 25
	invalidCommitOffsetSize   int16 = 28
	invalidRequest            int16 = 42
	policyViolation           int16 = 44
	nonEmptyGroup             int16 = 68
	groupIDNotFound           int16 = 69
	memberIDRequired          int16 = 79
	groupSubscribedToTopic    int16 = 86
	unknownTopicID            int16 = 100
	unsupportedAssignor       int16 = 112
	invalidRegularExpression  int16 = 128
)

// Refuse is the answer that says code wherever a request that a Coordinator serves can: for all groups, topics and partitions
// that it names.
func Refuse(q kmsg.Request, code int16, why string) kmsg.Response {
	resp := q.ResponseKind()
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		r.Topics = refuseCommit(q.(*kmsg.OffsetCommitRequest), code)
	case *kmsg.OffsetFetchResponse:
		refuseFetch(q.(*kmsg.OffsetFetchRequest), r, code)
	case *kmsg.JoinGroupResponse:
		r.ErrorCode, r.Generation, r.Protocol = code, -1, kmsg.StringPtr("")
		r.MemberID = q.(*kmsg.JoinGroupRequest).MemberID
	case *kmsg.SyncGroupResponse:
		r.ErrorCode = code
	case *kmsg.HeartbeatResponse:
		r.ErrorCode = code
	case *kmsg.LeaveGroupResponse:
		r.ErrorCode = code
	case *kmsg.DescribeGroupsResponse:
		for _, g := range q.(*kmsg.DescribeGroupsRequest).Groups {
			one := kmsg.NewDescribeGroupsResponseGroup()
			one.Group, one.ErrorCode, one.ErrorMessage = g, code, &why
			r.Groups = append(r.Groups, one)
		}
	case *kmsg.ListGroupsResponse:
		r.ErrorCode = code
	case *kmsg.DeleteGroupsResponse:
		for _, g := range q.(*kmsg.DeleteGroupsRequest).Groups {
			one := kmsg.NewDeleteGroupsResponseGroup()
			one.Group, one.ErrorCode = g, code
			r.Groups = append(r.Groups, one)
		}
	case *kmsg.OffsetDeleteResponse:
		r.ErrorCode = code
	case *kmsg.ConsumerGroupHeartbeatResponse:
		r.ErrorCode, r.ErrorMessage = code, &why
	case *kmsg.ConsumerGroupDescribeResponse:
		for _, g := range q.(*kmsg.ConsumerGroupDescribeRequest).Groups {
			one := kmsg.NewConsumerGroupDescribeResponseGroup()
			one.Group, one.ErrorCode, one.ErrorMessage = g, code, &why
			r.Groups = append(r.Groups, one)
		}
	}
	return resp
}

// refuseCommit gives each partition of a commit the same code.
func refuseCommit(q *kmsg.OffsetCommitRequest, code int16) []kmsg.OffsetCommitResponseTopic {
	out := make([]kmsg.OffsetCommitResponseTopic, 0, len(q.Topics))
	for _, t := range q.Topics {
		one := kmsg.NewOffsetCommitResponseTopic()
		one.Topic, one.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			one.Partitions = append(one.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
		}
		out = append(out, one)
	}
	return out
}

// refuseFetch gives each group of a fetch the same code.
func refuseFetch(q *kmsg.OffsetFetchRequest, r *kmsg.OffsetFetchResponse, code int16) {
	r.ErrorCode = code // of the versions that ask for one group
	for _, t := range q.Topics {
		one := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetFetchResponseTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch, part.ErrorCode = p, -1, -1, code
			one.Partitions = append(one.Partitions, part)
		}
		r.Topics = append(r.Topics, one)
	}
	for _, g := range q.Groups {
		one := kmsg.NewOffsetFetchResponseGroup()
		one.Group, one.ErrorCode = g.Group, code
		r.Groups = append(r.Groups, one)
	}
}
