package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipes are connections to kfake in memory. It takes them for a listener.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) listen(string, string) (net.Listener, error) { return p, nil }

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener: kfake wants a host and a port, and tells them to nobody.
func (p *pipes) Addr() net.Addr { return address("127.0.0.1:0") }

// dial connects, as from a host.
func (p *pipes) dial(from string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- pipeEnd{theirs, address(from)}:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

// pipeEnd is one end of a pipe, with the address that descriptions of members show.
type pipeEnd struct {
	net.Conn
	from address
}

// RemoteAddr implements net.Conn.
func (f pipeEnd) RemoteAddr() net.Addr { return f.from }

// errDrained ends a wait when the coordinator drains.
var errDrained = errors.New("the server stops")

// link is a connection to kfake, which is made when it is needed. It takes one request at a time.
type link struct {
	pipes *pipes
	from  string
	last  int32 // correlation id

	mu     sync.Mutex // guards what follows, for close
	nc     net.Conn   // nil: none
	closed bool
}

func (c *Coordinator) newLink(from string) *link { return &link{pipes: c.pipes, from: from} }

// ask sends a request and gives its answer. When ctx or until ends, what was asked has no answer any more, and the
// connection is closed, unless when ctx ends stay takes it over: then answered tells when it is not used any more. until and
// stay may be nil.
func (l *link) ask(ctx context.Context, until <-chan struct{}, client string, q kmsg.Request, stay func(nc net.Conn, answered <-chan error) bool) (kmsg.Response, error) {
	nc, err := l.connect()
	if err != nil {
		return nil, err
	}
	l.last++
	last := l.last // which the next request changes, where this one is left over
	var resp kmsg.Response
	size := 0 // of the answer
	done := make(chan error, 1)
	go func() { // ends with the answer or with hangUp; each way out below waits for done, or who took the connection over does
		var err error
		resp, size, err = exchange(nc, client, last, q)
		done <- err
	}()
	select {
	case err = <-done:
		if err != nil {
			l.hangUp()
			return nil, fmt.Errorf("%s to the coordinator inside: %w", kmsg.NameForKey(q.Key()), err)
		}
		if size > keptAnswer {
			l.hangUp()
		}
		return resp, nil
	case <-until:
		err = errDrained
	case <-ctx.Done():
		err = context.Cause(ctx)
		if stay != nil && l.part(nc) {
			if stay(nc, done) {
				return nil, err
			}
			nc.Close()
		}
	}
	l.hangUp()
	<-done
	return nil, err
}

func (l *link) connect() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	if l.nc != nil {
		return l.nc, nil
	}
	var err error
	l.nc, err = l.pipes.dial(l.from)
	return l.nc, err
}

// hangUp ends the connection: the next request makes another.
func (l *link) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nc != nil {
		l.nc.Close()
		l.nc = nil
	}
}

// part lets go of the connection without closing it, and reports false if it is closed already.
func (l *link) part(nc net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nc != nc {
		return false
	}
	l.nc = nil
	return true
}

// close hangs up for good.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.hangUp()
}

// keptAnswer: kfake keeps a buffer as large as the largest answer for each connection, and after one of more bytes it is to let go
// of that.
const keptAnswer = 64 << 10

// exchange writes a request and reads its answer, and gives its size.
func exchange(nc net.Conn, client string, correlation int32, q kmsg.Request) (kmsg.Response, int, error) {
	if _, err := nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, q, correlation)); err != nil {
		return nil, 0, err
	}
	var head [8]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return nil, 0, err
	}
	n, got := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	if got != correlation || n < 4 {
		return nil, 0, fmt.Errorf("an answer of %d bytes to request %d, want one to %d", n, got, correlation)
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(nc, body); err != nil {
		return nil, 0, err
	}
	resp := q.ResponseKind()
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) && len(body) > 0 {
		body = body[1:] // tags of the header: none
	}
	return resp, int(n), resp.ReadFrom(body)
}

// innerLog is kfake's log in ours: what it calls a warning is about a client, and an answer tells it.
type innerLog struct{ log *slog.Logger }

// Logf implements kfake.Logger.
func (l innerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	if level == kfake.LogLevelError {
		to = slog.LevelError
	}
	if l.log.Enabled(context.Background(), to) {
		l.log.Log(context.Background(), to, "coordinator inside: "+fmt.Sprintf(format, args...))
	}
}
