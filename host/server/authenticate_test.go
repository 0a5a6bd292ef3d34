package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	saslplain "github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/internal/certificates"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// keep is a folder with what a server's access is made of.
type keep struct {
	t   testing.TB
	dir string
	ca  *certificates.Authority
}

func newKeep(t testing.TB) *keep { return &keep{t, t.TempDir(), certificates.New(t, "authority")} }

func (k *keep) write(name, content string) string {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// tls makes connections TLS.
func (k *keep) tls(o *access.Options) {
	cert, key := k.ca.Make(pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	o.CertFile, o.KeyFile = k.write("cert", string(cert)), k.write("key", string(key))
}

// users makes alice the one user.
func (k *keep) users(o *access.Options) {
	k.t.Helper()
	lines, err := access.Verifiers("alice", "wonderland")
	if err != nil {
		k.t.Fatal(err)
	}
	o.UsersFile = k.write("users", lines)
}

func (k *keep) serve(o access.Options, so Options) *served {
	k.t.Helper()
	a, err := access.New(o)
	if err != nil {
		k.t.Fatal(err)
	}
	so.Access = a
	return serve(k.t, local, so)
}

// says waits until the log says something: a line may come after what the client hears.
func (v *served) says(t testing.TB, want string) {
	t.Helper()
	said := func() bool { return strings.Contains(v.log.String(), want) }
	defer func() {
		if !said() {
			t.Logf("the log does not say %s:\n%s", want, v.log)
		}
	}()
	hammer.Eventually(t, 10*time.Second, said)
}

// client trusts the authority, and has a certificate of this subject.
func (k *keep) client(subject pkix.Name) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.ca.PEM)
	c := &tls.Config{RootCAs: roots, ServerName: "localhost"}
	if subject.CommonName != "" {
		pair, err := tls.X509KeyPair(k.ca.Make(subject, time.Now().Add(time.Hour)))
		if err != nil {
			k.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// consume reads a record of the topic as a client does that reads all of it.
func consume(t testing.TB, v *served, opts ...kgo.Opt) error {
	t.Helper()
	topic := v.host.Topics()[0].Name
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(v.address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	f := cl.PollFetches(ctx)
	if err := f.Err(); err != nil {
		return err
	}
	if f.NumRecords() == 0 {
		t.Error("no record came")
	}
	return nil
}

func mechanisms(user, password string) map[string]sasl.Mechanism {
	return map[string]sasl.Mechanism{access.Plain: saslplain.Auth{User: user, Pass: password}.AsMechanism(),
		access.ScramSHA256: scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), access.ScramSHA512: scram.Auth{User: user, Pass: password}.AsSha512Mechanism()}
}

// TestSASL: each mechanism lets in who knows the password, plain and over TLS, and tells all others the same.
func TestSASL(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		k := newKeep(t)
		var o access.Options
		k.users(&o)
		var opts []kgo.Opt
		if encrypted {
			k.tls(&o)
			opts = append(opts, kgo.DialTLSConfig(k.client(pkix.Name{})))
		}
		v := k.serve(o, Options{})
		for name, m := range mechanisms("alice", "wonderland") {
			if err := consume(t, v, append(opts, kgo.SASL(m))...); err != nil {
				t.Errorf("%s, TLS %t: %v", name, encrypted, err)
			}
		}
		if log := v.log.String(); log != "" {
			t.Errorf("the log says %s", log)
		}
		for _, wrong := range [][2]string{{"alice", "x"}, {"bob", "wonderland"}} {
			for name, m := range mechanisms(wrong[0], wrong[1]) {
				if err := consume(t, v, append(opts, kgo.SASL(m))...); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("%s as %s, TLS %t: %v", name, wrong[0], encrypted, err)
				}
			}
		}
		for _, want := range []string{`PLAIN as \"alice\": AUTH: the password is wrong`, `SCRAM-SHA-512 as \"bob\": AUTH: there is no such user`, "client=kgo"} {
			v.says(t, want)
		}
		hammer.Eventually(t, 10*time.Second, func() bool { return v.Stats().Strangers >= 6 }) // counted behind what the client hears
		if s := v.Stats(); s.Broken != 0 {
			t.Errorf("%d were not let in, %d connections broken", s.Strangers, s.Broken)
		}
		if strings.Contains(v.log.String(), "wonderland") {
			t.Errorf("the log tells a password: %s", v.log)
		}
		if err := consume(t, v, opts...); err == nil {
			t.Error("who does not authenticate is let in")
		}
	}
}

// TestClientCertificates: who has one of the authority is let in and is its subject's name; rules go by that.
func TestClientCertificates(t *testing.T) {
	k := newKeep(t)
	topic := serve(t, local, Options{}).host.Topics()[0].Name
	o := access.Options{ClientCAFile: k.write("ca", string(k.ca.PEM)), RulesFile: k.write("acl", `"User:CN=reader,O=Example Inc" read topic:`+topic)}
	k.tls(&o)
	v := k.serve(o, Options{})
	with := func(c *tls.Config) error { return consume(t, v, kgo.DialTLSConfig(c)) }
	if err := with(k.client(pkix.Name{CommonName: "reader", Organization: []string{"Example Inc"}})); err != nil {
		t.Error(err)
	}
	if err := with(k.client(pkix.Name{CommonName: "reader"})); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("another subject: %v", err)
	}
	if err := with(k.client(pkix.Name{})); err == nil {
		t.Error("no certificate: let in")
	}
	other := &keep{t, k.dir, certificates.New(t, "another")}
	stranger := k.client(pkix.Name{})
	theirs := other.client(pkix.Name{CommonName: "reader", Organization: []string{"Example Inc"}}).Certificates[0]
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &theirs, nil } // also where it is not asked for
	if err := with(stranger); err == nil {
		t.Error("a certificate of another authority: let in")
	}
	expired := k.client(pkix.Name{})
	pair, err := tls.X509KeyPair(k.ca.Make(pkix.Name{CommonName: "reader", Organization: []string{"Example Inc"}}, time.Now().Add(-time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	expired.Certificates = []tls.Certificate{pair}
	if err := with(expired); err == nil {
		t.Error("an expired certificate: let in")
	}
	for _, want := range []string{`principal="User:CN=reader"`, "client didn't provide a certificate", "certificate has expired", "unknown authority"} {
		v.says(t, want)
	}
}

// TestCertificateRequested: without a certificate a client is anonymous.
func TestCertificateRequested(t *testing.T) {
	k := newKeep(t)
	o := access.Options{ClientCAFile: k.write("ca", string(k.ca.PEM)), ClientAuth: access.Requested, RulesFile: k.write("acl", "User:ANONYMOUS read topic:*")}
	k.tls(&o)
	v := k.serve(o, Options{})
	if err := consume(t, v, kgo.DialTLSConfig(k.client(pkix.Name{}))); err != nil {
		t.Error(err)
	}
	if err := consume(t, v, kgo.DialTLSConfig(k.client(pkix.Name{CommonName: "x"}))); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("with a certificate it is still anonymous: %v", err)
	}
}

// TestRotation: new connections get the certificate that lies there now, and those that are open go on. One that does not
// fit its key changes nothing.
func TestRotation(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.tls(&o)
	v := k.serve(o, Options{})
	dial := func() *tls.Conn {
		nc, err := tls.Dial("tcp", v.address, k.client(pkix.Name{}))
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	old := dial()
	defer old.Close()
	first := old.ConnectionState().PeerCertificates[0].SerialNumber
	cert, key := k.ca.Make(pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	k.write("key", string(key))
	hammer.Eventually(t, 10*time.Second, func() bool {
		nc := dial()
		defer nc.Close()
		if nc.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(first) != 0 {
			t.Error("a certificate without its key is served")
		}
		return true
	})
	k.write("cert", string(cert))
	hammer.Eventually(t, 10*time.Second, func() bool {
		nc := dial()
		defer nc.Close()
		return nc.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(first) != 0
	})
	old.SetDeadline(time.Now().Add(10 * time.Second))
	ask[*kmsg.MetadataResponse](&wire{t, old}, kmsg.NewPtrMetadataRequest(), 12)
}

// TestHandshakeTime: a client that does not speak is let go of, whatever it was asked for, and others are served meanwhile.
func TestHandshakeTime(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.tls(&o)
	k.users(&o)
	v := k.serve(o, Options{ReadTimeout: 300 * time.Millisecond})
	silent := v.dial(t)
	half, err := tls.Dial("tcp", v.address, k.client(pkix.Name{}))
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	half.SetDeadline(time.Now().Add(10 * time.Second))
	silent.closed()
	(&wire{t, half}).closed()
	v.says(t, "it did not prove in time who it is")
	w := v.dial(t)
	w.send(frame(kmsg.NewPtrApiVersionsRequest(), 1))
	w.closed()
	v.says(t, "it does not speak TLS")
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 0 })
}

// TestEarly: what a client hears that has not proved who it is.
func TestEarly(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.users(&o)
	v := k.serve(o, Options{})
	handshake := func(m string) *kmsg.SASLHandshakeRequest {
		q := kmsg.NewPtrSASLHandshakeRequest()
		q.Mechanism = m
		return q
	}
	token := func(b string) *kmsg.SASLAuthenticateRequest {
		q := kmsg.NewPtrSASLAuthenticateRequest()
		q.SASLAuthBytes = []byte(b)
		return q
	}
	w := v.dial(t)
	ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), 4)
	if r := ask[*kmsg.SASLAuthenticateResponse](w, token("x"), 2); r.ErrorCode != illegalSaslState {
		t.Errorf("a token without a mechanism: %+v", r)
	}
	if r := ask[*kmsg.SASLHandshakeResponse](w, handshake("GSSAPI"), 1); r.ErrorCode != unsupportedSaslMechanism || !slices.Equal(r.SupportedMechanisms, access.Mechanisms) {
		t.Errorf("an unknown mechanism: %+v", r)
	}
	if r := ask[*kmsg.SASLHandshakeResponse](w, handshake("PLAIN"), 1); r.ErrorCode != 0 || len(r.SupportedMechanisms) != 3 {
		t.Errorf("a mechanism: %+v", r)
	}
	if r := ask[*kmsg.SASLHandshakeResponse](w, handshake("PLAIN"), 1); r.ErrorCode != illegalSaslState {
		t.Errorf("a second one: %+v", r)
	}
	if r := ask[*kmsg.SASLAuthenticateResponse](w, token("\x00alice\x00wonderland"), 2); r.ErrorCode != 0 || r.SASLAuthBytes == nil || r.SessionLifetimeMillis != 0 {
		t.Errorf("a good token: %+v", r)
	}
	ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
	if r := ask[*kmsg.SASLHandshakeResponse](w, handshake("PLAIN"), 1); r.ErrorCode != illegalSaslState {
		t.Errorf("a handshake of one that is in: %+v", r)
	}

	for name, tt := range map[string]struct {
		send []byte
		log  string
	}{
		"another request":      {frame(kmsg.NewPtrMetadataRequest(), 1), "Metadata before authentication"},
		"a produce":            {header(0, 3, 0xff, 0xff), "Produce before authentication"},
		"a large one":          {header(36, 1, make([]byte, earlyMax)...), "want 8 to 32768"},
		"more than are needed": {slices.Repeat(frame(kmsg.NewPtrApiVersionsRequest(), 1), earlyRequests), "20 requests before the client proved"},
		"TLS":                  {[]byte{0x16, 3, 1, 0, 0xf0}, "it looks like TLS"},
	} {
		w := v.dial(t)
		go w.nc.Write(tt.send)
		w.closed()
		t.Log(name)
		v.says(t, tt.log)
	}

	// One that fails is told so, not at once, and then its connection ends.
	w = v.dial(t)
	ask[*kmsg.SASLHandshakeResponse](w, handshake("SCRAM-SHA-256"), 1)
	began := time.Now()
	if r := ask[*kmsg.SASLAuthenticateResponse](w, token("what?"), 1); r.ErrorCode != saslAuthenticationFailed || r.ErrorMessage == nil || time.Since(began) < failedDelay {
		t.Errorf("a bad token: %+v after %v", r, time.Since(began))
	}
	w.closed()
}

