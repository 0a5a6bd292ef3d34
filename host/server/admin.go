package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
)

// What admin clients ask beside topics and groups. It is answered with what is known; what this server does not have is refused
// with the code that a broker gives which does not have it either: UNSUPPORTED_VERSION, which clients take for an older broker.

const (
	noAuthorizer = "no rules are given: everybody may do everything"
	noQuorum     = "rsmhost is no KRaft broker: it has no metadata quorum"
	noProducers  = "rsmhost keeps no state of producers: nobody writes to it"
)

// describeACLs tells the rules as Kafka's ACLs, to those who may see the cluster. Without rules it says what a broker says that
// has no authorizer.
func describeACLs(_ context.Context, c *conn, req *request, q *kmsg.DescribeACLsRequest) (*kmsg.DescribeACLsResponse, error) {
	resp, may := kmsg.NewPtrDescribeACLsResponse(), c.may(req)
	resp.Resources = []kmsg.DescribeACLsResponseResource{}
	switch {
	case may.everything():
		resp.ErrorCode, resp.ErrorMessage = securityDisabled, kmsg.StringPtr(noAuthorizer)
		return resp, nil
	case !may.cluster():
		resp.ErrorCode, resp.ErrorMessage = clusterAuthorizationFailed, kmsg.StringPtr(noRule)
		return resp, nil
	}
	for _, r := range may.rules.List() {
		a := aclOf(r)
		if !a.wanted(q) {
			continue
		}
		i := slices.IndexFunc(resp.Resources, func(of kmsg.DescribeACLsResponseResource) bool {
			return of.ResourceType == a.kind && of.ResourceName == a.name && of.ResourcePatternType == a.pattern
		})
		if i < 0 {
			i = len(resp.Resources)
			one := kmsg.NewDescribeACLsResponseResource()
			one.ResourceType, one.ResourceName, one.ResourcePatternType = a.kind, a.name, a.pattern
			resp.Resources = append(resp.Resources, one)
		}
		one := kmsg.NewDescribeACLsResponseResourceACL()
		one.Principal, one.Host, one.Operation, one.PermissionType = a.principal, anyHost, a.op, kmsg.ACLPermissionTypeAllow
		resp.Resources[i].ACLs = append(resp.Resources[i].ACLs, one)
	}
	return resp, nil
}

const (
	anyHost     = "*"
	allNames    = "*"
	clusterName = "kafka-cluster"
)

// acl is a rule as Kafka has it.
type acl struct {
	principal string
	op        kmsg.ACLOperation
	kind      kmsg.ACLResourceType
	name      string
	pattern   kmsg.ACLResourcePatternType
}

func aclOf(r access.Rule) acl {
	a := acl{principal: string(r.Principal), name: r.Pattern, pattern: kmsg.ACLResourcePatternTypeLiteral}
	if r.Principal == "*" {
		a.principal = "User:*"
	}
	a.op = map[access.Operation]kmsg.ACLOperation{access.Read: kmsg.ACLOperationRead, access.Describe: kmsg.ACLOperationDescribe, access.Delete: kmsg.ACLOperationDelete}[r.Operation]
	switch r.Kind {
	case access.Topic:
		a.kind = kmsg.ACLResourceTypeTopic
	case access.Group:
		a.kind = kmsg.ACLResourceTypeGroup
	case access.Cluster:
		a.kind, a.name = kmsg.ACLResourceTypeCluster, clusterName
	}
	if prefix, ok := strings.CutSuffix(r.Pattern, "*"); ok && prefix != "" {
		a.name, a.pattern = prefix, kmsg.ACLResourcePatternTypePrefixed
	}
	return a
}

// wanted holds an acl against the filter of a request.
func (a *acl) wanted(q *kmsg.DescribeACLsRequest) bool {
	return (q.ResourceType == kmsg.ACLResourceTypeAny || q.ResourceType == a.kind) && a.named(q.ResourceName, q.ResourcePatternType) &&
		(q.Principal == nil || *q.Principal == a.principal) && (q.Host == nil || *q.Host == anyHost) &&
		(q.Operation == kmsg.ACLOperationAny || q.Operation == a.op) &&
		(q.PermissionType == kmsg.ACLPermissionTypeAny || q.PermissionType == kmsg.ACLPermissionTypeAllow)
}

// named holds the acl's resource against a name and how that is meant: MATCH is what concerns a resource of the name.
func (a *acl) named(name *string, how kmsg.ACLResourcePatternType) bool {
	switch how {
	case kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed:
		return how == a.pattern && (name == nil || *name == a.name)
	case kmsg.ACLResourcePatternTypeMatch:
		return name == nil || *name == a.name || a.pattern == kmsg.ACLResourcePatternTypeLiteral && a.name == allNames ||
			a.pattern == kmsg.ACLResourcePatternTypePrefixed && strings.HasPrefix(*name, a.name)
	}
	return name == nil || *name == a.name
}

// describeClientQuotas: there are none.
func describeClientQuotas(_ context.Context, c *conn, req *request, _ *kmsg.DescribeClientQuotasRequest) (*kmsg.DescribeClientQuotasResponse, error) {
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	if resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}; !c.may(req).cluster() {
		resp.ErrorCode, resp.ErrorMessage, resp.Entries = clusterAuthorizationFailed, kmsg.StringPtr(noRule), nil
	}
	return resp, nil
}

