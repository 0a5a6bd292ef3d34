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
	transactionalIDDenied      int16 = 53 // TRANSACTIONAL_ID_AUTHORIZATION_FAILED
	saslAuthenticationFailed   int16 = 58
	unknownTopicID             int16 = 100
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
		kmsg.InitProducerID:          plain(0, initProducerID),
		kmsg.OffsetForLeaderEpoch:    on(0, offsetForLeaderEpoch),
		kmsg.DescribeConfigs:         on(0, describeConfigs),
		kmsg.AlterConfigs:            plain(0, alterConfigs),
		kmsg.DescribeLogDirs:         on(0, describeLogDirs),
		kmsg.SASLAuthenticate:        on(0, saslAuthenticate),
		kmsg.CreatePartitions:        plain(0, createPartitions),
		kmsg.IncrementalAlterConfigs: plain(0, incrementalAlterConfigs),
		kmsg.DescribeCluster:         on(0, describeCluster),
		kmsg.DescribeTopicPartitions: on(0, describeTopicPartitions),
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
