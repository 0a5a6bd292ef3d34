package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/coordinator"
)

// Error codes of the protocol that this package gives itself.
const (
	unknownTopicOrPartition    int16 = 3
	leaderNotAvailable         int16 = 5
	coordinatorNotAvailable    int16 = 15
	invalidTopic               int16 = 17
	topicAuthorizationFailed   int16 = 29
	groupAuthorizationFailed   int16 = 30
	clusterAuthorizationFailed int16 = 31
	unsupportedSaslMechanism   int16 = 33
	illegalSaslState           int16 = 34
	unsupportedVersion         int16 = 35
	invalidRequest             int16 = 42
	policyViolation            int16 = 44
	securityDisabled           int16 = 54
	transactionalIDDenied      int16 = 53 // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
	saslAuthenticationFailed   int16 = 58
	delegationTokensOff        int16 = 61 // DELEGATION_TOKEN_AUTH_DISABLED
	resourceNotFound           int16 = 91
	unknownTopicID             int16 = 100
	transactionalIDNotFound    int16 = 105
	unsupportedEndpointType    int16 = 115
)

// noAuthorizedOperations is what stands in an answer where the client did not ask for its operations.
const noAuthorizedOperations int32 = -2147483648

// readOnly is what clients hear that want to change something.
const readOnly = "rsmhost serves tiered topics read-only"

// maxDescribedTopicPartitions is max.request.partition.size.limit: partitions of one answer of DescribeTopicPartitions.
const maxDescribedTopicPartitions = 2000

// api is one kind of request.
type api struct {
	min, max int16
	handle   func(ctx context.Context, c *conn, req *request) (kmsg.Response, error)
}

// on turns a handler of one message into one of all. A handler that gives nil sends no answer.
func on[Q kmsg.Request, R kmsg.Response](min int16, handle func(ctx context.Context, c *conn, req *request, q Q) (R, error)) *api {
	var q Q
	return &api{min: min, max: q.MaxVersion(), handle: func(ctx context.Context, c *conn, req *request) (kmsg.Response, error) {
		r, err := handle(ctx, c, req, req.msg.(Q))
		if err != nil {
			return nil, err
		}
		return r, nil
	}}
}

// plain is a handler that needs the message alone.
func plain[Q kmsg.Request, R kmsg.Response](min int16, handle func(q Q) R) *api {
	return on(min, func(_ context.Context, _ *conn, _ *request, q Q) (R, error) { return handle(q), nil })
}

// newAPIs is what is served, by api key; groups is what the group coordinator serves of it.
func newAPIs(groups map[int16]coordinator.Range) map[int16]*api {
	versions := on(0, apiVersions)
	versions.max = 4 // 5 says for which cluster it is, which nobody checks here
	adding := plain(0, addPartitionsToTxn)
	adding.max = 3 // 4 and more are what brokers say to each other
	own := map[kmsg.Key]*api{
		kmsg.Produce:                 on(3, produce), // without it in the list librdkafka waits in silence
		kmsg.Fetch:                   on(4, fetch),
		kmsg.ListOffsets:             on(0, listOffsets),
		kmsg.Metadata:                on(0, metadata),
		kmsg.FindCoordinator:         on(0, findCoordinator),
		kmsg.SASLHandshake:           on(0, saslHandshake),
		kmsg.ApiVersions:             versions,
		kmsg.CreateTopics:            plain(0, createTopics),
		kmsg.DeleteTopics:            plain(0, deleteTopics),
		kmsg.DeleteRecords:           plain(0, deleteRecords),
		kmsg.InitProducerID:          on(0, initProducerID),
		kmsg.OffsetForLeaderEpoch:    on(0, offsetForLeaderEpoch),
		kmsg.DescribeConfigs:         on(0, describeConfigs),
		kmsg.AlterConfigs:            plain(0, alterConfigs),
		kmsg.DescribeLogDirs:         on(0, describeLogDirs),
		kmsg.SASLAuthenticate:        on(0, saslAuthenticate),
		kmsg.CreatePartitions:        plain(0, createPartitions),
		kmsg.IncrementalAlterConfigs: plain(0, incrementalAlterConfigs),
		kmsg.DescribeCluster:         on(0, describeCluster),
		kmsg.DescribeTopicPartitions: on(0, describeTopicPartitions),

		kmsg.DescribeACLs:                 on(0, describeACLs),
		kmsg.CreateACLs:                   on(0, createACLs),
		kmsg.DeleteACLs:                   on(0, deleteACLs),
		kmsg.DescribeClientQuotas:         on(0, describeClientQuotas),
		kmsg.AlterClientQuotas:            plain(0, alterClientQuotas),
		kmsg.DescribeUserSCRAMCredentials: on(0, describeUserSCRAMCredentials),
		kmsg.AlterUserSCRAMCredentials:    plain(0, alterUserSCRAMCredentials),
		kmsg.DescribeProducers:            on(0, describeProducers),
		kmsg.DescribeTransactions:         plain(0, describeTransactions),
		kmsg.ListTransactions:             plain(0, listTransactions),
		kmsg.DescribeQuorum:               on(0, describeQuorum),
		kmsg.AddRaftVoter:                 plain(0, addRaftVoter),
		kmsg.RemoveRaftVoter:              plain(0, removeRaftVoter),
		kmsg.ListPartitionReassignments:   on(0, listPartitionReassignments),
		kmsg.AlterPartitionAssignments:    plain(0, alterPartitionAssignments),
		kmsg.AlterReplicaLogDirs:          plain(0, alterReplicaLogDirs),
		kmsg.ElectLeaders:                 on(0, electLeaders),
		kmsg.UpdateFeatures:               plain(0, updateFeatures),
		kmsg.UnregisterBroker:             plain(0, unregisterBroker),
		kmsg.ListConfigResources:          on(0, listConfigResources),
		kmsg.CreateDelegationToken:        plain(0, createDelegationToken),
		kmsg.RenewDelegationToken:         plain(0, renewDelegationToken),
		kmsg.ExpireDelegationToken:        plain(0, expireDelegationToken),
		kmsg.DescribeDelegationToken:      plain(0, describeDelegationToken),
		kmsg.AddPartitionsToTxn:           adding,
		kmsg.AddOffsetsToTxn:              plain(0, addOffsetsToTxn),
		kmsg.EndTxn:                       plain(0, endTxn),
		kmsg.TxnOffsetCommit:              plain(0, txnOffsetCommit),
		kmsg.WriteTxnMarkers:              plain(0, writeTxnMarkers),
	}
	apis := map[int16]*api{}
	for key, a := range own {
		apis[key.Int16()] = a
	}
	for key, served := range groups {
		apis[key] = &api{min: served.Min, max: served.Max, handle: group}
	}
	return apis
}

// told is what clients are told of.
func told(apis map[int16]*api) []kmsg.ApiVersionsResponseApiKey {
	var out []kmsg.ApiVersionsResponseApiKey
	for key, a := range apis {
		out = append(out, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: a.min, MaxVersion: a.max})
	}
	slices.SortFunc(out, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return out
}

// apiVersions tells what is served. One of a version that is not served gets an answer of version 0, from which the client
// learns which it may send (KIP-511).
func apiVersions(_ context.Context, c *conn, req *request, _ *kmsg.ApiVersionsRequest) (*kmsg.ApiVersionsResponse, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if req.unsupported {
		resp.ErrorCode = unsupportedVersion
	}
	resp.ApiKeys = told(c.s.apis)
	return resp, nil
}
