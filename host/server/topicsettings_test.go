package server

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// settingsOf is what a client is told of a topic's settings, and which of them it may copy.
func settingsOf(t *testing.T, v *served, topic string) (values map[string]string, copied map[string]bool) {
	t.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
	resp := ask[*kmsg.DescribeConfigsResponse](v.dial(t), q, 4).Resources[0]
	values, copied = map[string]string{}, map[string]bool{}
	for _, c := range resp.Configs {
		values[c.Name] = *c.Value
		copied[c.Name] = !c.ReadOnly
		if c.Source != kmsg.ConfigSourceDynamicTopicConfig || c.ConfigType == kmsg.ConfigTypeUnknown {
			t.Errorf("%s: source %v, type %v", c.Name, c.Source, c.ConfigType)
		}
	}
	return values, copied
}

// TestTopicSettings: what is known of a topic's settings is told, as settings that its copy gets, and nothing else.
func TestTopicSettings(t *testing.T) {
	const mib = 1 << 20
	whole := func(base int64) kafkabytes.Batch { return kafkabytes.Batch{Base: base, Last: base + 1} }
	remote := func(sizes ...int64) *served {
		var segs []*kafkabytes.Segment
		for i, size := range sizes {
			s := kafkabytes.NewSegment(t, tp("orders"), byte(i+1), whole(int64(2*i)))
			s.Meta.SizeBytes = size
			segs = append(segs, s)
		}
		meta := t.TempDir()
		kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(segs...)...)
		return serveHost(t, host.Config{RSM: memrsm.New(memrsm.Inline, segs...), Metadata: "dir:" + meta}, Options{})
	}
	lies := func(id abi.TopicIDPartition, batches ...kafkabytes.Batch) *served {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, id, kafkabytes.NewSegment(t, id, 1, batches...))
		return serve(t, dir, Options{})
	}
	always := map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	with := func(more map[string]string) map[string]string {
		out := maps.Clone(always)
		maps.Copy(out, more)
		return out
	}
	for name, tt := range map[string]struct {
		v    *served
		want map[string]string
	}{
		"a local topic":              {lies(tp("orders"), whole(0), whole(2)), with(map[string]string{"remote.storage.enable": "false", "message.timestamp.type": "CreateTime"})},
		"with the broker's times":    {lies(tp("orders"), whole(0), kafkabytes.Batch{Base: 2, Last: 3, Attributes: 8}), with(map[string]string{"remote.storage.enable": "false", "message.timestamp.type": "LogAppendTime"})},
		"compacted in a batch":       {lies(tp("orders"), kafkabytes.Batch{Base: 0, Last: 9}), with(map[string]string{"remote.storage.enable": "false", "message.timestamp.type": "CreateTime", "cleanup.policy": "compact"})},
		"compacted between batches":  {lies(tp("orders"), whole(0), whole(7)), with(map[string]string{"remote.storage.enable": "false", "message.timestamp.type": "CreateTime", "cleanup.policy": "compact"})},
		"a tiered topic":             {remote(7*mib, 8*mib, 8*mib-100), with(map[string]string{"remote.storage.enable": "true", "cleanup.policy": "delete", "segment.bytes": "8388608"})},
		"of segments of any size":    {remote(7*mib, 1*mib, 5*mib), with(map[string]string{"remote.storage.enable": "true", "cleanup.policy": "delete"})},
		"of one segment":             {remote(7 * mib), with(map[string]string{"remote.storage.enable": "true", "cleanup.policy": "delete"})},
		"of segments of a few bytes": {remote(75, 75), with(map[string]string{"remote.storage.enable": "true", "cleanup.policy": "delete", "segment.bytes": "1048576"})},
	} {
		got, copied := settingsOf(t, tt.v, "orders")
		if tt.want["remote.storage.enable"] == "true" {
			delete(got, "message.timestamp.type") // the segments are not as large as their metadata says
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if copied["remote.storage.enable"] || !copied["retention.ms"] || !copied["retention.bytes"] {
			t.Errorf("%s: copied are %v", name, copied)
		}
	}
}

// TestTimestampTypeOfTieredTopic: where all lies in the remote tier, the last batch is read there, once for many questions.
func TestTimestampTypeOfTieredTopic(t *testing.T) {
	seg := kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 1}, kafkabytes.Batch{Base: 2, Last: 3, Attributes: 8})
	meta := t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(seg)...)
	store := memrsm.New(memrsm.Inline, seg)
	v := serveHost(t, host.Config{RSM: store, Metadata: "dir:" + meta}, Options{})
	if got, _ := settingsOf(t, v, "orders"); got["message.timestamp.type"] != "LogAppendTime" {
		t.Errorf("%v", got)
	}
	before := logReads(store)
	if got, _ := settingsOf(t, v, "orders"); got["message.timestamp.type"] != "LogAppendTime" || logReads(store) != before {
		t.Errorf("asked again: %v, and %d reads more", got, logReads(store)-before)
	}
}
