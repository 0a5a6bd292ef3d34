package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/coordinator"
)

// conn is one client's connection.
type conn struct {
	s        *Server
	raw      net.Conn // as it was accepted
	nc       net.Conn // raw, or TLS over it
	r        *bufio.Reader
	name     string // in log and request ids
	address  hostPort
	requests chan *request // closed by readAll
	done     chan struct{} // closed when nobody answers any more
	out      answer
	sender   *sender
	groups   *coordinator.Session // nil: it asked nothing about groups
	writes   writePace

	who      access.Principal // once it is in
	entering *entering        // nil: it is in, or nobody asks who it is
	until    time.Time        // when it must be in; zero: it is
}

func newConn(s *Server, raw net.Conn) *conn {
	nc := raw
	if s.tls != nil {
		nc = tls.Server(raw, s.tls)
	}
	c := &conn{s: s, raw: raw, nc: nc, r: bufio.NewReader(nc), name: fmt.Sprintf("c%d", s.lastConn.Add(1)), address: s.address, who: access.Anonymous,
		requests: make(chan *request, max(s.o.MaxInFlight-2, 0)), done: make(chan struct{})}
	if c.address == (hostPort{}) {
		c.address, _ = parseHostPort(nc.LocalAddr().String()) // of an accepted connection it is one
	}
	c.sender = newSender(nc, s.o.WriteTimeout, func() { s.unsent.took(c) })
	return c
}

// serve answers the connection's requests until it ends.
func (c *conn) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.enter(ctx); err != nil {
		c.tellEntry(err)
		c.nc.Close()
		return
	}
	ended := make(chan struct{})
	go func() { // ends when nc is closed, which the deferred calls below do and wait for
		defer close(ended)
		if !c.readAll(ctx) {
			cancel() // nobody is there for what is being answered
		}
	}()
	defer func() {
		close(c.done)
		c.nc.Close()
		cancel()
		<-ended
		if c.groups != nil {
			c.groups.Close()
		}
		for req := range c.requests { // those that nobody answers
			req.forget()
		}
	}()
	for req := range c.requests {
		if ctx.Err() != nil {
			req.forget()
			return
		}
		err := c.answer(ctx, req)
		req.forget()
		if err != nil {
			if errors.Is(err, errShed) || ctx.Err() == nil && !gone(err) { // a connection that was shed ends its context too
				c.warn(req.client, err)
			}
			return
		}
	}
}

// readAll reads requests until there are no more. It reports whether what was read is to be answered: the server drains,
// or the client sent something that is no request behind those that are.
func (c *conn) readAll(ctx context.Context) (finish bool) {
	defer close(c.requests)
	for first := true; ; first = false {
		req, err := c.readRequest(ctx, first)
		if err != nil {
			broken := (*protocolError)(nil)
			if errors.As(err, &broken) {
				c.s.counts.broken.Add(1)
				c.warn(broken.client, err)
				return true
			}
			return errors.Is(err, errDraining)
		}
		if !c.pass(req) {
			req.forget()
			return false
		}
	}
}

// lookEvery is how often it is looked whether a client is there that sent all it may before the first answer.
const lookEvery = time.Second

// pass hands a request to who answers them, and reports false when it is for nobody any more. While it waits nothing is
// read, so that only a look at the connection can tell that the client went: what it waits for may take as long as the
// client said, and its place among max.connections would be taken as long.
func (c *conn) pass(req *request) bool {
	select {
	case c.requests <- req:
		return true
	default:
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case c.requests <- req:
			return true
		case <-c.done:
			return false
		case <-look.C:
			if hungUp(c.raw) {
				return false
			}
		}
	}
}

func (c *conn) warn(client string, err error) {
	kind := ""
	if p := (*protocolError)(nil); errors.As(err, &p) {
		kind = p.kind
	}
	c.s.log.WarnContext(inKind(kind), "a connection is closed", "connection", c.name, "from", c.nc.RemoteAddr().String(), "client", short(client), "why", err)
}

// owner is whose requests are bounded together: a principal's, and of those that nobody knows an address's.
func (c *conn) owner() string {
	if c.who == access.Anonymous {
		return string(c.who) + "@" + ipOf(c.raw)
	}
	return string(c.who)
}

// gone reports a client that closed its connection, which is no news.
func gone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrClosedPipe)
}

// short bounds what a client wrote, for the log.
func short(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// errShed ends a connection whose client took nothing for the longest time, when there are too many bytes unsent.
var errShed = errors.New("its answer was not taken, and others need the memory")

// errDraining ends reading when the server stops.
var errDraining = errors.New("the server stops")

// waitUntil sets the deadline of reading.
func (c *conn) waitUntil(d time.Duration) error {
	at := time.Now().Add(d)
	if !c.until.IsZero() && at.After(c.until) {
		at = c.until
	}
	if err := c.nc.SetReadDeadline(at); err != nil {
		return err
	}
	select {
	case <-c.s.draining: // stop may have set its deadline before this one
		return errDraining
	default:
		return nil
	}
}

// failed says why reading ended: the server's stop looks like a timeout.
func (c *conn) failed(err error) error {
	select {
	case <-c.s.draining:
		return errDraining
	default:
	}
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return err
}

// answer answers one request.
func (c *conn) answer(ctx context.Context, req *request) error {
	defer c.s.counts.ended(req, time.Now())
	req.making = making{s: c.s, n: c.answerBytes(req)}
	defer req.making.end()
	if err := req.making.begin(ctx); err != nil {
		return err // the connection ends
	}
	resp, err := req.api.handle(ctx, c, req)
	defer req.release()
	if err != nil || resp == nil {
		return err
	}
	c.s.counts.told(req, resp)
	resp.SetVersion(req.answerVersion())
	a := &c.out
	defer a.reset()
	a.b = append(a.b, 0, 0, 0, 0)
	a.b = binary.BigEndian.AppendUint32(a.b, uint32(req.correlation))
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() { // whose clients don't know yet what we speak
		a.b = append(a.b, 0)
	}
	if parts, ok := resp.(inParts); ok {
		parts.appendParts(a)
	} else {
		a.b = resp.AppendTo(a.b)
	}
	if a.size() > math.MaxInt32 {
		return fmt.Errorf("an answer of %d bytes, which no length can tell", a.size())
	}
	binary.BigEndian.PutUint32(a.b, uint32(a.size()-4))
	c.s.close(c.s.unsent.add(c, a.inMemory()))
	err = c.sender.send(a)
	if c.s.unsent.remove(c) && err != nil {
		err = errShed
	}
	return err
}

// inParts is a response that names what it is made of instead of copying it.
type inParts interface{ appendParts(a *answer) }
