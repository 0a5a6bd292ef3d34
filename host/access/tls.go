package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// identity is what TLS is served with.
type identity struct {
	certificate tls.Certificate
	clients     *x509.CertPool // nil: clients need no certificate
}

// parseIdentity reads a chain, its key, and the authorities of clients where there are any: PEM, of these paths. A
// certificate that has expired is one that no client takes. An error is INVALID and names the files that are wrong.
func parseIdentity(paths []string, contents [][]byte, now time.Time) (identity, error) {
	var id identity
	var err error
	if id.certificate, err = tls.X509KeyPair(contents[0], contents[1]); err != nil {
		return id, abi.E("read TLS files", paths[0]+", "+paths[1], abi.Invalid, err)
	}
	if until := id.certificate.Leaf.NotAfter; now.After(until) {
		return id, abi.Errorf("read TLS files", paths[0], abi.Invalid, "the certificate expired at %s", until.Format(time.RFC3339))
	}
	if len(contents) > 2 {
		id.clients = x509.NewCertPool()
		if !id.clients.AppendCertsFromPEM(contents[2]) {
			return id, abi.Errorf("read TLS files", paths[2], abi.Invalid, "no certificate of an authority in it")
		}
	}
	return id, nil
}

// config is what a connection that begins now is served with. There are no session tickets: a certificate that is not
// taken any more must not come in by an old session.
func (a *Access) config() *tls.Config {
	id := a.identity.get()
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{id.certificate}, SessionTicketsDisabled: true}
	if id.clients != nil {
		c.ClientCAs, c.ClientAuth = id.clients, tls.RequireAndVerifyClientCert
		if a.o.ClientAuth == Requested {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return c
}

// TLS is what connections are served with, nil where they are plain. It takes certificate, key and authorities anew for
// each connection where the files changed.
func (a *Access) TLS() *tls.Config {
	if a == nil || a.identity == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return a.config(), nil }}
}

// Certified is who a client is by its certificate: the subject's distinguished name as Kafka has it; Anonymous without one.
// An error is a subject that can't be read.
func Certified(state *tls.ConnectionState) (Principal, error) {
	if len(state.PeerCertificates) == 0 {
		return Anonymous, nil
	}
	name, err := distinguishedName(state.PeerCertificates[0].RawSubject)
	if err != nil {
		return "", fmt.Errorf("the certificate's subject: %w", err)
	}
	return Principal("User:" + name), nil
}
