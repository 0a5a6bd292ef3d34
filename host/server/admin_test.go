package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
)

// TestAdminReads: what admin clients ask is answered with what is known, or refused as a broker refuses it which has no such thing.
func TestAdminReads(t *testing.T) {
	w := serve(t, local, Options{}).dial(t)
	if resp := ask[*kmsg.DescribeACLsResponse](w, kmsg.NewPtrDescribeACLsRequest(), 3); resp.ErrorCode != securityDisabled || resp.ErrorMessage == nil || len(resp.Resources) > 0 {
		t.Errorf("ACLs: %+v", resp)
	}
	if resp := ask[*kmsg.CreateACLsResponse](w, &kmsg.CreateACLsRequest{Creations: make([]kmsg.CreateACLsRequestCreation, 2)}, 3); len(resp.Results) != 2 || resp.Results[1].ErrorCode != securityDisabled {
		t.Errorf("new ACLs: %+v", resp)
	}
	if resp := ask[*kmsg.DeleteACLsResponse](w, &kmsg.DeleteACLsRequest{Filters: make([]kmsg.DeleteACLsRequestFilter, 1)}, 3); len(resp.Results) != 1 || resp.Results[0].ErrorCode != securityDisabled {
		t.Errorf("ACLs to delete: %+v", resp)
	}
	if resp := ask[*kmsg.DescribeClientQuotasResponse](w, kmsg.NewPtrDescribeClientQuotasRequest(), 1); resp.ErrorCode != 0 || resp.Entries == nil || len(resp.Entries) > 0 {
		t.Errorf("quotas: %+v", resp)
	}
	if resp := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](w, &kmsg.DescribeUserSCRAMCredentialsRequest{Users: []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "x"}}}, 0); resp.ErrorCode != 0 || resp.Results[0].ErrorCode != resourceNotFound {
		t.Errorf("users: %+v", resp)
	}
	if resp := ask[*kmsg.DescribeTransactionsResponse](w, &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"a", "b"}}, 0); len(resp.TransactionStates) != 2 || resp.TransactionStates[1].ErrorCode != transactionalIDNotFound {
		t.Errorf("transactions: %+v", resp)
	}
	if resp := ask[*kmsg.ListTransactionsResponse](w, &kmsg.ListTransactionsRequest{StateFilters: []string{"Ongoing", "Lost"}}, 2); resp.ErrorCode != 0 || len(resp.TransactionStates) > 0 || !slices.Equal(resp.UnknownStateFilters, []string{"Lost"}) {
		t.Errorf("the list of transactions: %+v", resp)
	}
	if resp := ask[*kmsg.ListPartitionReassignmentsResponse](w, kmsg.NewPtrListPartitionReassignmentsRequest(), 0); resp.ErrorCode != 0 || len(resp.Topics) > 0 {
		t.Errorf("reassignments: %+v", resp)
	}
	if resp := ask[*kmsg.DescribeQuorumResponse](w, kmsg.NewPtrDescribeQuorumRequest(), 2); resp.ErrorCode != unsupportedVersion || resp.ErrorMessage == nil {
		t.Errorf("the quorum: %+v", resp)
	}
	if resp := ask[*kmsg.DescribeProducersResponse](w, &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: "payments", Partitions: []int32{0}}}}, 0); resp.Topics[0].Partitions[0].ErrorCode != unsupportedVersion {
		t.Errorf("producers: %+v", resp)
	}
	cluster := ask[*kmsg.DescribeClusterResponse](w, &kmsg.DescribeClusterRequest{EndpointType: 1, IncludeClusterAuthorizedOperations: true}, 1)
	if cluster.ClusterAuthorizedOperations != 1<<8|1<<10 {
		t.Errorf("what may be done to the cluster: %b", cluster.ClusterAuthorizedOperations)
	}
	topics := ask[*kmsg.MetadataResponse](w, &kmsg.MetadataRequest{IncludeTopicAuthorizedOperations: true}, 12).Topics
	if len(topics) == 0 || topics[0].AuthorizedOperations != 1<<3|1<<8|1<<10 {
		t.Errorf("what may be done to topics: %+v", topics)
	}
}

