package server

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
)

const (
	// earlyMax bounds a request of a client that has not proved who it is yet: it takes nothing of MaxQueuedBytes. The longest
	// token is 4 KiB.
	earlyMax = 32 << 10
	// earlyRequests is how many it may send. A client needs four or five: it asks for versions, and tries a mechanism.
	earlyRequests = 20
	// failedDelay is connection.failed.authentication.delay.ms: who guesses passwords waits for each.
	failedDelay = 100 * time.Millisecond
)

// entering is a client that has not proved yet who it is.
type entering struct {
	exchange *access.Exchange // nil: it has not said how
	raw      bool             // its tokens come without a request around them, after a SaslHandshake of version 0
	who      access.Principal // "": not known yet
	failed   error            // it was told so, and is not let in
	client   string
}

// enter lets a client in: the handshake of TLS, then SASL, each where there is any. It bounds the time of both.
func (c *conn) enter(ctx context.Context) error {
	c.until = time.Now().Add(c.s.o.ReadTimeout)
	defer func() { c.until = time.Time{} }()
	if err := c.handshake(ctx); err != nil {
		return err
	}
	if !c.s.o.Access.SASL() {
		return nil
	}
	in := &entering{}
	c.entering = in
	defer func() { c.entering = nil }()
	for n := 0; in.who == ""; n++ {
		if n == earlyRequests {
			return broken("%d requests before the client proved who it is", n)
		}
		if err := c.early(ctx); err != nil {
			return err
		}
		if in.failed != nil {
			return &protocolError{in.client, in.failed.Error(), "authentication failed"}
		}
	}
	c.who = in.who
	return nil
}

// handshake is TLS's, where connections are. It says who the client is by its certificate.
func (c *conn) handshake(ctx context.Context) error {
	tc, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		if errors.As(err, new(tls.RecordHeaderError)) {
			return broken("it does not speak TLS, which is asked for here")
		}
		return c.failed(fmt.Errorf("the TLS handshake: %w", err))
	}
	state := tc.ConnectionState()
	who, err := access.Certified(&state)
	if err != nil {
		return broken("%v", err)
	}
	c.who = who
	return nil
}

// early answers one request, or one raw token, of a client that is not in yet.
func (c *conn) early(ctx context.Context) error {
	if c.entering.raw {
		return c.rawToken(ctx)
	}
	req, err := c.readRequest(ctx, true)
	if err != nil {
		return err
	}
	defer req.forget()
	c.entering.client = req.client
	return c.answer(ctx, req)
}

// checkEarly refuses what is served to those alone who have proved who they are.
func checkEarly(key int16) error {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return nil
	}
	return broken("%s before authentication: SASL is asked for here", kmsg.NameForKey(key))
}

// saslHandshake takes the client's mechanism, or tells which there are.
func saslHandshake(_ context.Context, c *conn, req *request, q *kmsg.SASLHandshakeRequest) (*kmsg.SASLHandshakeResponse, error) {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.SupportedMechanisms = slices.Clone(c.s.o.Access.Mechanisms())
	in := c.entering
	if in == nil || in.exchange != nil { // it is in already, or nobody asks; or it began
		resp.ErrorCode = illegalSaslState
		return resp, nil
	}
	exchange, ok := c.s.o.Access.Begin(q.Mechanism)
	if !ok {
		resp.ErrorCode = unsupportedSaslMechanism
		c.s.log.Info("a client wants a SASL mechanism that is not served", "connection", c.name, "client", short(req.client), "mechanism", short(q.Mechanism))
		return resp, nil
	}
	in.exchange, in.raw = exchange, req.version == 0
	return resp, nil
}

// saslAuthenticate takes a token of the client's mechanism.
func saslAuthenticate(ctx context.Context, c *conn, _ *request, q *kmsg.SASLAuthenticateRequest) (*kmsg.SASLAuthenticateResponse, error) {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	if c.entering == nil || c.entering.exchange == nil {
		resp.ErrorCode, resp.ErrorMessage = illegalSaslState, kmsg.StringPtr("SaslHandshake comes before SaslAuthenticate, once, and where SASL is asked for")
		return resp, nil
	}
	answer, err := c.step(ctx, q.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = saslAuthenticationFailed, kmsg.StringPtr("authentication failed: user or password are wrong, or not for this mechanism")
	}
	resp.SASLAuthBytes = append([]byte{}, answer...) // never null
	return resp, nil
}

// step takes a token. Who is wrong waits for the answer.
func (c *conn) step(ctx context.Context, token []byte) ([]byte, error) {
	in := c.entering
	answer, err := in.exchange.Step(token)
	if err != nil {
		in.failed = err
		select {
		case <-time.After(failedDelay):
		case <-ctx.Done():
		case <-c.s.draining:
		}
		return nil, err
	}
	if who, done := in.exchange.Done(); done {
		in.who = who
	}
	return answer, nil
}

// rawToken takes a token as it came before Kafka 1.0: its length and itself. Who is wrong hears nothing.
func (c *conn) rawToken(ctx context.Context) error {
	if err := c.waitUntil(c.s.o.ReadTimeout); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return c.failed(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > earlyMax {
		return broken("a SASL token of %d bytes: at most %d are read", n, earlyMax)
	}
	token := make([]byte, n)
	if _, err := io.ReadFull(c.r, token); err != nil {
		return c.failed(err)
	}
	answer, err := c.step(ctx, token)
	if err != nil {
		return nil // enter sees it
	}
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.s.o.WriteTimeout)); err != nil {
		return err
	}
	_, err = c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
	return err
}

// tellEntry logs why a client was not let in. One that went away, or that came to see whether somebody listens, is no news.
func (c *conn) tellEntry(err error) {
	wrong := &protocolError{}
	if errors.Is(err, errDraining) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || gone(err) {
		return
	}
	c.s.counts.strangers.Add(1)
	switch {
	case errors.As(err, &wrong):
		c.warn(wrong.client, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		c.warn("", fmt.Errorf("it did not prove in time who it is: %w", err))
	default:
		c.warn("", err)
	}
}
