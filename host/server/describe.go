package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/format"
)

// describeConfigs tells what is known of topics' settings, and the broker's. None of them can be changed here.
func describeConfigs(ctx context.Context, c *conn, req *request, q *kmsg.DescribeConfigsRequest) (*kmsg.DescribeConfigsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, settingsWait)
	defer cancel()
	resp, may := kmsg.NewPtrDescribeConfigsResponse(), c.may(req)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := map[resource]bool{} // each once
	for _, r := range q.Resources {
		key := resource{r.ResourceType, r.ResourceName}
		if seen[key] {
			continue
		}
		seen[key] = true
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		settings, source, err := may.configs(ctx, &r)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code, &err.text
		}
		for i := range settings {
			of := &settings[i]
			if r.ConfigNames != nil && !slices.Contains(r.ConfigNames, of.name) {
				continue
			}
			one := kmsg.NewDescribeConfigsResponseResourceConfig()
			one.Name, one.Value, one.Source = of.name, &of.value, source
			one.ReadOnly, one.ConfigType = of.fixed, of.kind // what is read-only is not copied to another cluster
			out.Configs = append(out.Configs, one)
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// refusal is an error of one part of a request.
type refusal struct {
	code int16
	text string
}

// configs are the settings of a topic or of the broker, by name.
func (m may) configs(ctx context.Context, r *kmsg.DescribeConfigsRequestResource) ([]setting, kmsg.ConfigSource, *refusal) {
	s := m.c.s
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if !m.topic(access.Describe, r.ResourceName) {
			return nil, 0, &refusal{topicAuthorizationFailed, "no rule allows to describe this topic"}
		}
		t := s.named(r.ResourceName)
		if t == nil && !format.ValidTopic(r.ResourceName) {
			return nil, 0, &refusal{invalidTopic, "no topic can have this name"}
		}
		if t == nil {
			return nil, 0, &refusal{unknownTopicOrPartition, "there is no such topic"}
		}
		out := slices.Clone(s.settings(ctx, t))
		slices.SortFunc(out, func(a, b setting) int { return cmp.Compare(a.name, b.name) })
		return out, kmsg.ConfigSourceDynamicTopicConfig, nil
	case kmsg.ConfigResourceTypeBroker:
		if !m.cluster() {
			return nil, 0, &refusal{clusterAuthorizationFailed, "no rule allows to describe the cluster"}
		}
		if r.ResourceName != "" && r.ResourceName != strconv.Itoa(int(s.node)) {
			return nil, 0, &refusal{invalidRequest, fmt.Sprintf("this is broker %d", s.node)}
		}
		var out []setting
		values := s.live.Load().Settings
		for _, name := range slices.Sorted(maps.Keys(values)) {
			out = append(out, setting{name, values[name], kmsg.ConfigTypeString, true})
		}
		return out, kmsg.ConfigSourceStaticBrokerConfig, nil
	}
	return nil, 0, &refusal{invalidRequest, "topics and the broker have a configuration here"}
}

// describeLogDirs tells what lies in the local tier, to those who may see the cluster.
func describeLogDirs(_ context.Context, c *conn, req *request, q *kmsg.DescribeLogDirsRequest) (*kmsg.DescribeLogDirsResponse, error) {
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	if !c.may(req).cluster() {
		resp.ErrorCode = clusterAuthorizationFailed
		return resp, nil
	}
	wanted := map[topicPartition]bool{}
	for _, t := range q.Topics {
		for _, p := range t.Partitions {
			wanted[topicPartition{t.Topic, p}] = true
		}
	}
	for _, d := range c.s.host.LogDirs() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir, dir.TotalBytes, dir.UsableBytes = d.Path, -1, -1
		for _, p := range d.Partitions {
			if q.Topics != nil && !wanted[topicPartition{p.Topic, p.Partition}] || c.s.named(p.Topic) == nil { // null is all
				continue
			}
			if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != p.Topic {
				dir.Topics = append(dir.Topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: p.Topic})
			}
			t := &dir.Topics[len(dir.Topics)-1]
			t.Partitions = append(t.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: p.Partition, Size: p.Bytes})
		}
		resp.Dirs = append(resp.Dirs, dir)
	}
	return resp, nil
}
