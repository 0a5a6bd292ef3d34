package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What would change something beside topics, as a broker refuses it which has no such thing, or whose policy does not allow it.

// aclRefusal is why no ACL is made or deleted.
func (m may) aclRefusal() (int16, *string) {
	if m.everything() {
		return securityDisabled, kmsg.StringPtr(noAuthorizer)
	}
	return clusterAuthorizationFailed, kmsg.StringPtr("rules are in a file of the server, and change there alone")
}

func createACLs(_ context.Context, c *conn, req *request, q *kmsg.CreateACLsRequest) (*kmsg.CreateACLsResponse, error) {
	resp := kmsg.NewPtrCreateACLsResponse()
	code, text := c.may(req).aclRefusal()
	for range q.Creations {
		resp.Results = append(resp.Results, kmsg.CreateACLsResponseResult{ErrorCode: code, ErrorMessage: text})
	}
	return resp, nil
}

func deleteACLs(_ context.Context, c *conn, req *request, q *kmsg.DeleteACLsRequest) (*kmsg.DeleteACLsResponse, error) {
	resp := kmsg.NewPtrDeleteACLsResponse()
	code, text := c.may(req).aclRefusal()
	for range q.Filters {
		resp.Results = append(resp.Results, kmsg.DeleteACLsResponseResult{ErrorCode: code, ErrorMessage: text})
	}
	return resp, nil
}

// electLeaders names each partition, also where all are meant: nothing else has room for a sentence.
func electLeaders(_ context.Context, c *conn, req *request, q *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	resp := kmsg.NewPtrElectLeadersResponse()
	topics := q.Topics
	if topics == nil {
		for _, t := range c.may(req).topics(c.s.topics()) {
			one := kmsg.ElectLeadersRequestTopic{Topic: t.Name}
			for _, p := range t.Partitions {
				one.Partitions = append(one.Partitions, p.ID.Partition)
			}
			topics = append(topics, one)
		}
	}
	for _, t := range topics {
		out := kmsg.ElectLeadersResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.ElectLeadersResponseTopicPartition{Partition: p, ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

func alterReplicaLogDirs(q *kmsg.AlterReplicaLogDirsRequest) *kmsg.AlterReplicaLogDirsResponse {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	for _, d := range q.Dirs {
		for _, t := range d.Topics {
			out := kmsg.AlterReplicaLogDirsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.AlterReplicaLogDirsResponseTopicPartition{Partition: p, ErrorCode: policyViolation})
			}
			resp.Topics = append(resp.Topics, out)
		}
	}
	return resp
}

func alterPartitionAssignments(q *kmsg.AlterPartitionAssignmentsRequest) *kmsg.AlterPartitionAssignmentsResponse {
	resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	for _, t := range q.Topics {
		out := kmsg.AlterPartitionAssignmentsResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.AlterPartitionAssignmentsResponseTopicPartition{Partition: p.Partition, ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func alterClientQuotas(q *kmsg.AlterClientQuotasRequest) *kmsg.AlterClientQuotasResponse {
	resp := kmsg.NewPtrAlterClientQuotasResponse()
	for _, e := range q.Entries {
		one := kmsg.AlterClientQuotasResponseEntry{ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)}
		for _, of := range e.Entity {
			one.Entity = append(one.Entity, kmsg.AlterClientQuotasResponseEntryEntity{Type: of.Type, Name: of.Name})
		}
		resp.Entries = append(resp.Entries, one)
	}
	return resp
}

func alterUserSCRAMCredentials(q *kmsg.AlterUserSCRAMCredentialsRequest) *kmsg.AlterUserSCRAMCredentialsResponse {
	resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	var users []string
	for _, d := range q.Deletions {
		users = append(users, d.Name)
	}
	for _, u := range q.Upsertions {
		users = append(users, u.Name)
	}
	for _, user := range eachOnce(users) {
		resp.Results = append(resp.Results, kmsg.AlterUserSCRAMCredentialsResponseResult{User: user, ErrorCode: policyViolation, ErrorMessage: kmsg.StringPtr(readOnly)})
	}
	return resp
}

func updateFeatures(*kmsg.UpdateFeaturesRequest) *kmsg.UpdateFeaturesResponse {
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.ErrorCode, resp.ErrorMessage = policyViolation, kmsg.StringPtr(readOnly)
	return resp
}

func unregisterBroker(*kmsg.UnregisterBrokerRequest) *kmsg.UnregisterBrokerResponse {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	resp.ErrorCode, resp.ErrorMessage = policyViolation, kmsg.StringPtr(readOnly)
	return resp
}

func addRaftVoter(*kmsg.AddRaftVoterRequest) *kmsg.AddRaftVoterResponse {
	resp := kmsg.NewPtrAddRaftVoterResponse()
	resp.ErrorCode, resp.ErrorMessage = unsupportedVersion, kmsg.StringPtr(noQuorum)
	return resp
}

func removeRaftVoter(*kmsg.RemoveRaftVoterRequest) *kmsg.RemoveRaftVoterResponse {
	resp := kmsg.NewPtrRemoveRaftVoterResponse()
	resp.ErrorCode, resp.ErrorMessage = unsupportedVersion, kmsg.StringPtr(noQuorum)
	return resp
}

// Delegation tokens are not served; a broker without a secret key for them says so.

func createDelegationToken(*kmsg.CreateDelegationTokenRequest) *kmsg.CreateDelegationTokenResponse {
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	resp.ErrorCode, resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp, resp.HMAC = delegationTokensOff, -1, -1, -1, []byte{}
	return resp
}

func renewDelegationToken(*kmsg.RenewDelegationTokenRequest) *kmsg.RenewDelegationTokenResponse {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = delegationTokensOff, -1
	return resp
}

func expireDelegationToken(*kmsg.ExpireDelegationTokenRequest) *kmsg.ExpireDelegationTokenResponse {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.ErrorCode, resp.ExpiryTimestamp = delegationTokensOff, -1
	return resp
}

func describeDelegationToken(*kmsg.DescribeDelegationTokenRequest) *kmsg.DescribeDelegationTokenResponse {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.ErrorCode = delegationTokensOff
	return resp
}

// Transactions are refused for good, as findCoordinator does it, also to who goes on without a coordinator.

func addPartitionsToTxn(q *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnResponse {
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	for _, t := range q.Topics {
		out := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: transactionalIDDenied})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func addOffsetsToTxn(*kmsg.AddOffsetsToTxnRequest) *kmsg.AddOffsetsToTxnResponse {
	resp := kmsg.NewPtrAddOffsetsToTxnResponse()
	resp.ErrorCode = transactionalIDDenied
	return resp
}

func endTxn(*kmsg.EndTxnRequest) *kmsg.EndTxnResponse {
	resp := kmsg.NewPtrEndTxnResponse()
	resp.ErrorCode = transactionalIDDenied
	return resp
}

func txnOffsetCommit(q *kmsg.TxnOffsetCommitRequest) *kmsg.TxnOffsetCommitResponse {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	for _, t := range q.Topics {
		out := kmsg.TxnOffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: transactionalIDDenied})
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// writeTxnMarkers is what ends a hanging transaction; brokers let nobody do it but who may change the cluster.
func writeTxnMarkers(q *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, m := range q.Markers {
		out := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
		for _, t := range m.Topics {
			topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: clusterAuthorizationFailed})
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp
}