// TestAdminWrites: what would change something is refused, each part of it with a code that no client tries again after.
func TestAdminWrites(t *testing.T) {
	w := serve(t, local, Options{}).dial(t)
	for _, tt := range []struct {
		q    kmsg.Request
		code int16
	}{
		{&kmsg.ElectLeadersRequest{Topics: []kmsg.ElectLeadersRequestTopic{{Topic: "payments", Partitions: []int32{0}}}}, policyViolation},
		{&kmsg.AlterReplicaLogDirsRequest{Dirs: []kmsg.AlterReplicaLogDirsRequestDir{{Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "payments", Partitions: []int32{0}}}}}}, policyViolation},
		{&kmsg.AlterPartitionAssignmentsRequest{Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "payments", Partitions: make([]kmsg.AlterPartitionAssignmentsRequestTopicPartition, 1)}}}, policyViolation},
		{&kmsg.AlterClientQuotasRequest{Entries: make([]kmsg.AlterClientQuotasRequestEntry, 1)}, policyViolation},
		{&kmsg.AlterUserSCRAMCredentialsRequest{Deletions: make([]kmsg.AlterUserSCRAMCredentialsRequestDeletion, 1)}, policyViolation},
		{&kmsg.UpdateFeaturesRequest{}, policyViolation},
		{&kmsg.UnregisterBrokerRequest{}, policyViolation},
		{&kmsg.AddRaftVoterRequest{}, unsupportedVersion},
		{&kmsg.RemoveRaftVoterRequest{}, unsupportedVersion},
		{&kmsg.CreateDelegationTokenRequest{}, delegationTokensOff},
		{&kmsg.RenewDelegationTokenRequest{}, delegationTokensOff},
		{&kmsg.ExpireDelegationTokenRequest{}, delegationTokensOff},
		{&kmsg.DescribeDelegationTokenRequest{}, delegationTokensOff},
		{&kmsg.AddPartitionsToTxnRequest{Topics: []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "payments", Partitions: []int32{0}}}}, transactionalIDDenied},
		{&kmsg.AddOffsetsToTxnRequest{}, transactionalIDDenied},
		{&kmsg.EndTxnRequest{}, transactionalIDDenied},
		{&kmsg.TxnOffsetCommitRequest{Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: "payments", Partitions: make([]kmsg.TxnOffsetCommitRequestTopicPartition, 1)}}}, transactionalIDDenied},
		{&kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{{Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "payments", Partitions: []int32{0}}}}}}, clusterAuthorizationFailed},
	} {
		version := min(tt.q.MaxVersion(), 3)
		want := fmt.Sprintf(`"ErrorCode":%d,`, tt.code)
		if got := said(t, ask[kmsg.Response](w, tt.q, version)) + ","; !strings.Contains(strings.ReplaceAll(got, "}", ",}"), want) {
			t.Errorf("%s: want %d in %s", kmsg.NameForKey(tt.q.Key()), tt.code, got)
		}
	}
}

// TestAdminReadsNeedTheCluster: who may not see the cluster hears so, with each request that is about it.
func TestAdminReadsNeedTheCluster(t *testing.T) {
	v, _ := ruled(t, "* read topic:T")
	w := v.dial(t)
	for _, q := range []kmsg.Request{kmsg.NewPtrDescribeACLsRequest(), kmsg.NewPtrDescribeClientQuotasRequest(), kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(),
		kmsg.NewPtrDescribeQuorumRequest(), kmsg.NewPtrListPartitionReassignmentsRequest(), kmsg.NewPtrListConfigResourcesRequest(), kmsg.NewPtrDescribeLogDirsRequest()} {
		if got := said(t, ask[kmsg.Response](w, q, q.MaxVersion())); !strings.Contains(got, `"ErrorCode":31`) {
			t.Errorf("%s says %s", kmsg.NameForKey(q.Key()), got)
		}
	}
}

