package server

import (
	"slices"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
)

// What is not visible is not there: each request finds its topics by what stands here, and by nothing else. A host knows more
// of them: the log that KRaft keeps for itself, topics that are deleted, and incarnations that another one replaced. A client
// that asks for one of those hears what it hears of a topic that never was, so that it learns the id that counts now.

// topics are those that clients may know of, by name.
func (s *Server) topics() []*host.Topic {
	return slices.DeleteFunc(s.host.Topics(), func(t *host.Topic) bool { return !t.Visible() })
}

// named finds the topic that a name means; nil: there is none. An "@" in it is not for clients.
func (s *Server) named(name string) *host.Topic {
	if t, ok := s.host.Named(name); ok && t.Visible() && !strings.Contains(name, "@") {
		return t
	}
	return nil
}

// identified finds the topic that an id means; nil: there is none.
func (s *Server) identified(id abi.UUID) *host.Topic {
	if t, ok := s.host.Incarnation(id); ok && t.Visible() {
		return t
	}
	return nil
}

// find is identified where there is an id, else named.
func (s *Server) find(name string, id abi.UUID) *host.Topic {
	if id != (abi.UUID{}) {
		return s.identified(id)
	}
	return s.named(name)
}

// missing is what a client is told of a topic that is not there: by its id where it has one.
func missing(name string, id abi.UUID) (reader.Code, error) {
	if id != (abi.UUID{}) {
		return reader.UnknownTopicID, abi.Errorf("find topic", id.String(), abi.NotFound, "%s (%d): no topic that is served has this id",
			reader.UnknownTopicID, reader.UnknownTopicID)
	}
	return reader.UnknownTopicOrPartition, abi.Errorf("find topic", short(name), abi.NotFound, "%s (%d): no topic that is served has this name",
		reader.UnknownTopicOrPartition, reader.UnknownTopicOrPartition)
}

// refusal is why nothing of a topic is read for a client: a rule, or that there is no such topic. The zero code: it is read.
func (m may) refusal(op access.Operation, name string, id abi.UUID) (reader.Code, error) {
	if !m.named(op, name, id) {
		return topicDenied, errTopicDenied
	}
	if m.c.s.find(name, id) == nil {
		return missing(name, id)
	}
	return reader.None, nil
}
