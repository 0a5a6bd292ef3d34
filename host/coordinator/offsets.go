package coordinator

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// Versions of the requests that kfake is asked with: the last ones in which topics have names.
const (
	innerCommit int16 = 9
	innerFetch  int16 = 9
)

// tp is a partition by the topic's name.
type tp struct {
	topic     string
	partition int32
}

// commit commits offsets. kfake says whether the member may, and whether the partitions are there; what it lets through is
// on disk before it is acknowledged.
func (s *Session) commit(ctx context.Context, client string, q *kmsg.OffsetCommitRequest) kmsg.Response {
	if code, why := s.c.admit(q.Group); code != 0 {
		return Refuse(q, code, why)
	}
	resp := q.ResponseKind().(*kmsg.OffsetCommitResponse)
	resp.Topics = refuseCommit(q, coordinatorNotAvailable)
	names, codes := s.c.precheck(q)

	s.c.gate.RLock()
	defer s.c.gate.RUnlock()
	said, err := s.ask(ctx, client, inner(q, names, codes))
	if err != nil {
		return resp
	}
	s.said(ctx, client, q.Group, said.(*kmsg.OffsetCommitResponse), codes)
	if changes := s.c.changes(q, names, codes); len(changes) > 0 {
		if code := s.c.save(q.Group, changes); code != 0 {
			for _, ch := range changes {
				codes[tp{ch.Topic, ch.Partition}] = code
			}
		}
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			p.ErrorCode = unknownTopicID
			if names[i] != "" {
				p.ErrorCode = codes[tp{names[i], p.Partition}]
			}
		}
	}
	return resp
}

// said takes over kfake's codes. Of a member of a group that has none, as after a restart, it says ILLEGAL_GENERATION where
// Kafka says UNKNOWN_MEMBER_ID, after which clients of both protocols join again.
func (s *Session) said(ctx context.Context, client, group string, resp *kmsg.OffsetCommitResponse, codes map[tp]int16) {
	var empty *bool
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == illegalGeneration && empty == nil {
				is := s.empty(ctx, client, group)
				empty = &is
			}
			if p.ErrorCode == illegalGeneration && *empty {
				p.ErrorCode = unknownMemberID
			}
			codes[tp{t.Topic, p.Partition}] = p.ErrorCode
		}
	}
}

// empty reports a group without members of the classic protocol.
func (s *Session) empty(ctx context.Context, client, group string) bool {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version, q.Groups = 5, []string{group}
	resp, err := s.ask(ctx, client, q)
	if err != nil {
		return false
	}
	groups := resp.(*kmsg.DescribeGroupsResponse).Groups
	return len(groups) == 1 && len(groups[0].Members) == 0
}

// precheck finds the names of a commit's topics, empty for an id that is not served, and refuses what is too large to keep.
func (c *Coordinator) precheck(q *kmsg.OffsetCommitRequest) (names []string, codes map[tp]int16) {
	names, codes = make([]string, len(q.Topics)), map[tp]int16{}
	for i, t := range q.Topics {
		names[i] = t.Topic
		if q.Version >= 10 {
			is, _ := c.known.identified(t.TopicID)
			names[i] = is.Name
		}
		for _, p := range t.Partitions {
			if p.Metadata != nil && len(*p.Metadata) > maxMetadata {
				codes[tp{names[i], p.Partition}] = offsetMetadataTooLarge
			}
		}
	}
	return names, codes
}

// inner is the commit that kfake is asked about: without what was refused, and without metadata, which it must not keep too.
func inner(q *kmsg.OffsetCommitRequest, names []string, codes map[tp]int16) *kmsg.OffsetCommitRequest {
	out := *q
	out.Version, out.Topics = min(q.Version, innerCommit), nil
	for i, t := range q.Topics {
		if names[i] == "" {
			continue
		}
		one := kmsg.NewOffsetCommitRequestTopic()
		one.Topic = names[i]
		for _, p := range t.Partitions {
			if codes[tp{names[i], p.Partition}] == 0 {
				p.Metadata = nil
				one.Partitions = append(one.Partitions, p)
			}
		}
		out.Topics = append(out.Topics, one)
	}
	return &out
}