// TestRulesAsACLs: who may see the cluster reads the rules as Kafka's ACLs, by Kafka's filters.
func TestRulesAsACLs(t *testing.T) {
	k := newKeep(t)
	v := k.serve(access.Options{RulesFile: k.write("acl", "* describe cluster\nUser:alice read topic:orders topic:pay* group:*\n* read,describe topic:open")}, Options{})
	w := v.dial(t)
	listed := func(change func(q *kmsg.DescribeACLsRequest)) (out []string) {
		q := kmsg.NewPtrDescribeACLsRequest()
		q.ResourceType, q.ResourcePatternType, q.Operation, q.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		change(q)
		resp := ask[*kmsg.DescribeACLsResponse](w, q, 3)
		if resp.ErrorCode != 0 {
			t.Errorf("code %d", resp.ErrorCode)
		}
		for _, r := range resp.Resources {
			for _, a := range r.ACLs {
				if a.Host != "*" || a.PermissionType != kmsg.ACLPermissionTypeAllow {
					t.Errorf("%+v", a)
				}
				out = append(out, strings.Join([]string{a.Principal, a.Operation.String(), r.ResourceType.String(), r.ResourcePatternType.String(), r.ResourceName}, " "))
			}
		}
		slices.Sort(out)
		return out
	}
	all := []string{"User:* DESCRIBE CLUSTER LITERAL kafka-cluster", "User:* DESCRIBE TOPIC LITERAL open", "User:* READ TOPIC LITERAL open",
		"User:alice READ GROUP LITERAL *", "User:alice READ TOPIC LITERAL orders", "User:alice READ TOPIC PREFIXED pay"}
	name := kmsg.StringPtr
	for what, tt := range map[string]struct {
		change func(q *kmsg.DescribeACLsRequest)
		want   []string
	}{
		"all":            {func(*kmsg.DescribeACLsRequest) {}, all},
		"a kind":         {func(q *kmsg.DescribeACLsRequest) { q.ResourceType = kmsg.ACLResourceTypeGroup }, all[3:4]},
		"a principal":    {func(q *kmsg.DescribeACLsRequest) { q.Principal = name("User:*") }, all[:3]},
		"an operation":   {func(q *kmsg.DescribeACLsRequest) { q.Operation = kmsg.ACLOperationDescribe }, all[:2]},
		"what is denied": {func(q *kmsg.DescribeACLsRequest) { q.PermissionType = kmsg.ACLPermissionTypeDeny }, nil},
		"another host":   {func(q *kmsg.DescribeACLsRequest) { q.Host = name("10.0.0.1") }, nil},
		"prefixes":       {func(q *kmsg.DescribeACLsRequest) { q.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed }, all[5:]},
		"what concerns a topic": {func(q *kmsg.DescribeACLsRequest) {
			q.ResourceType, q.ResourcePatternType, q.ResourceName = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeMatch, name("payments")
		}, all[5:]},
		"what concerns a group": {func(q *kmsg.DescribeACLsRequest) {
			q.ResourceType, q.ResourcePatternType, q.ResourceName = kmsg.ACLResourceTypeGroup, kmsg.ACLResourcePatternTypeMatch, name("g")
		}, all[3:4]},
		"of this name": {func(q *kmsg.DescribeACLsRequest) {
			q.ResourcePatternType, q.ResourceName = kmsg.ACLResourcePatternTypeLiteral, name("pay")
		}, nil},
	} {
		if got := listed(tt.change); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", what, got, tt.want)
		}
	}
}

// TestAdminClient: franz-go's admin client understands the answers.
func TestAdminClient(t *testing.T) {
	adm := serve(t, local, Options{}).admin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := adm.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternAny)); err != nil && !errors.Is(err, kerr.SecurityDisabled) {
		t.Errorf("ACLs: %v", err)
	}
	if got, err := adm.DescribeClientQuotas(ctx, false, nil); err != nil || len(got) > 0 {
		t.Errorf("quotas: %v, %v", got, err)
	}
	if got, err := adm.ListTransactions(ctx, nil, nil); err != nil || len(got) > 0 {
		t.Errorf("transactions: %v, %v", got, err)
	}
	if got, err := adm.ListPartitionReassignments(ctx, nil); err != nil || len(got) > 0 {
		t.Errorf("reassignments: %v, %v", got, err)
	}
	if got, err := adm.DescribeUserSCRAMs(ctx); err != nil || len(got) > 0 {
		t.Errorf("users: %v, %v", got, err)
	}
}

