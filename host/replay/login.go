package replay

import (
	"context"
	"crypto/tls"
	"net"

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
		return nil, abi.Errorf("connect", address, abi.Unavailable, "%w", err)
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
