package server

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// ruled serves a topic by rules in which T stands for its name, to everybody.
func ruled(t *testing.T, rules string) (*served, *host.Topic) {
	t.Helper()
	k := newKeep(t)
	topic := serve(t, local, Options{}).host.Topics()[0]
	return k.serve(access.Options{RulesFile: k.write("acl", strings.ReplaceAll(rules, "T", topic.Name))}, Options{}), topic
}

// codes are what a client hears about a topic, by request.
func codes(w *wire, topic *host.Topic) map[string]int16 {
	out := map[string]int16{}
	named := kmsg.NewPtrMetadataRequest()
	named.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic.Name}}
	out["metadata"] = ask[*kmsg.MetadataResponse](w, named, 9).Topics[0].ErrorCode
	named.Topics = []kmsg.MetadataRequestTopic{{TopicID: topic.ID}}
	byID := ask[*kmsg.MetadataResponse](w, named, 12).Topics[0]
	if out["metadata by id"] = byID.ErrorCode; byID.ErrorCode == topicAuthorizationFailed && byID.Topic != nil {
		w.t.Errorf("a topic that is denied by its id has a name: %s", *byID.Topic)
	}
	for name, version := range map[string]int16{"fetch": 12, "fetch by id": 13} {
		q := kmsg.NewPtrFetchRequest()
		q.MaxBytes, q.SessionEpoch = 1<<20, -1
		part := kmsg.NewFetchRequestTopicPartition()
		part.PartitionMaxBytes, part.FetchOffset = 1<<20, topic.Partitions[0].Offsets.LogStart
		q.Topics = []kmsg.FetchRequestTopic{{Topic: topic.Name, TopicID: topic.ID, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
		out[name] = ask[*kmsg.FetchResponse](w, q, version).Topics[0].Partitions[0].ErrorCode
	}
	list := kmsg.NewPtrListOffsetsRequest()
	offset := kmsg.NewListOffsetsRequestTopicPartition()
	offset.Timestamp = -2
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic.Name, Partitions: []kmsg.ListOffsetsRequestTopicPartition{offset}}}
	out["list offsets"] = ask[*kmsg.ListOffsetsResponse](w, list, 5).Topics[0].Partitions[0].ErrorCode
	epoch := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epoch.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic.Name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{kmsg.NewOffsetForLeaderEpochRequestTopicPartition()}}}
	out["leader epoch"] = ask[*kmsg.OffsetForLeaderEpochResponse](w, epoch, 4).Topics[0].Partitions[0].ErrorCode
	parts := kmsg.NewPtrDescribeTopicPartitionsRequest()
	parts.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic.Name}}
	out["describe partitions"] = ask[*kmsg.DescribeTopicPartitionsResponse](w, parts, 0).Topics[0].ErrorCode
	for kind, name := range map[kmsg.ConfigResourceType]string{kmsg.ConfigResourceTypeTopic: topic.Name, kmsg.ConfigResourceTypeBroker: ""} {
		conf := kmsg.NewPtrDescribeConfigsRequest()
		conf.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name}}
		out["configs of "+kind.String()] = ask[*kmsg.DescribeConfigsResponse](w, conf, 4).Resources[0].ErrorCode
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Topics = nil
	out["log dirs"] = ask[*kmsg.DescribeLogDirsResponse](w, dirs, 4).ErrorCode
	return out
}

// TestRules: each request says what may not be done, of what it concerns alone. The codes are those of Apache Kafka 4.3.1 with
// StandardAuthorizer for the same rights, but for a topic's configuration, which needs DESCRIBE_CONFIGS there.
func TestRules(t *testing.T) {
	const denied, cluster = topicAuthorizationFailed, clusterAuthorizationFailed
	describing := []string{"metadata", "metadata by id", "list offsets", "leader epoch", "describe partitions", "configs of TOPIC"}
	for rules, want := range map[string]struct{ describe, read, cluster int16 }{
		"* read topic:T\n* describe cluster": {0, 0, 0},
		"* read topic:T":                     {0, 0, cluster},
		"* describe topic:T":                 {0, denied, cluster},
		"* read topic:other* group:T":        {denied, denied, cluster},
		"# nothing":                          {denied, denied, cluster},
	} {
		v, topic := ruled(t, rules)
		w := v.dial(t)
		got := codes(w, topic)
		for _, name := range describing {
			if got[name] != want.describe {
				t.Errorf("%q: %s gives %d", rules, name, got[name])
			}
		}
		for _, name := range []string{"fetch", "fetch by id"} {
			if got[name] != want.read {
				t.Errorf("%q: %s gives %d", rules, name, got[name])
			}
		}
		for _, name := range []string{"configs of BROKER", "log dirs"} {
			if got[name] != want.cluster {
				t.Errorf("%q: %s gives %d", rules, name, got[name])
			}
		}
		all := kmsg.NewPtrMetadataRequest()
		all.Topics = nil
		if n := len(ask[*kmsg.MetadataResponse](w, all, 9).Topics); n != map[int16]int{0: len(v.host.Topics()), denied: 0}[want.describe] {
			t.Errorf("%q: %d topics of all", rules, n)
		}
		if n := len(ask[*kmsg.DescribeTopicPartitionsResponse](w, kmsg.NewPtrDescribeTopicPartitionsRequest(), 0).Topics); (n == 0) != (want.describe != 0) {
			t.Errorf("%q: %d topics described", rules, n)
		}
		stats := v.Stats()
		if n := stats.Denied["topic"]; (n == 0) != (want.describe == 0 && want.read == 0) || (stats.Denied["cluster"] == 0) != (want.cluster == 0) {
			t.Errorf("%q: counted %v", rules, stats.Denied)
		}
		before := strings.Count(v.log.String(), "denied by the rules")
		codes(w, topic)
		if after := strings.Count(v.log.String(), "denied by the rules"); after != before {
			t.Errorf("%q: what was denied is said again: %d, then %d", rules, before, after)
		}
	}
}