// TestIdempotentProducerFailsOnce: it is given a producer id, and its record is refused; a transactional one is refused at once.
func TestIdempotentProducerFailsOnce(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	q := kmsg.NewPtrInitProducerIDRequest()
	first, second := ask[*kmsg.InitProducerIDResponse](w, q, 5), ask[*kmsg.InitProducerIDResponse](w, q, 0)
	if first.ErrorCode != 0 || first.ProducerID < 0 || first.ProducerEpoch != 0 || second.ProducerID <= first.ProducerID {
		t.Errorf("%+v, then %+v", first, second)
	}
	q.TransactionalID = kmsg.StringPtr("mover")
	if got := ask[*kmsg.InitProducerIDResponse](w, q, 5); got.ErrorCode != transactionalIDDenied || got.ProducerID != -1 {
		t.Errorf("transactional: %+v", got)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(v.address))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: v.host.Topics()[0].Name, Value: []byte("x")}).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("the record: %v", err)
	}
	if n := v.Stats().Requests["Produce"].Took.Count; n > 3 {
		t.Errorf("%d attempts", n)
	}
}

// TestProducersOfMissingTopicsFailAtOnce: a client that asked for a producer id, on whichever connection, is told that it may not make the topic; others wait for it.
func TestProducersOfMissingTopicsFailAtOnce(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	name := "made-by-nobody"
	code := func(make bool) int16 {
		q := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: &name}}, AllowAutoTopicCreation: make}
		return ask[*kmsg.MetadataResponse](w, q, 12).Topics[0].ErrorCode
	}
	if got := code(true); got != unknownTopicOrPartition {
		t.Errorf("a consumer hears %d", got)
	}
	ask[*kmsg.InitProducerIDResponse](v.dial(t), kmsg.NewPtrInitProducerIDRequest(), 5)
	if got := code(true); got != topicAuthorizationFailed {
		t.Errorf("a producer hears %d", got)
	}
	if got := code(false); got != unknownTopicOrPartition {
		t.Errorf("one that makes no topics hears %d", got)
	}
}

// TestProducersAreBounded: those that asked nothing for long make room, and no others.
func TestProducersAreBounded(t *testing.T) {
	var p producers
	now := time.Now()
	who := func(i int) producer { return producer{"somebody", fmt.Sprint(i)} }
	for i := range producersMax + 1 {
		p.add(who(i), now)
	}
	if p.has(who(producersMax), now) || !p.has(who(0), now.Add(producerTime)) {
		t.Error("one above the bound is known, or one below is not")
	}
	now = now.Add(producerTime + 1)
	if p.add(who(producersMax), now); !p.has(who(producersMax), now) || !p.has(who(0), now) || p.has(who(1), now) {
		t.Error("those that asked nothing for long make no room")
	}
}

// TestAttemptsToWriteAreSlowedDown: some come at once, and then one in a pause.
func TestAttemptsToWriteAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p writePace
		began := time.Now()
		for range writesAtOnce {
			p.wait(t.Context(), nil)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the first take %v", took)
		}
		for range 100 {
			p.wait(t.Context(), nil)
		}
		if took := time.Since(began); took < 90*writePause {
			t.Errorf("100 more take %v", took)
		}
		time.Sleep(writesAtOnce * 2 * writePause)
		began = time.Now()
		if p.wait(t.Context(), nil); time.Since(began) != 0 {
			t.Error("after a rest it waits")
		}
		stop := make(chan struct{})
		close(stop)
		for range writesAtOnce * 2 {
			p.wait(t.Context(), stop)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it waits while the server stops: %v", took)
		}
	})
}
