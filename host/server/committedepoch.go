package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
)

// boundEpochs takes leader epochs that the lineage does not have out of what groups committed: a group may have read at a broker,
// or from a log directory, that knew later ones. A client takes an epoch that it is given for the partition's, and then passes over
// all metadata with a lower one.
func (s *Server) boundEpochs(resp kmsg.Response) kmsg.Response {
	r, ok := resp.(*kmsg.OffsetFetchResponse)
	if !ok {
		return resp
	}
	for i := range r.Topics {
		t := s.named(r.Topics[i].Topic)
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			p.LeaderEpoch = boundEpoch(t, p.Partition, p.LeaderEpoch)
		}
	}
	for i := range r.Groups {
		for j := range r.Groups[i].Topics {
			at := &r.Groups[i].Topics[j]
			t := s.eitherNamed(at.Topic, at.TopicID)
			for k := range at.Partitions {
				p := &at.Partitions[k]
				p.LeaderEpoch = boundEpoch(t, p.Partition, p.LeaderEpoch)
			}
		}
	}
	return r
}

// eitherNamed finds a topic by its name, or where there is none by its id; nil: there is none.
func (s *Server) eitherNamed(name string, id abi.UUID) *host.Topic {
	if name != "" {
		return s.named(name)
	}
	return s.identified(id)
}

// boundEpoch is a leader epoch, or -1 where the partition's lineage does not reach it; t may be nil.
func boundEpoch(t *host.Topic, partition, epoch int32) int32 {
	if t == nil {
		return -1
	}
	if p := t.Partition(partition); p == nil || epoch > p.LatestLeaderEpoch() {
		return -1
	}
	return epoch
}