// changes is what a commit changes in the store.
func (c *Coordinator) changes(q *kmsg.OffsetCommitRequest, names []string, codes map[tp]int16) []change {
	var out []change
	at := c.now().UnixMilli()
	for i, t := range q.Topics {
		is, ok := c.known.named(names[i])
		for _, p := range t.Partitions {
			code, asked := codes[tp{names[i], p.Partition}]
			if !ok || !asked || code != 0 {
				continue
			}
			ch := change{Group: q.Group, Topic: is.Name, ID: is.ID, Partition: p.Partition, Offset: p.Offset, Epoch: p.LeaderEpoch, At: at}
			if p.Metadata != nil {
				ch.Metadata = *p.Metadata
			}
			out = append(out, ch)
		}
	}
	return out
}

// save keeps changes, or gives the code that says why not.
func (c *Coordinator) save(group string, changes []change) int16 {
	switch err := c.offsets.save(changes); {
	case err == nil:
		return 0
	case abi.KindOf(err) == abi.Exhausted:
		c.log.Warn("a commit is refused", "group", group, "error", err)
		return invalidCommitOffsetSize
	default:
		c.log.Error("a commit could not be kept", "group", group, "error", err)
		return coordinatorNotAvailable
	}
}

// fetch tells committed offsets. kfake says whether the member may ask.
func (s *Session) fetch(ctx context.Context, client string, q *kmsg.OffsetFetchRequest) kmsg.Response {
	groups := asked(q)
	may := kmsg.NewPtrOffsetFetchRequest()
	may.Version = innerFetch
	for _, g := range groups {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		may.Groups = append(may.Groups, g)
	}
	said, err := s.ask(ctx, client, may)
	if err != nil {
		return Refuse(q, coordinatorNotAvailable, err.Error())
	}
	resp := q.ResponseKind().(*kmsg.OffsetFetchResponse)
	for i, g := range said.(*kmsg.OffsetFetchResponse).Groups {
		if q.Version < 8 && g.ErrorCode != 0 && g.ErrorCode != groupIDNotFound {
			return Refuse(q, g.ErrorCode, "")
		}
		if g.ErrorCode == groupIDNotFound {
			g.ErrorCode = 0 // a group that committed nothing: Kafka says so of each partition
		}
		g.Topics = []kmsg.OffsetFetchResponseGroupTopic{}
		if g.ErrorCode == 0 {
			g.Topics = s.c.committed(&groups[i], q.Version)
		}
		resp.Groups = append(resp.Groups, g)
	}
	if q.Version < 8 {
		single(resp)
	}
	return resp
}

// asked is the groups of a fetch of any version.
func asked(q *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if q.Version >= 8 {
		return q.Groups
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = q.Group
	if q.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range q.Topics {
		one := kmsg.NewOffsetFetchRequestGroupTopic()
		one.Topic, one.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, one)
	}
	return []kmsg.OffsetFetchRequestGroup{g}
}

// single puts the answer where versions before 8 have it.
func single(r *kmsg.OffsetFetchResponse) {
	if len(r.Groups) != 1 {
		r.ErrorCode = coordinatorNotAvailable
		return
	}
	r.ErrorCode = r.Groups[0].ErrorCode
	for _, t := range r.Groups[0].Topics {
		one := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetFetchResponseTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch, part.Metadata, part.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			one.Partitions = append(one.Partitions, part)
		}
		r.Topics = append(r.Topics, one)
	}
	r.Groups = nil
}

// committed is what a group committed of the partitions that are asked for, or of all of the topics that are served.
func (c *Coordinator) committed(g *kmsg.OffsetFetchRequestGroup, version int16) []kmsg.OffsetFetchResponseGroupTopic {
	if g.Topics == nil {
		return c.all(g.Group)
	}
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(g.Topics))
	for _, t := range g.Topics {
		is, ok := c.known.named(t.Topic)
		if version >= 10 {
			is, ok = c.known.identified(t.TopicID)
		}
		one := kmsg.NewOffsetFetchResponseGroupTopic()
		one.Topic, one.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := answer(p, c.offsets.find(g.Group, is.Topic, p))
			if version >= 10 && !ok {
				part.ErrorCode = unknownTopicID
			}
			one.Partitions = append(one.Partitions, part)
		}
		out = append(out, one)
	}
	return out
}