// TestRulesHide: a topic that is not there is denied as one that is, and an unknown id is unknown.
func TestRulesHide(t *testing.T) {
	v, _ := ruled(t, "# nothing")
	w := v.dial(t)
	missing := "missing"
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{{Topic: &missing}}
	if got := ask[*kmsg.MetadataResponse](w, q, 9).Topics[0].ErrorCode; got != topicAuthorizationFailed {
		t.Errorf("a topic that is not there: %d", got)
	}
	q.Topics = []kmsg.MetadataRequestTopic{{TopicID: abi.UUID{9}}}
	if got := ask[*kmsg.MetadataResponse](w, q, 12).Topics[0].ErrorCode; got != unknownTopicID {
		t.Errorf("an id that nobody has: %d", got)
	}
}

// TestMixedFetch: what is allowed is read, in its place among what is not.
func TestMixedFetch(t *testing.T) {
	v, topic := ruled(t, "* read topic:T")
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.SessionEpoch, q.MaxWaitMillis, q.MinBytes = 1<<20, 0, 30_000, 1<<20
	for _, name := range []string{"secret", topic.Name, "another"} {
		part := kmsg.NewFetchRequestTopicPartition()
		part.PartitionMaxBytes, part.FetchOffset = 1<<20, topic.Partitions[0].Offsets.LogStart
		q.Topics = append(q.Topics, kmsg.FetchRequestTopic{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{part}})
	}
	w := v.dial(t)
	resp := ask[*kmsg.FetchResponse](w, q, 12)
	for i, want := range []int16{topicAuthorizationFailed, 0, topicAuthorizationFailed} {
		p := resp.Topics[i].Partitions[0]
		if resp.Topics[i].Topic != q.Topics[i].Topic || p.ErrorCode != want || (len(p.RecordBatches) > 0) != (want == 0) {
			t.Errorf("%s: code %d, %d bytes", resp.Topics[i].Topic, p.ErrorCode, len(p.RecordBatches))
		}
	}
	if n, _ := v.sessions.Size(); resp.SessionID != 0 || n != 0 { // it would not hear of what it is denied each time
		t.Errorf("it has a session: %d", resp.SessionID)
	}
}

// TestRulesChange: a rule that is taken away counts for connections that are open.
func TestRulesChange(t *testing.T) {
	k := newKeep(t)
	path := k.write("acl", "* read topic:*")
	v := k.serve(access.Options{RulesFile: path}, Options{})
	w := v.dial(t)
	topic := v.host.Topics()[0]
	if got := codes(w, topic)["fetch"]; got != 0 {
		t.Fatalf("code %d", got)
	}
	k.write("acl", "* describe topic:*")
	hammer.Eventually(t, 10e9, func() bool { return codes(w, topic)["fetch"] == topicAuthorizationFailed })
}

// TestDenials: each is said once, and so many within a time, whatever names a client makes up.
func TestDenials(t *testing.T) {
	at := time.Now()
	d := denials{now: func() time.Time { return at }}
	said := func() (n int) {
		for i := range 3 * deniedMax {
			if d.first(denial{name: strconv.Itoa(i)}) {
				n++
			}
		}
		return n
	}
	if n := said(); n != deniedMax {
		t.Errorf("%d are said", n)
	}
	if at = at.Add(deniedTime - 1); said() != 0 {
		t.Error("they are said again before the time is over")
	}
	if at = at.Add(1); said() != deniedMax {
		t.Error("after the time they are not said again")
	}
}
