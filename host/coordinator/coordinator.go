package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// What bounds that which clients make it keep, and Kafka's defaults of what they may rely on.
const (
	maxGroups     = 10_000   // at once
	maxGroupName  = 1024     // bytes
	maxMembers    = 1000     // group.max.size, as many as there are connections
	maxMetadata   = 4096     // offset.metadata.max.bytes
	maxOffsetData = 64 << 20 // bytes of all committed offsets with their names, in memory
	maxGroupData  = 16 << 20 // of those of one group
	maxMemberData = 64 << 20 // bytes of what all members said when they joined, and were assigned

	sessionMin     = 6 * time.Second  // group.min.session.timeout.ms
	sessionMax     = 30 * time.Minute // group.max.session.timeout.ms
	memberSession  = 45 * time.Second // group.consumer.session.timeout.ms
	memberInterval = 5 * time.Second  // group.consumer.heartbeat.interval.ms

	retention  = 7 * 24 * time.Hour // offsets.retention.minutes
	sweepEvery = 10 * time.Minute   // offsets.retention.check.interval.ms
)

// Topic is a topic that is served.
type Topic struct {
	Name       string
	ID         abi.UUID // zero where nobody knows it
	Partitions int32    // the highest number and one more
}

// Topics tells a Coordinator what is served. It is safe for concurrent use.
type Topics interface {
	// Topics are those that names mean now, each name once.
	Topics() []Topic
	// Changed gives a channel that is closed when Topics may give something else than before the call.
	Changed() <-chan struct{}
}

// Options of a Coordinator. Only Topics is required.
type Options struct {
	Topics Topics
	// Dir is the directory of the committed offsets, which is made where it is missing and belongs to this Coordinator
	// alone; empty: they are in memory and end with it.
	Dir string
	// Others has committed offsets of other coordinators, which are taken up before anything is served; nil: there are none.
	Others Others
	Log    *slog.Logger // nil: nothing is logged
}

// Coordinator coordinates all groups.
type Coordinator struct {
	log     *slog.Logger
	topics  Topics
	known   registry
	members ledger
	left    left
	away    away
	kinds   kinds
	stirs   stirs
	waits   waits
	offsets *store
	inner   *kfake.Cluster
	pipes   *pipes
	served  map[int16]Range
	now     func() time.Time

	draining  chan struct{} // closed: nothing is waited for
	drainOnce sync.Once
	closing   func() error  // closes once
	stop      chan struct{} // closed: follow ends
	followed  chan struct{} // closed when it has

	newcomers atomic.Int64 // so far

	gate      sync.RWMutex        // held for writing while offsets are deleted: a commit is before or after, in both places
	goneSince map[place]time.Time // guarded by it: of the topics that were not served at the last sweep; the partition is 0

	mu         sync.Mutex // guards what follows
	groups     map[string]struct{}
	emptySince map[string]time.Time // of the groups that had no member at the last sweep

	admin sync.Mutex // one request at a time
	link  *link      // of the coordinator's own requests
}

// Range is the versions of a request that are served.
type Range struct{ Min, Max int16 }

// keys are the requests that go here.
var keys = []kmsg.Key{kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.SyncGroup,
	kmsg.DescribeGroups, kmsg.ListGroups, kmsg.DeleteGroups, kmsg.OffsetDelete, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe}

// Open starts a coordinator with the offsets that its directory has. An error names the file or the directory, by the
// kinds of abi.FileKind; PRECONDITION is a file of another version. A file that is damaged is no error: what can be read
// of it is kept, the rest lies beside it, and the log says so.
func Open(o Options) (*Coordinator, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Coordinator{log: o.Log, topics: o.Topics, now: time.Now, pipes: newPipes(), draining: make(chan struct{}), stop: make(chan struct{}),
		followed: make(chan struct{}), groups: map[string]struct{}{}, emptySince: map[string]time.Time{}}
	var err error
	if c.offsets, err = openStore(o.Dir, o.Log); err != nil {
		return nil, err
	}
	if o.Others != nil {
		if err = c.takeUp(o.Others); err != nil {
			return nil, errors.Join(err, c.offsets.close())
		}
	}
	if c.inner, err = c.newInner(); err != nil {
		return nil, errors.Join(abi.E("start the group coordinator", "", abi.Internal, err), c.offsets.close())
	}
	c.watch()
	c.link = c.newLink("")
	changed := c.topics.Changed() // taken before the look: what comes during it is not missed
	if err := c.begin(); err != nil {
		c.link.close()
		c.inner.Close()
		return nil, errors.Join(abi.E("start the group coordinator", "", abi.Internal, err), c.offsets.close())
	}
	c.closing = sync.OnceValue(c.close)
	go c.follow(changed) // ends with stop; close waits for followed
	return c, nil
}

