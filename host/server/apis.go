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
	unknownTopicOrPartition     int16 = 3
	coordinatorNotAvailable     int16 = 15
	topicAuthorizationFailed    int16 = 29
	groupAuthorizationFailed    int16 = 30
	clusterAuthorizationFailed  int16 = 31
	unsupportedSaslMechanism    int16 = 33
	illegalSaslState            int16 = 34
	unsupportedVersion          int16 = 35
	invalidRequest              int16 = 42
	policyViolation             int16 = 44
	saslAuthenticationFailed    int16 = 58
	fetchSessionIDNotFound      int16 = 70
	invalidFetchSessionEpoch    int16 = 71
	unknownTopicID              int16 = 100
	fetchSessionTopicIDError    int16 = 106
	unsupportedEndpointType     int16 = 115
	saslHandshakeKey            int16 = 17
	apiVersionsKey              int16 = 18
	saslAuthenticateKey         int16 = 36
	noAuthorizedOperations      int32 = -2147483648
	readOnly                          = "rsmhost serves tiered topics read-only"
	maxDescribedTopicPartitions       = 2000
)

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
	apis := map[int16]*api{
		0:                   on(3, produce), // without it in the list librdkafka waits in silence
		1:                   on(4, fetch),
		2:                   on(0, listOffsets),
		3:                   on(0, metadata),
		10:                  on(0, findCoordinator),
		saslHandshakeKey:    on(0, saslHandshake),
		apiVersionsKey:      versions,
		19:                  plain(0, createTopics),
		20:                  plain(0, deleteTopics),
		21:                  plain(0, deleteRecords),
		22:                  plain(0, initProducerID),
		23:                  on(0, offsetForLeaderEpoch),
		32:                  on(0, describeConfigs),
		33:                  plain(0, alterConfigs),
		35:                  on(0, describeLogDirs),
		saslAuthenticateKey: on(0, saslAuthenticate),
		37:                  plain(0, createPartitions),
		44:                  plain(0, incrementalAlterConfigs),
		60:                  on(0, describeCluster),
		75:                  on(0, describeTopicPartitions),
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
