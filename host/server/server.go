package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/coordinator"
	"github.com/rsmhost/rsmhost/host/server/fetchsession"
)

// Options of a Server. Only Host is required.
type Options struct {
	Host *host.Host

	// Advertise is the HOST:PORT that clients are told to connect to; empty: the address at which they came.
	Advertise string
	// ClusterID is what clients are told; empty: the log directories', else "rsmhost".
	ClusterID string
	// Settings are shown as the broker's configuration, by name.
	Settings map[string]string

	// GroupsDir is the directory of what consumer groups commit, which is made where it is missing and belongs to this Server
	// alone; empty: it is in memory, and ends with the Server.
	GroupsDir string

	// MaxFetchBytes is fetch.max.bytes: records in one answer at most, but for a first batch that is larger; 0: 55 MiB.
	MaxFetchBytes int64
	// MaxRequestBytes is socket.request.max.bytes: a larger request ends its connection; 0: 100 MiB. What is kept in memory
	// of a request is less: see requestMax.
	MaxRequestBytes int
	// MaxConnections is max.connections: one more is closed at once; 0: 1000.
	MaxConnections int
	// MaxConnectionsPerIP is max.connections.per.ip: those of one address; 0: no bound but MaxConnections.
	MaxConnectionsPerIP int
	// MaxInFlight is how many requests of one connection are read before the first of them is answered, at least 2; 0: 8.
	MaxInFlight int
	// MaxQueuedBytes is queued.max.request.bytes: what requests of more than 4 KiB that are not answered yet take, of all
	// connections together, as they came; what comes then waits to be read. 0: 32 MiB. It is at least 2 MiB.
	MaxQueuedBytes int64
	// IdleTimeout is connections.max.idle.ms: the longest time between two requests; 0: 10 minutes.
	IdleTimeout time.Duration
	// ReadTimeout is how long a request that began may take to arrive, with a second more for each MiB, how long the
	// first one may let itself wait for, and how long a client has to prove who it is; 0: 30 seconds.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take none of an answer; 0: 2 minutes.
	WriteTimeout time.Duration

	// Access is who may connect and do what; nil: everybody, everything. Connections are TLS where it has a certificate.
	Access *access.Access

	// KafkaExact sends records as they are stored, also those of before magic 2.
	KafkaExact bool

	Log *slog.Logger // nil: nothing is logged
}

