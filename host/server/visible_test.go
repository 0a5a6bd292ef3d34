package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// naming makes a request about a topic: by its name, by its id, or by both, as its version has it.
type naming func(name string, id abi.UUID) kmsg.Request

// asking is a request of a version, as it names a topic.
type asking struct {
	version int16
	of      naming
}

func fetchNaming(name string, id abi.UUID) kmsg.Request {
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.SessionEpoch = 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	q.Topics = []kmsg.FetchRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return q
}

func metadataNaming(byID bool) naming {
	return func(name string, id abi.UUID) kmsg.Request {
		q := kmsg.NewPtrMetadataRequest()
		q.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		if byID {
			q.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}}
		}
		return q
	}
}

func listNaming(timestamp int64) naming {
	return func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = timestamp
		q.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		return q
	}
}

func commitNaming(name string, id abi.UUID) kmsg.Request {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = "readers", -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = 1
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return q
}

func committedNaming(name string, id abi.UUID) kmsg.Request {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Group, q.Topics = "readers", []kmsg.OffsetFetchRequestTopic{{Topic: name, Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = "readers", []kmsg.OffsetFetchRequestGroupTopic{{Topic: name, TopicID: id, Partitions: []int32{0}}}
	q.Groups = []kmsg.OffsetFetchRequestGroup{g}
	return q
}

func heartbeatNaming(name string, id abi.UUID) kmsg.Request {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.RebalanceTimeoutMillis = "members of "+name, "m", 1000
	q.SubscribedTopicNames, q.Topics = []string{name}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return q
}

// topicNamings is how each api of consumers and producers may name a topic.
var topicNamings = map[kmsg.Key]map[string]asking{
	kmsg.Fetch:       {"by name": {12, fetchNaming}, "by name, in the first version": {4, fetchNaming}, "by id": {18, fetchNaming}},
	kmsg.Metadata:    {"by name": {9, metadataNaming(false)}, "by id": {12, metadataNaming(true)}},
	kmsg.ListOffsets: {"the first": {10, listNaming(-2)}, "the last": {10, listNaming(-1)}, "by time": {7, listNaming(0)}, "old": {0, listNaming(-1)}},
	kmsg.OffsetForLeaderEpoch: {"": {4, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrOffsetForLeaderEpochRequest()
		q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{kmsg.NewOffsetForLeaderEpochRequestTopicPartition()}}}
		return q
	}}},
	kmsg.DescribeConfigs: {"": {4, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDescribeConfigsRequest()
		q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}
		return q
	}}},
	kmsg.DescribeLogDirs: {"": {4, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDescribeLogDirsRequest()
		q.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: name, Partitions: []int32{0}}}
		return q
	}}},
	kmsg.DescribeTopicPartitions: {"": {0, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDescribeTopicPartitionsRequest()
		q.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: name}}
		return q
	}}},
	kmsg.OffsetCommit:           {"by name": {9, commitNaming}, "by id": {10, commitNaming}},
	kmsg.OffsetFetch:            {"by name": {9, committedNaming}, "by id": {10, committedNaming}, "old": {5, committedNaming}},
	kmsg.ConsumerGroupHeartbeat: {"": {1, heartbeatNaming}},
	kmsg.OffsetDelete: {"": {0, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrOffsetDeleteRequest()
		q.Group, q.Topics = "readers", []kmsg.OffsetDeleteRequestTopic{{Topic: name, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
		return q
	}}},
	kmsg.Produce: {"by name": {12, produceNaming}, "by id": {13, produceNaming}},
	kmsg.CreateTopics: {"": {7, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
		return q
	}}},
	kmsg.DeleteTopics: {"by name": {6, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		return q
	}}, "by id": {6, func(_ string, id abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
		return q
	}}},
	kmsg.DeleteRecords: {"": {2, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrDeleteRecordsRequest()
		q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}}}}
		return q
	}}},
	kmsg.CreatePartitions: {"": {3, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrCreatePartitionsRequest()
		q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 3}}
		return q
	}}},
	kmsg.AlterConfigs: {"": {2, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrAlterConfigsRequest()
		q.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}
		return q
	}}},
	kmsg.IncrementalAlterConfigs: {"": {1, func(name string, _ abi.UUID) kmsg.Request {
		q := kmsg.NewPtrIncrementalAlterConfigsRequest()
		q.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name}}
		return q
	}}},
}

// partitionsNaming makes requests that name partition 0 of a topic by the topic's name alone.
func partitionsNaming(make func(name string) kmsg.Request) map[string]asking {
	return map[string]asking{"": {0, func(name string, _ abi.UUID) kmsg.Request { return make(name) }}}
}