// TestEarlyClients: who is not in has no place among the clients that are counted.
func TestEarlyClients(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.users(&o)
	v := k.serve(o, Options{})
	w := v.dial(t)
	for range 2 { // the first is counted when the second is answered
		ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), 4)
	}
	got := v.Stats().Clients
	if _, ok := got["tester"]; ok || got[OtherClients].Requests == 0 {
		t.Errorf("%+v", got)
	}
}

// TestRawTokens: a SaslHandshake of version 0 is followed by tokens alone.
func TestRawTokens(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.users(&o)
	v := k.serve(o, Options{})
	for token, good := range map[string]bool{"\x00alice\x00wonderland": true, "\x00alice\x00x": false} {
		w := v.dial(t)
		q := kmsg.NewPtrSASLHandshakeRequest()
		q.Mechanism = access.Plain
		if r := ask[*kmsg.SASLHandshakeResponse](w, q, 0); r.ErrorCode != 0 {
			t.Fatalf("%+v", r)
		}
		w.send(sized([]byte(token)...))
		if !good {
			w.closed()
			continue
		}
		var answer [4]byte
		if _, err := io.ReadFull(w.nc, answer[:]); err != nil || binary.BigEndian.Uint32(answer[:]) != 0 {
			t.Fatalf("%v, %v", answer, err)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
	}
	w := v.dial(t)
	q := kmsg.NewPtrSASLHandshakeRequest()
	q.Mechanism = access.Plain
	ask[*kmsg.SASLHandshakeResponse](w, q, 0)
	w.send([]byte{0x7f, 0xff, 0xff, 0xff})
	w.closed()
	v.says(t, "a SASL token of 2147483647 bytes")
}

// TestShutdownEarly: a server that stops does not wait for clients that are not in.
func TestShutdownEarly(t *testing.T) {
	k := newKeep(t)
	var o access.Options
	k.tls(&o)
	k.users(&o)
	v := k.serve(o, Options{})
	v.dial(t)
	nc, err := tls.Dial("tcp", v.address, k.client(pkix.Name{}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if v.log.String() != "" {
		t.Errorf("the log says %s", v.log)
	}
}

// TestConnectionsPerAddress: one more from the same address is closed at once, and there is room when one goes.
func TestConnectionsPerAddress(t *testing.T) {
	v := serve(t, local, Options{MaxConnectionsPerIP: 2})
	a, b := v.dial(t), v.dial(t)
	ask[*kmsg.ApiVersionsResponse](a, kmsg.NewPtrApiVersionsRequest(), 4)
	ask[*kmsg.ApiVersionsResponse](b, kmsg.NewPtrApiVersionsRequest(), 4)
	v.dial(t).closed()
	v.says(t, "max.connections.per.ip")
	a.nc.Close()
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 1 })
	ask[*kmsg.ApiVersionsResponse](v.dial(t), kmsg.NewPtrApiVersionsRequest(), 4)
}

// TestFlood: large requests that nobody answers yet take no more than is allowed, of all connections together, and all are
// answered in the end.
func TestFlood(t *testing.T) {
	v := serve(t, local, Options{MaxQueuedBytes: 1, MaxInFlight: 100}) // it is at least 2 MiB
	name := strings.Repeat("x", 200)
	q := kmsg.NewPtrMetadataRequest()
	for len(q.Topics) < 9000 {
		q.Topics = append(q.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	q.SetVersion(8)
	b := frame(q, 7)
	if len(b) < requestMax*3/4 {
		t.Fatalf("only %d bytes", len(b))
	}
	var clients []*wire
	for range 4 {
		w := v.dial(t)
		clients = append(clients, w)
		go func() {
			for range 5 {
				if _, err := w.nc.Write(b); err != nil {
					return
				}
			}
		}()
	}
	for _, w := range clients {
		for range 5 {
			resp := kmsg.NewPtrMetadataResponse()
			resp.SetVersion(8)
			w.receive(resp)
		}
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.queued.TryAcquire(v.o.MaxQueuedBytes) }) // nothing is counted for ever
}

// FuzzEnter: no bytes get in without the password, and none crash the server.
func FuzzEnter(f *testing.F) {
	k := newKeep(f)
	var o access.Options
	k.users(&o)
	v := k.serve(o, Options{})
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = access.Plain
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.SASLAuthBytes = []byte("\x00alice\x00x")
	for version := int16(0); version < 2; version++ {
		handshake.Version = version
		f.Add(append(frame(handshake, 1), frame(token, 2)...))
	}
	f.Add(append(frame(kmsg.NewPtrApiVersionsRequest(), 1), sized(token.SASLAuthBytes...)...))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if bytes.Contains(sent, []byte("wonderland")) {
			t.Skip()
		}
		client, server := net.Pipe()
		go io.Copy(io.Discard, client)
		go func() {
			client.Write(sent)
			client.Close()
		}()
		c := newConn(v.Server, server)
		if err := c.enter(context.Background()); err == nil {
			t.Errorf("%q let %s in", sent, c.who)
		}
		server.Close()
	})
}
