package server

import (
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/server/fetchsession"
	"github.com/rsmhost/rsmhost/host/tally"
)

const (
	clientsMax  = 100       // clients that are counted by their id; who comes then shares OtherClients
	clientIdle  = time.Hour // a client that asked nothing for that long makes room where there is none
	clientIDMax = 64        // bytes of an id; ids are whatever a client wrote
)

// OtherClients is the id under which Stats has those clients for which there was no room.
const OtherClients = "other"

// Stats is how busy a Server is, and what it has done since it was made.
type Stats struct {
	Connections int
	Accepted    int64 // connections, also those that were refused
	Refused     int64 // connections closed at once, because there were too many
	Shed        int64 // connections closed because their clients did not take their answers
	Broken      int64 // connections closed because of what a client sent
	Strangers   int64 // connections closed because a client did not prove who it is

	Denied map[string]int64 // what the rules denied, by kind of resource: topic, group, cluster

	Requests map[string]RequestStats // by the name of the api, all that are served
	Clients  map[string]ClientStats  // by client id, OtherClients at least

	UnsentBytes       int64 // of answers that clients have not taken yet
	Sessions          int   // fetch sessions
	SessionPartitions int   // of all of them
	Waiting           int64 // fetches that wait for data
}

// RequestStats is what became of the requests of one api.
type RequestStats struct {
	Took   tally.Durations  // from its turn on the connection until its answer was taken, with the wait for data
	Errors map[string]int64 // by the name of the code; a code counts for each partition that was told it
}

// ClientStats is what a client asked for.
type ClientStats struct {
	Requests    int64
	Errors      int64 // codes that it was told
	RemoteBytes int64 // of answers that the remote tier was asked for
}

// clientCounts are ClientStats while they grow.
type clientCounts struct{ requests, failures, remoteBytes, last atomic.Int64 }

// failure names a code of an api.
type failure struct{ key, code int16 }

// counts are a Server's Stats while they grow.
type counts struct {
	accepted, refused, shed, broken atomic.Int64
	strangers                       atomic.Int64
	denied                          [access.Cluster + 1]atomic.Int64 // by kind
	took                            map[int16]*tally.Histogram       // by api key, all that are served
	failures                        tally.Table[failure, atomic.Int64]
	clients                         tally.Table[string, clientCounts]
}

// knownCodes are codes that are answered here, so that they are counted from zero.
var knownCodes = map[kmsg.Key][]reader.Code{
	kmsg.Fetch: {reader.UnknownServerError, reader.OffsetOutOfRange, reader.CorruptMessage, reader.UnknownTopicOrPartition, reader.NotLeaderOrFollower, reader.RequestTimedOut,
		reader.KafkaStorageError, reader.Code(fetchsession.IDNotFound), reader.Code(fetchsession.InvalidEpoch), reader.FencedLeaderEpoch, reader.UnknownLeaderEpoch,
		reader.UnknownTopicID, reader.Code(fetchsession.TopicIDError), reader.OffsetMovedToTiered, topicDenied},
	kmsg.ListOffsets: {reader.UnknownServerError, reader.CorruptMessage, reader.UnknownTopicOrPartition, reader.NotLeaderOrFollower, reader.RequestTimedOut, reader.UnsupportedVersion,
		reader.Code(invalidRequest), reader.KafkaStorageError, reader.FencedLeaderEpoch, reader.UnknownLeaderEpoch, topicDenied},
	kmsg.Metadata:             {reader.UnknownTopicOrPartition, reader.UnknownTopicID, topicDenied},
	kmsg.Produce:              {topicDenied},
	kmsg.OffsetForLeaderEpoch: {reader.UnknownTopicOrPartition, reader.FencedLeaderEpoch, reader.UnknownLeaderEpoch, topicDenied},
}

func newCounts(apis map[int16]*api) *counts {
	c := &counts{took: map[int16]*tally.Histogram{}}
	c.clients.Max = clientsMax
	for key := range apis {
		c.took[key] = &tally.Histogram{}
		for _, code := range knownCodes[kmsg.Key(key)] {
			c.failures.At(failure{key, int16(code)})
		}
	}
	return c
}

// ended counts a request whose turn came at began.
func (c *counts) ended(req *request, began time.Time) {
	if h := c.took[req.key]; h != nil {
		h.Observe(time.Since(began))
	}
	client := c.clientOf(req)
	client.requests.Add(1)
	client.last.Store(began.Unix())
}