// partitionNamings are those of admin clients.
func partitionNamings() map[kmsg.Key]map[string]asking {
	namings := map[kmsg.Key]map[string]asking{}
	namings[kmsg.DescribeProducers] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: name, Partitions: []int32{0}}}}
	})
	namings[kmsg.ElectLeaders] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.ElectLeadersRequest{Topics: []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}}
	})
	namings[kmsg.AlterReplicaLogDirs] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.AlterReplicaLogDirsRequest{Dirs: []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: name, Partitions: []int32{0}}}}}}
	})
	namings[kmsg.AlterPartitionAssignments] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.AlterPartitionAssignmentsRequest{Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{}}}}}
	})
	namings[kmsg.ListPartitionReassignments] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.ListPartitionReassignmentsRequest{Topics: []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: name, Partitions: []int32{0}}}}
	})
	namings[kmsg.AddPartitionsToTxn] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.AddPartitionsToTxnRequest{TransactionalID: "t", Topics: []kmsg.AddPartitionsToTxnRequestTopic{{Topic: name, Partitions: []int32{0}}}}
	})
	namings[kmsg.TxnOffsetCommit] = partitionsNaming(func(name string) kmsg.Request {
		return &kmsg.TxnOffsetCommitRequest{TransactionalID: "t", Topics: []kmsg.TxnOffsetCommitRequestTopic{{Topic: name, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}}
	})
	namings[kmsg.WriteTxnMarkers] = map[string]asking{"": {1, func(name string, _ abi.UUID) kmsg.Request {
		return &kmsg.WriteTxnMarkersRequest{Markers: []kmsg.WriteTxnMarkersRequestMarker{{Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: name, Partitions: []int32{0}}}}}}
	}}}
	return namings
}

func produceNaming(name string, id abi.UUID) kmsg.Request {
	q := kmsg.NewPtrProduceRequest()
	q.Acks = -1
	q.Topics = []kmsg.ProduceRequestTopic{{Topic: name, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{}}}}
	return q
}

// nameless are those that name no topic, or only what their members say to each other.
var nameless = []kmsg.Key{kmsg.FindCoordinator, kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.ApiVersions, kmsg.InitProducerID, kmsg.DescribeCluster,
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.ListGroups, kmsg.DescribeGroups, kmsg.DeleteGroups, kmsg.ConsumerGroupDescribe,
	kmsg.DescribeACLs, kmsg.CreateACLs, kmsg.DeleteACLs, kmsg.DescribeClientQuotas, kmsg.AlterClientQuotas, kmsg.DescribeUserSCRAMCredentials,
	kmsg.AlterUserSCRAMCredentials, kmsg.DescribeTransactions, kmsg.ListTransactions, kmsg.DescribeQuorum, kmsg.AddRaftVoter, kmsg.RemoveRaftVoter,
	kmsg.UpdateFeatures, kmsg.UnregisterBroker, kmsg.ListConfigResources, kmsg.CreateDelegationToken, kmsg.RenewDelegationToken,
	kmsg.ExpireDelegationToken, kmsg.DescribeDelegationToken, kmsg.AddOffsetsToTxn, kmsg.EndTxn}

// hiding serves topic "shown", KRaft's own log, a deleted topic and one that lies in both tiers as two incarnations.
func hiding(t *testing.T) *served {
	t.Helper()
	of := func(name string, id byte) abi.TopicIDPartition {
		return abi.TopicIDPartition{Topic: name, TopicID: kafkabytes.ID(id)}
	}
	segment := func(id abi.TopicIDPartition, number byte) *kafkabytes.Segment {
		return kafkabytes.NewSegment(t, id, number, kafkabytes.Batch{Base: 0, Last: 9})
	}
	dir, meta := t.TempDir(), t.TempDir()
	for _, id := range []abi.TopicIDPartition{of("__cluster_metadata", 1), of("shown", 2), of("replaced", 4)} {
		kafkabytes.WriteLog(t, dir, id, segment(id, 1))
	}
	deleted, was := segment(of("deleted", 3), 3), segment(of("replaced", 5), 5)
	events := kafkabytes.Finished(deleted, was)
	for _, state := range []format.PartitionDeleteState{format.DeletePartitionMarked, format.DeletePartitionStarted} {
		events = append(events, &format.PartitionDeleteEvent{TopicIDPartition: deleted.Meta.TopicIDPartition, BrokerID: 1, EventTimestampMs: 2000, State: state})
	}
	kafkabytes.WriteMetadata(t, meta, events...)
	return serveHost(t, host.Config{LogDirs: []string{dir}, Metadata: "dir:" + meta, RSM: memrsm.New(memrsm.Inline, deleted, was)}, Options{})
}

