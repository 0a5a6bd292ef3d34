package replay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"

	"github.com/rsmhost/rsmhost/abi"
)

// Security is how a Client connects. The zero value connects plainly.
type Security struct {
	TLS  *tls.Config    // nil: plain
	SASL sasl.Mechanism // nil: none
}

// connect connects to address, and proves who the client is where that is asked for. An error is UNAVAILABLE or AUTH, and
// names the address.
func connect(ctx context.Context, address string, s Security) (*wire, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := s.dial(ctx, address)
	if err != nil {
		return nil, abi.Errorf("connect", address, abi.Unavailable, "%w", withoutAddress(err))
	}
	w := &wire{address: address, nc: nc}
	if s.SASL == nil {
		return w, nil
	}
	if err := w.login(ctx, s.SASL); err != nil {
		nc.Close() // what failed is told
		return nil, err
	}
	return w, nil
}

// withoutAddress is what is wrong, for a message that has the address already.
func withoutAddress(err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// hint says what may be missing where a server that takes connections hangs up: it can't tell a client that does not
// speak TLS or has not logged in.
func (s Security) hint(err error) error {
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
	if !hungUp || s.TLS != nil && s.SASL != nil {
		return err
	}
	missing := "TLS"
	switch {
	case s.TLS != nil:
		missing = "SASL"
	case s.SASL == nil:
		missing = "TLS or SASL"
	}
	return fmt.Errorf("%w: it may ask for %s, for which nothing is configured here", err, missing)
}

func (s Security) dial(ctx context.Context, address string) (net.Conn, error) {
	d := &net.Dialer{}
	if s.TLS == nil {
		return d.DialContext(ctx, "tcp", address)
	}
	return (&tls.Dialer{NetDialer: d, Config: s.TLS}).DialContext(ctx, "tcp", address)
}

// login does SASL's exchange (KIP-43, KIP-152).
func (w *wire) login(ctx context.Context, m sasl.Mechanism) error {
	q, resp := kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLHandshakeResponse()
	q.Version, q.Mechanism = 1, m.Name()
	if err := w.ask(ctx, q, resp); err != nil {
		return err
	}
	if resp.ErrorCode != 0 {
		return abi.Errorf("log in", w.address, abi.Auth, "%w: it knows %v", kerr.ErrorForCode(resp.ErrorCode), resp.SupportedMechanisms)
	}
	session, token, err := m.Authenticate(ctx, w.address)
	for done := false; err == nil && !done; {
		auth, answer := kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrSASLAuthenticateResponse()
		auth.Version, auth.SASLAuthBytes = 1, token
		if err := w.ask(ctx, auth, answer); err != nil {
			return err
		}
		if answer.ErrorCode != 0 {
			err = kerr.ErrorForCode(answer.ErrorCode)
			if answer.ErrorMessage != nil {
				return abi.Errorf("log in", w.address, abi.Auth, "%w: %s", err, *answer.ErrorMessage)
			}
			break
		}
		done, token, err = session.Challenge(answer.SASLAuthBytes)
	}
	if err != nil {
		return abi.Errorf("log in", w.address, abi.Auth, "%w", err)
	}
	return nil
}