// all is what a group committed of the topics that are served.
func (c *Coordinator) all(group string) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, at := range c.offsets.list(group) { // by topic and partition
		is, ok := c.known.named(at.topic)
		if !ok || !at.of(is.Topic) {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Topic != is.Name {
			one := kmsg.NewOffsetFetchResponseGroupTopic()
			one.Topic, one.TopicID = is.Name, is.ID
			out = append(out, one)
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, answer(at.partition, c.offsets.find(group, is.Topic, at.partition)))
	}
	return out
}

// answer is one partition of an answer; nothing was committed where ok is nil.
func answer(partition int32, is *committed) kmsg.OffsetFetchResponseGroupTopicPartition {
	out := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	out.Partition, out.Offset, out.LeaderEpoch, out.Metadata = partition, -1, -1, kmsg.StringPtr("")
	if is != nil {
		out.Offset, out.LeaderEpoch, out.Metadata = is.offset, is.epoch, &is.metadata
	}
	return out
}

// deleteOffsets deletes offsets of topics that the group does not read.
func (s *Session) deleteOffsets(ctx context.Context, client string, q *kmsg.OffsetDeleteRequest) kmsg.Response {
	s.c.gate.Lock()
	defer s.c.gate.Unlock()
	resp := s.mayDelete(ctx, client, q)
	if resp.ErrorCode != 0 {
		return resp
	}
	var changes []change
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				changes = append(changes, s.c.offsets.deletions(q.Group, func(at place) bool { return at.topic == t.Topic && at.partition == p.Partition })...)
			}
		}
	}
	if code := s.c.save(q.Group, changes); code != 0 {
		return Refuse(q, code, "")
	}
	return resp
}

// mayDelete says of which partitions offsets may be deleted: not of topics that members subscribe to. kfake knows that of
// the classic protocol alone.
func (s *Session) mayDelete(ctx context.Context, client string, q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse {
	look := kmsg.NewPtrConsumerGroupDescribeRequest()
	look.Groups = []string{q.Group}
	reads, of848 := map[string]bool{}, false
	for _, g := range s.forward(ctx, client, look).(*kmsg.ConsumerGroupDescribeResponse).Groups {
		for _, m := range g.Members {
			of848 = true
			for _, t := range m.SubscribedTopics {
				reads[t] = true
			}
			for _, t := range append(m.Assignment.TopicPartitions, m.TargetAssignment.TopicPartitions...) { // of a pattern
				is, _ := s.c.known.toReal(t.TopicID)
				reads[is.Name] = true
			}
		}
	}
	if !of848 {
		return s.forward(ctx, client, q).(*kmsg.OffsetDeleteResponse)
	}
	resp := q.ResponseKind().(*kmsg.OffsetDeleteResponse)
	for _, t := range q.Topics {
		one := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			part := kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition}
			if reads[t.Topic] {
				part.ErrorCode = groupSubscribedToTopic
			}
			one.Partitions = append(one.Partitions, part)
		}
		resp.Topics = append(resp.Topics, one)
	}
	return resp
}

// deleteGroups deletes groups that have no members, with what they committed.
func (s *Session) deleteGroups(ctx context.Context, client string, q *kmsg.DeleteGroupsRequest) kmsg.Response {
	s.c.gate.Lock()
	defer s.c.gate.Unlock()
	resp := s.forward(ctx, client, q).(*kmsg.DeleteGroupsResponse)
	for i := range resp.Groups {
		if g := &resp.Groups[i]; g.ErrorCode == 0 || g.ErrorCode == groupIDNotFound {
			changes := s.c.offsets.deletions(g.Group, func(place) bool { return true })
			if code := s.c.save(g.Group, changes); code != 0 {
				g.ErrorCode = code
				continue
			}
			if len(changes) > 0 {
				g.ErrorCode = 0
			}
			s.c.forget(g.Group)
		}
	}
	return resp
}
