// Package certificates makes authorities and certificates for tests.
package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	PEM  []byte // its certificate
}

// New makes an authority of this name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	der := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, nil, &a.key.PublicKey)
	a.cert, _ = x509.ParseCertificate(der)
	a.PEM = block("CERTIFICATE", der)
	return a
}

// Make gives a certificate for servers on 127.0.0.1 and for clients, and its key, both PEM. It is good until the given time.
func (a *Authority) Make(subject pkix.Name, until time.Time) (certificate, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	der := a.sign(&x509.Certificate{Subject: subject, NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, &k.PublicKey)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", raw)
}

func (a *Authority) sign(c, parent *x509.Certificate, public *ecdsa.PublicKey) []byte {
	a.t.Helper()
	if parent == nil {
		parent = c
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	c.NotBefore = c.NotAfter.Add(-48 * time.Hour)
	c.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func block(kind string, der []byte) []byte {
	var out bytes.Buffer
	pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // a bytes.Buffer takes all
	return out.Bytes()
}