func (o *Options) setDefaults() {
	def(&o.MaxFetchBytes, 57671680)
	def(&o.MaxRequestBytes, 100<<20)
	def(&o.MaxConnections, 1000)
	def(&o.MaxConnectionsPerIP, math.MaxInt)
	def(&o.MaxInFlight, 8)
	def(&o.MaxQueuedBytes, 32<<20)
	o.MaxQueuedBytes = max(o.MaxQueuedBytes, requestMax)
	def(&o.IdleTimeout, 10*time.Minute)
	def(&o.ReadTimeout, 30*time.Second)
	def(&o.WriteTimeout, 2*time.Minute)
	if o.ClusterID == "" {
		o.ClusterID = o.Host.ClusterID()
	}
	if o.ClusterID == "" {
		o.ClusterID = "rsmhost"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// Server serves a Host.
type Server struct {
	o        Options
	host     *host.Host
	log      *slog.Logger // what peers can have written is bounded
	lines    *lines
	node     int32
	address  hostPort // advertised; empty: the connection's own
	apis     map[int16]*api
	sessions *fetchsession.Cache
	counts   *counts
	live     atomic.Pointer[Live] // in place of what Options has of it
	unsent   *unsent
	again    *time.Timer // sheds again while somebody waits for memory
	groups   *coordinator.Coordinator
	memory   memory
	queued   *semaphore.Weighted
	tls      *tls.Config // nil: connections are plain
	denied   denials
	mishaps  mishaps

	topicSettings topicSettings
	producers     producers

	draining chan struct{}      // closed: no new request is read, and nothing is waited for
	ctx      context.Context    // of all requests
	cancel   context.CancelFunc // ends what runs
	wg       sync.WaitGroup     // of all connections

	mu        sync.Mutex // guards what follows
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	perIP     map[string]int // connections
	stopped   bool

	lastConn   atomic.Int64
	producerID atomic.Int64 // the producer id that was given out last
	waits      atomic.Int64 // requests that wait for data now
}

type hostPort struct {
	host string
	port int32
}

// New makes a Server, which is to be closed. The Host stays the caller's, and must outlive the Server. An error is INVALID
// and names the option, or that of coordinator.Open.
func New(o Options) (*Server, error) {
	o.setDefaults()
	limit := newLogLimit(o.Log.Handler())
	o.Log = slog.New(limit)
	_, memory := o.Host.MemoryInUse()
	s := &Server{o: o, lines: limit.lines, unsent: newUnsent(memory), host: o.Host, log: o.Log, node: o.Host.NodeID(),
		sessions: fetchsession.New(sessionOptions(o.Host.Memory())), memory: newMemory(o.Host.Memory()), draining: make(chan struct{}),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, perIP: map[string]int{},
		queued: semaphore.NewWeighted(o.MaxQueuedBytes), tls: o.Access.TLS()}
	if o.Advertise != "" {
		var err error
		if s.address, err = parseHostPort(o.Advertise); err != nil {
			return nil, abi.Errorf("serve", "advertise", abi.Invalid, "%w", err)
		}
	}
	var err error
	if s.groups, err = coordinator.Open(coordinator.Options{Topics: groupTopics{s}, Dir: o.GroupsDir, Others: s.lostOffsets, Log: o.Log}); err != nil {
		return nil, err
	}
	s.apis = newAPIs(s.groups.Serves())
	s.counts = newCounts(s.apis)
	s.Adjust(Live{o.Settings, o.MaxFetchBytes, o.MaxConnections, o.MaxConnectionsPerIP})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.again = time.AfterFunc(time.Hour, func() { s.shed(0) })
	s.producerID.Store(rand.Int64N(1 << 62)) // no two servers give out the same
	s.again.Stop()                           // until somebody waits for memory
	o.Host.OnMemoryShortage(s.shed)
	return s, nil
}

func parseHostPort(s string) (hostPort, error) {
	h, p, err := net.SplitHostPort(s)
	port, perr := strconv.ParseUint(p, 10, 16)
	if err != nil || perr != nil || h == "" || port == 0 {
		return hostPort{}, fmt.Errorf("%q: want HOST:PORT", s)
	}
	return hostPort{h, int32(port)}, nil
}

// errStopped ends Serve after Shutdown or Close.
var errStopped = errors.New("the server was stopped")

// Serve takes connections from l until Shutdown or Close, which it answers with nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return errStopped
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	for {
		nc, err := l.Accept()
		if err == nil {
			s.welcome(nc)
			continue
		}
		select {
		case <-s.draining:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		s.log.Warn("a connection could not be accepted", "error", err) // out of files: some will be closed
		select {
		case <-s.draining:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// welcome serves a connection, or closes it where there are too many.
func (s *Server) welcome(nc net.Conn) {
	s.counts.accepted.Add(1)
	bound, most, taken := s.begin(nc)
	if taken {
		return
	}
	nc.Close()
	if bound != "" {
		s.counts.refused.Add(1)
		s.log.WarnContext(ofKind(bound, 1), "a connection is closed at once: there are too many; raise "+bound+" where they are clients, some of which make three each",
			"from", nc.RemoteAddr().String(), bound, most)
	}
}

// begin begins to serve a connection, unless the server was stopped or there are too many: bound is the key that says so.
func (s *Server) begin(nc net.Conn) (bound string, most int, taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return "", 0, false
	}
	ip := ipOf(nc)
	if bound, most = s.fullLocked(ip); bound != "" {
		return bound, most, false
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.perIP[ip]++
	s.wg.Go(func() { // ends when the client goes, on draining, or when the connection is closed; Close waits
		defer s.forget(c)
		c.serve(s.ctx)
	})
	return "", 0, true
}

// fullLocked is the bound that one more connection of an address would break; "": none.
func (s *Server) fullLocked(ip string) (bound string, most int) {
	live := s.live.Load()
	switch {
	case len(s.conns) >= live.MaxConnections:
		return "max.connections", live.MaxConnections
	case s.perIP[ip] >= live.MaxConnectionsPerIP:
		return "max.connections.per.ip", live.MaxConnectionsPerIP
	}
	return "", 0
}

// ipOf is the address that a connection comes from.
func ipOf(nc net.Conn) string {
	ip, _, err := net.SplitHostPort(nc.RemoteAddr().String())
	if err != nil {
		return nc.RemoteAddr().String()
	}
	return ip
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	ip := ipOf(c.raw)
	if s.perIP[ip]--; s.perIP[ip] == 0 {
		delete(s.perIP, ip)
	}
}

// shed ends connections whose clients take nothing of their answers, where n bytes of memory are wanted beside those that
// are waited for. It comes back as long as somebody waits.
func (s *Server) shed(n int64) {
	if n += s.host.MemoryWanted() + s.memory.wanted(); n == 0 {
		return
	}
	slow, next := s.unsent.stalled(n)
	s.close(slow)
	if next > 0 {
		s.again.Reset(next)
	}
}

// close ends connections, each of which says why.
func (s *Server) close(slow []*conn) {
	s.counts.shed.Add(int64(len(slow)))
	for _, c := range slow {
		c.raw.Close() // TLS would say goodbye first, to a client that takes nothing, and who needs the memory would wait for it
	}
}

// Connections counts those that are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown takes no new connection and reads no new request; those that were read are answered, at once where they wait
// for data or for other members of a group. When ctx ends, what still runs is ended. An error is ctx's.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() { // ends when the connections have: soon after Close below
		defer close(done)
		s.wg.Wait()
	}()
	select {
	case <-done:
		return s.Close()
	case <-ctx.Done():
	}
	err := errors.Join(ctx.Err(), s.Close())
	<-done
	return err
}

// Draining reports that the server takes nothing new.
func (s *Server) Draining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// stop ends reading.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	close(s.draining)
	s.groups.Drain()
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.nc.SetReadDeadline(time.Now()) // a connection that is closed needs none
	}
}

// Close ends all connections and what they wait for, and waits for them. An error is about the file of group offsets; what
// was acknowledged is in it.
func (s *Server) Close() error {
	s.stop()
	s.cancel()
	s.again.Stop()
	s.mu.Lock()
	for c := range s.conns {
		c.raw.Close() // TLS would say goodbye first, to clients that may take nothing
	}
	s.mu.Unlock()
	s.wg.Wait()
	defer s.lines.close()
	return s.groups.Close()
}