// newInner starts kfake: one broker, in memory, with Kafka's defaults.
func (c *Coordinator) newInner() (*kfake.Cluster, error) {
	return kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(c.pipes.listen), kfake.WithLogger(innerLog{c.log}),
		kfake.GroupMinSessionTimeout(sessionMin), kfake.GroupMaxSessionTimeout(sessionMax),
		kfake.BrokerConfigs(map[string]string{
			"group.max.size":                       strconv.Itoa(maxMembers),
			"group.consumer.session.timeout.ms":    millis(memberSession),
			"group.consumer.heartbeat.interval.ms": millis(memberInterval),
			// what it keeps of offsets is not used, and must not decide which groups there are: see sweep
			"offsets.retention.check.interval.ms": "2147483647",
		}))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// begin finds out what is served, and tells kfake of the topics and of the groups that have offsets.
func (c *Coordinator) begin() error {
	versions := kmsg.NewPtrApiVersionsRequest()
	resp, err := c.ask(versions)
	if err != nil {
		return err
	}
	c.served = serves(resp.(*kmsg.ApiVersionsResponse))
	c.tell(untold, c.sync()) // two topics that collide in kfake are no reason not to serve
	for _, group := range c.offsets.groups() {
		c.groups[group] = struct{}{}
		if err := c.revive(group); err != nil {
			return err
		}
	}
	return nil
}

// serves is what both kfake and this program's messages carry.
func serves(inner *kmsg.ApiVersionsResponse) map[int16]Range {
	out := map[int16]Range{}
	for _, k := range inner.ApiKeys {
		for _, key := range keys {
			if k.ApiKey == int16(key) {
				out[k.ApiKey] = Range{k.MinVersion, min(k.MaxVersion, kmsg.RequestForKey(k.ApiKey).MaxVersion())}
			}
		}
	}
	return out
}

// Serves is the api keys that Session.Do answers, with their versions. It is not to be changed.
func (c *Coordinator) Serves() map[int16]Range { return c.served }

// revive makes a group that has offsets and no members one that kfake knows. A commit of nothing does.
func (c *Coordinator) revive(group string) error {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = innerCommit, group, -1
	_, err := c.ask(q)
	return err
}

// Drain ends what waits for other members, now and from now on: it is answered COORDINATOR_NOT_AVAILABLE. All else is
// still served.
func (c *Coordinator) Drain() { c.drainOnce.Do(func() { close(c.draining) }) }

// Close ends everything; once is enough. No Session may run a request. An error is about the file of offsets.
func (c *Coordinator) Close() error { return c.closing() }

func (c *Coordinator) close() error {
	c.Drain()
	close(c.stop)
	<-c.followed
	c.left.wg.Wait()
	c.link.close()
	c.inner.Close()
	c.pipes.Close()
	return c.offsets.close()
}

// follow follows the topics that are served, and forgets what is old.
func (c *Coordinator) follow(changed <-chan struct{}) {
	defer close(c.followed)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	look := time.NewTicker(memberInterval)
	defer look.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-changed:
			changed = c.topics.Changed()
			c.tell(untold, c.sync())
		case <-look.C:
			c.tell("a member that is away could not be let go", c.letGo(c.now()))
		case <-tick.C:
			c.tell("old group offsets could not be deleted", c.sweep(c.now()))
		}
	}
}

const untold = "the group coordinator could not be told of all topics: nobody can commit for those, or be assigned them"

func (c *Coordinator) tell(what string, err error) {
	if err != nil {
		c.log.Error(what, "error", err)
	}
}

// ask asks kfake something for the coordinator itself.
func (c *Coordinator) ask(q kmsg.Request) (kmsg.Response, error) {
	c.admin.Lock()
	defer c.admin.Unlock()
	return c.link.ask(context.Background(), nil, "rsmhost", q, nil)
}