// describeUserSCRAMCredentials tells mechanisms and iterations of the users that there are, to those who may see the cluster.
func describeUserSCRAMCredentials(_ context.Context, c *conn, req *request, q *kmsg.DescribeUserSCRAMCredentialsRequest) (*kmsg.DescribeUserSCRAMCredentialsResponse, error) {
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.Results = []kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	if !c.may(req).cluster() {
		resp.ErrorCode, resp.ErrorMessage = clusterAuthorizationFailed, kmsg.StringPtr(noRule)
		return resp, nil
	}
	at := map[string]int{}
	result := func(user string) *kmsg.DescribeUserSCRAMCredentialsResponseResult {
		if _, ok := at[user]; !ok {
			at[user] = len(resp.Results)
			one := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
			one.User, one.ErrorCode, one.ErrorMessage = user, resourceNotFound, kmsg.StringPtr("there is no such user")
			one.CredentialInfos = []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
			resp.Results = append(resp.Results, one)
		}
		return &resp.Results[at[user]]
	}
	for _, u := range q.Users {
		result(u.Name)
	}
	for _, v := range c.s.o.Access.Users().List() {
		if _, asked := at[v.User]; !asked && len(q.Users) > 0 {
			continue
		}
		one := result(v.User)
		one.ErrorCode, one.ErrorMessage = 0, nil
		info := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		info.Mechanism, info.Iterations = map[string]int8{access.ScramSHA256: 1, access.ScramSHA512: 2}[v.Mechanism], int32(v.Iterations)
		one.CredentialInfos = append(one.CredentialInfos, info)
	}
	return resp, nil
}

// describeProducers refuses each partition that there is: what is not known must not look like no producer.
func describeProducers(_ context.Context, c *conn, req *request, q *kmsg.DescribeProducersRequest) (*kmsg.DescribeProducersResponse, error) {
	resp, may := kmsg.NewPtrDescribeProducersResponse(), c.may(req)
	for _, t := range q.Topics {
		out := kmsg.DescribeProducersResponseTopic{Topic: t.Topic}
		code, _ := may.refusal(access.Read, t.Topic, abi.UUID{})
		text := code.String()
		if code == reader.None {
			code, text = reader.UnsupportedVersion, noProducers
		}
		for _, p := range t.Partitions {
			one := kmsg.NewDescribeProducersResponseTopicPartition()
			one.Partition, one.ErrorCode, one.ErrorMessage = p, int16(code), kmsg.StringPtr(text)
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp, nil
}

// describeTransactions: this server coordinates none.
func describeTransactions(q *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse {
	resp := kmsg.NewPtrDescribeTransactionsResponse()
	for _, id := range eachOnce(q.TransactionalIDs) {
		one := kmsg.NewDescribeTransactionsResponseTransactionState()
		one.TransactionalID, one.ErrorCode = id, transactionalIDNotFound
		one.TimeoutMillis, one.StartTimestamp, one.ProducerID, one.ProducerEpoch = -1, -1, -1, -1
		resp.TransactionStates = append(resp.TransactionStates, one)
	}
	return resp
}

// transactionStates are those that a filter may name.
var transactionStates = []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// listTransactions: this server coordinates none.
func listTransactions(q *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse {
	resp := kmsg.NewPtrListTransactionsResponse()
	for _, name := range q.StateFilters {
		if !slices.Contains(transactionStates, name) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	return resp
}

func describeQuorum(_ context.Context, c *conn, req *request, _ *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	if resp.ErrorCode, resp.ErrorMessage = unsupportedVersion, kmsg.StringPtr(noQuorum); !c.may(req).cluster() {
		resp.ErrorCode, resp.ErrorMessage = clusterAuthorizationFailed, kmsg.StringPtr(noRule)
	}
	return resp, nil
}

// listPartitionReassignments: nothing moves.
func listPartitionReassignments(_ context.Context, c *conn, req *request, _ *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	resp := kmsg.NewPtrListPartitionReassignmentsResponse()
	if !c.may(req).cluster() {
		resp.ErrorCode, resp.ErrorMessage = clusterAuthorizationFailed, kmsg.StringPtr(noRule)
	}
	return resp, nil
}

// listConfigResources lists what describeConfigs describes, as far as the client may.
func listConfigResources(_ context.Context, c *conn, req *request, q *kmsg.ListConfigResourcesRequest) (*kmsg.ListConfigResourcesResponse, error) {
	resp, may := kmsg.NewPtrListConfigResourcesResponse(), c.may(req)
	resp.ConfigResources = []kmsg.ListConfigResourcesResponseConfigResource{}
	if !may.cluster() {
		resp.ErrorCode = clusterAuthorizationFailed
		return resp, nil
	}
	wants := func(kind kmsg.ConfigResourceType) bool { // version 0 is about client metrics, of which there are none
		return q.Version > 0 && (len(q.ResourceTypes) == 0 || slices.Contains(q.ResourceTypes, int8(kind)))
	}
	add := func(kind kmsg.ConfigResourceType, name string) {
		one := kmsg.NewListConfigResourcesResponseConfigResource()
		one.Name, one.Type = name, int8(kind)
		resp.ConfigResources = append(resp.ConfigResources, one)
	}
	if wants(kmsg.ConfigResourceTypeTopic) {
		for _, t := range may.topics(c.s.topics()) {
			add(kmsg.ConfigResourceTypeTopic, t.Name)
		}
	}
	if wants(kmsg.ConfigResourceTypeBroker) {
		add(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(c.s.node)))
	}
	return resp, nil
}