// failed counts a code that a client was told.
func (c *counts) failed(req *request, code int16) {
	c.failures.At(failure{req.key, code}).Add(1)
	c.clientOf(req).failures.Add(1)
}

// clientOf is who asked. Those that have not proved who they are have no place of their own: they must not take all of them.
func (c *counts) clientOf(req *request) *clientCounts {
	if req.early {
		return &c.clients.Rest
	}
	return c.clients.At(clientID(req.client))
}

// fetched counts what the remote tier gave for a fetch.
func (c *counts) fetched(req *request, data *reader.FetchResponse) {
	var remote int64
	for i := range data.Partitions {
		if p := &data.Partitions[i]; p.Remote {
			remote += p.Size()
		}
	}
	if remote > 0 {
		c.clients.At(clientID(req.client)).remoteBytes.Add(remote)
	}
}

// told counts the codes of an answer. Fetches are the many, and are not looked through field by field. The code with which
// a newer client learns which versions are served is no failure.
func (c *counts) told(req *request, resp kmsg.Response) {
	if req.unsupported {
		return
	}
	f, ok := resp.(*fetchReply)
	if !ok {
		eachCode(reflect.ValueOf(resp), func(code int16) { c.failed(req, code) })
		return
	}
	if f.ErrorCode != 0 {
		c.failed(req, f.ErrorCode)
	}
	for i := range f.Topics {
		for j := range f.Topics[i].Partitions {
			if code := f.Topics[i].Partitions[j].ErrorCode; code != 0 {
				c.failed(req, code)
			}
		}
	}
}

// eachCode finds the error codes in an answer, on whatever level they stand.
func eachCode(v reflect.Value, fn func(int16)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachCode(v.Elem(), fn)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return
		}
		for i := range v.Len() {
			eachCode(v.Index(i), fn)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if k := f.Kind(); k == reflect.Slice || k == reflect.Struct {
				eachCode(f, fn)
			} else if k == reflect.Int16 && f.Int() != 0 && v.Type().Field(i).Name == "ErrorCode" {
				fn(int16(f.Int()))
			}
		}
	}
}

// clientID is a client's id as it is counted: bounded, and text. The table that it is a key of must not hold more of a
// request than that.
func clientID(id string) string {
	if len(id) > clientIDMax {
		id = strings.Clone(id[:clientIDMax])
	}
	return strings.ToValidUTF8(id, "\uFFFD")
}

// codeName is the protocol's name of a code.
func codeName(code int16) string {
	if err, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && err.Code == code { // it has an answer for codes it does not know
		return err.Message
	}
	return reader.Code(code).String()
}

// Stats tells how busy the server is.
func (s *Server) Stats() Stats {
	c := s.counts
	out := Stats{Connections: s.Connections(), Accepted: c.accepted.Load(), Refused: c.refused.Load(), Shed: c.shed.Load(), Broken: c.broken.Load(),
		Requests: map[string]RequestStats{}, Clients: map[string]ClientStats{}, Waiting: s.waits.Load()}
	out.Strangers, out.Denied = c.strangers.Load(), map[string]int64{}
	for _, kind := range []access.Kind{access.Topic, access.Group, access.Cluster} {
		out.Denied[kind.String()] = c.denied[kind].Load()
	}
	out.UnsentBytes = s.unsent.bytes()
	out.Sessions, out.SessionPartitions = s.sessions.Size()
	for key, h := range c.took {
		out.Requests[kmsg.NameForKey(key)] = RequestStats{h.Durations(), map[string]int64{}}
	}
	c.failures.Each(func(f failure, n *atomic.Int64) {
		if r, ok := out.Requests[kmsg.NameForKey(f.key)]; ok {
			r.Errors[codeName(f.code)] += n.Load()
		}
	})
	add := func(id string, n *clientCounts) {
		was := out.Clients[id] // one may call itself "other"
		out.Clients[id] = ClientStats{was.Requests + n.requests.Load(), was.Errors + n.failures.Load(), was.RemoteBytes + n.remoteBytes.Load()}
	}
	add(OtherClients, &c.clients.Rest)
	c.clients.Each(add)
	if len(out.Clients) >= clientsMax {
		c.forgetIdle(time.Now())
	}
	return out
}

// forgetIdle makes room for clients that come.
func (c *counts) forgetIdle(now time.Time) {
	idle := map[string]bool{}
	c.clients.Each(func(id string, n *clientCounts) { idle[id] = now.Sub(time.Unix(n.last.Load(), 0)) > clientIdle })
	c.clients.Keep(func(id string) bool { return !idle[id] })
}
