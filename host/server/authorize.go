package server

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
)

// topicDenied is TOPIC_AUTHORIZATION_FAILED as a code of a read.
const topicDenied = reader.Code(topicAuthorizationFailed)

var errTopicDenied = errors.New("TOPIC_AUTHORIZATION_FAILED (29): no rule allows it")

// may is what one request's client may do. It is made once a request, and decides by the rules that were in force then.
type may struct {
	c     *conn
	req   *request
	rules *access.Rules
}

// may gives what a request's client may do.
func (c *conn) may(req *request) may { return may{c, req, c.s.o.Access.Rules()} }

// everything reports that there is nothing to decide.
func (m may) everything() bool { return m.rules == nil }

// topic says whether the client may do this to a topic, whether or not there is one. What is denied is said in the log.
func (m may) topic(op access.Operation, name string) bool { return m.ask(op, access.Topic, name) }

// group says whether the client may do this to a consumer group: Read to join it, to commit and to fetch offsets as a
// member, Describe to see it. What is denied is said in the log, and answered with GROUP_AUTHORIZATION_FAILED (30).
func (m may) group(op access.Operation, name string) bool { return m.ask(op, access.Group, name) }

// cluster says whether the client may see what is not a topic's: the broker's settings, its directories.
func (m may) cluster() bool { return m.ask(access.Describe, access.Cluster, "") }

// sees is topic or group without a line in the log: for lists, which leave out what a client may not see.
func (m may) sees(kind access.Kind, name string) bool {
	return m.rules.Allow(m.c.who, access.Describe, kind, name)
}

func (m may) ask(op access.Operation, kind access.Kind, name string) bool {
	if m.rules.Allow(m.c.who, op, kind, name) {
		return true
	}
	m.c.s.counts.denied[kind].Add(1)
	what := denial{m.c.who, short(m.req.client), op, kind, short(name)}
	if m.c.s.denied.first(what) {
		m.c.s.log.Warn("denied by the rules; said once", "principal", string(what.who), "client", what.client, "operation", op.String(),
			kind.String(), what.name, "request", m.req.id, "api", kmsg.NameForKey(m.req.key), "from", m.c.nc.RemoteAddr().String())
	}
	return false
}

// topicID is topic for one that is named by its id. An id that nobody has is nobody's secret.
func (m may) topicID(op access.Operation, id abi.UUID) bool {
	if m.everything() {
		return true
	}
	t := m.c.s.identified(id)
	return t == nil || m.topic(op, t.Name)
}

// named is topic or topicID, by what a request has.
func (m may) named(op access.Operation, name string, id abi.UUID) bool {
	if id != (abi.UUID{}) {
		return m.topicID(op, id)
	}
	return m.topic(op, name)
}

// clusterOperations are those that the client may do to the cluster, a bit for each code. Nobody may change anything here.
func (m may) clusterOperations() (bits int32) {
	if m.sees(access.Cluster, "") {
		bits = 1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationDescribeConfigs
	}
	return bits
}

// topicOperations is clusterOperations for a topic.
func (m may) topicOperations(name string) (bits int32) {
	if m.sees(access.Topic, name) {
		bits = 1<<kmsg.ACLOperationDescribe | 1<<kmsg.ACLOperationDescribeConfigs
	}
	if m.rules.Allow(m.c.who, access.Read, access.Topic, name) {
		bits |= 1 << kmsg.ACLOperationRead
	}
	return bits
}

// topics are those that a client may see.
func (m may) topics(all []*host.Topic) []*host.Topic {
	if m.everything() {
		return all
	}
	var out []*host.Topic
	for _, t := range all {
		if m.sees(access.Topic, t.Name) {
			out = append(out, t)
		}
	}
	return out
}
