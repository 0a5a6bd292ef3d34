package server

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// once leaves out of a request about groups what stands in it again: a group, or a partition of one. What is told of each
// may be as long as its members' metadata, so that a question of 2 MiB that repeats it would have an answer of gigabytes.
// The rules need it too: what a client may see of a group depends on how it asked. A broker answers each as often as it is
// named; no client names one twice.
func once(q kmsg.Request) {
	switch q := q.(type) {
	case *kmsg.DescribeGroupsRequest:
		q.Groups = eachOnce(q.Groups)
	case *kmsg.ConsumerGroupDescribeRequest:
		q.Groups = eachOnce(q.Groups)
	case *kmsg.DeleteGroupsRequest:
		q.Groups = eachOnce(q.Groups)
	case *kmsg.OffsetFetchRequest:
		seen := map[offsetOf]bool{}
		for i := range q.Topics {
			t := &q.Topics[i]
			t.Partitions = partitionsOnce(seen, offsetOf{topic: t.Topic}, t.Partitions)
		}
		groups := map[string]bool{}
		q.Groups = slices.DeleteFunc(q.Groups, func(g kmsg.OffsetFetchRequestGroup) bool { return again(groups, g.Group) })
		for i := range q.Groups {
			clear(seen)
			for j := range q.Groups[i].Topics {
				t := &q.Groups[i].Topics[j]
				t.Partitions = partitionsOnce(seen, offsetOf{topic: t.Topic, id: t.TopicID}, t.Partitions)
			}
		}
	}
}

// offsetOf names a committed offset of a group.
type offsetOf struct {
	topic     string
	id        [16]byte
	partition int32
}

// partitionsOnce leaves out the partitions of a topic that were seen.
func partitionsOnce(seen map[offsetOf]bool, of offsetOf, partitions []int32) []int32 {
	return slices.DeleteFunc(partitions, func(p int32) bool {
		of.partition = p
		return again(seen, of)
	})
}

// eachOnce leaves out what stands in a list again.
func eachOnce[T comparable](list []T) []T {
	seen := map[T]bool{}
	return slices.DeleteFunc(list, func(v T) bool { return again(seen, v) })
}

// again reports what was seen before, and notes it.
func again[T comparable](seen map[T]bool, v T) bool {
	before := seen[v]
	seen[v] = true
	return before
}