// TestWhatIsHiddenIsNotThere: each api answers about KRaft's own log, about a deleted topic and about an incarnation that was
// replaced what it answers about a topic that never was.
func TestWhatIsHiddenIsNotThere(t *testing.T) {
	v := hiding(t)
	namings := partitionNamings()
	maps.Copy(namings, topicNamings)
	for key := range v.apis {
		if _, ok := namings[kmsg.Key(key)]; !ok && !slices.Contains(nameless, kmsg.Key(key)) {
			t.Errorf("%s is served, and not tried here", kmsg.NameForKey(key))
		}
	}
	hidden := map[string]struct {
		name string
		id   abi.UUID
		by   string // how it is hidden: a name that was given again means another topic
	}{
		"KRaft's log":              {"__cluster_metadata", kafkabytes.ID(1), ""},
		"a deleted topic":          {"deleted", kafkabytes.ID(3), ""},
		"a replaced incarnation":   {"replaced", kafkabytes.ID(5), "by id"},
		"an incarnation by a name": {"deleted@" + kafkabytes.ID(3).String(), abi.UUID{}, "by name"},
	}
	for what, h := range hidden {
		never, neverID := "_"+h.name[1:], kafkabytes.ID(99)
		if h.name[0] == '_' {
			never = "a" + h.name[1:]
		}
		if h.id == (abi.UUID{}) {
			neverID = h.id
		}
		for key, ways := range namings {
			for way, q := range ways {
				if h.by != "" && way != h.by {
					continue
				}
				t.Run(what+"/"+key.Name()+" "+way, func(t *testing.T) {
					w := v.dial(t)
					got, want := said(t, ask[kmsg.Response](w, q.of(h.name, h.id), q.version)), said(t, ask[kmsg.Response](w, q.of(never, neverID), q.version))
					want = strings.NewReplacer(never, h.name, idText(t, neverID), idText(t, h.id)).Replace(want)
					if got != want {
						t.Errorf("it says %s\nof a topic that never was %s", got, want)
					}
				})
			}
		}
	}
}

// TestListsHaveWhatIsThere: each list of topics has those that are served, and no other.
func TestListsHaveWhatIsThere(t *testing.T) {
	v := hiding(t)
	lists := map[string]struct {
		version int16
		q       kmsg.Request
	}{
		"metadata":              {12, &kmsg.MetadataRequest{}},
		"metadata of version 0": {0, &kmsg.MetadataRequest{}},
		"described partitions":  {0, kmsg.NewPtrDescribeTopicPartitionsRequest()},
		"resources":             {1, kmsg.NewPtrListConfigResourcesRequest()},
		"log directories":       {4, kmsg.NewPtrDescribeLogDirsRequest()},
	}
	for name, tt := range lists {
		got := said(t, ask[kmsg.Response](v.dial(t), tt.q, tt.version))
		for _, topic := range []string{"shown", "replaced"} {
			if !strings.Contains(got, topic) {
				t.Errorf("%s: no topic %s in %s", name, topic, got)
			}
		}
		for _, topic := range []string{"__cluster_metadata", "deleted"} {
			if strings.Contains(got, topic) {
				t.Errorf("%s: topic %s in %s", name, topic, got)
			}
		}
	}
}

// said is an answer as text.
func said(t *testing.T, resp kmsg.Response) string {
	t.Helper()
	b, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// idText is an id as it stands in said.
func idText(t *testing.T, id abi.UUID) string {
	t.Helper()
	b, err := json.Marshal([16]byte(id))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestClientsLearnTheNewID: the id of a topic that is deleted, or that another one replaced, is unknown; a name that nobody has
// any more is too. So a client asks for metadata, and does not reset its offset.
func TestClientsLearnTheNewID(t *testing.T) {
	v := hiding(t)
	w := v.dial(t)
	code := func(name string, id abi.UUID, version int16) reader.Code {
		resp := ask[*kmsg.FetchResponse](w, fetchNaming(name, id), version)
		return reader.Code(resp.Topics[0].Partitions[0].ErrorCode)
	}
	for name, tt := range map[string]struct {
		topic   string
		id      abi.UUID
		version int16
		want    reader.Code
	}{
		"deleted, by id":    {"", kafkabytes.ID(3), 18, reader.UnknownTopicID},
		"deleted, by name":  {"deleted", abi.UUID{}, 12, reader.UnknownTopicOrPartition},
		"replaced, by id":   {"", kafkabytes.ID(5), 18, reader.UnknownTopicID},
		"the new id":        {"", kafkabytes.ID(4), 18, reader.None},
		"the name":          {"replaced", abi.UUID{}, 12, reader.None},
		"KRaft's, by id":    {"", kafkabytes.ID(1), 18, reader.UnknownTopicID},
		"KRaft's, by name":  {"__cluster_metadata", abi.UUID{}, 12, reader.UnknownTopicOrPartition},
		"an id of nobody's": {"", kafkabytes.ID(77), 18, reader.UnknownTopicID},
	} {
		if got := code(tt.topic, tt.id, tt.version); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	list := ask[*kmsg.ListOffsetsResponse](w, listNaming(-1)("deleted", abi.UUID{}), 10).Topics[0].Partitions[0]
	if reader.Code(list.ErrorCode) != reader.UnknownTopicOrPartition || list.Offset != -1 {
		t.Errorf("the offsets of a deleted topic: %+v", list)
	}
}
