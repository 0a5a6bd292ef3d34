package replay

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/certificates"
)

// TestProperties: Java's form, as far as people use it.
func TestProperties(t *testing.T) {
	got := parseProperties("# a comment\n! another\n\na=1\nb : 2\n  c 3 \nd=x=y\\\n   z\r\ne=a\\\\b\\n\\:\nf\\ g=1\nh\nd2=\\\\\ni=")
	want := map[string]string{"a": "1", "b": "2", "c": "3 ", "d": "x=yz", "e": "a\\b\n:", "f g": "1", "h": "", "d2": "\\", "i": ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const jaas = `sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \` + "\n" + `  username="al\\"ice" password="won der";`

// TestReadSecurity: what each file means.
func TestReadSecurity(t *testing.T) {
	dir := t.TempDir()
	ca := certificates.New(t, "authority")
	cert, key := ca.Make(pkix.Name{CommonName: "client"}, time.Now().Add(time.Hour))
	store := filepath.Join(dir, "store.pem")
	own := filepath.Join(dir, "own.pem")
	for path, b := range map[string][]byte{store: ca.PEM, own: append(cert, key...)} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inline := func(b []byte) string { return strings.ReplaceAll(string(b), "\n", "\\\n\\n") }
	for name, tt := range map[string]struct {
		text                string
		mechanism           string
		tls, roots, own, is bool // is: the server's name is not looked at
	}{
		"nothing":            {text: "bootstrap.servers=a:9092\nclient.id=x\n"},
		"plain":              {text: "security.protocol=PLAINTEXT\n" + jaas},
		"SCRAM":              {text: "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" + jaas, mechanism: "SCRAM-SHA-512"},
		"PLAIN over TLS":     {text: "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + jaas, mechanism: "PLAIN", tls: true},
		"an authority":       {text: "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + store, tls: true, roots: true},
		"inline":             {text: "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=" + inline(ca.PEM), tls: true, roots: true},
		"a certificate":      {text: "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + own, tls: true, own: true},
		"its parts":          {text: "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=" + inline(key) + "\nssl.keystore.certificate.chain=" + inline(cert), tls: true, own: true},
		"any name":           {text: "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n", tls: true, is: true},
		"the name, as https": {text: "security.protocol=SSL\nssl.endpoint.identification.algorithm=https\n", tls: true},
	} {
		path := filepath.Join(dir, "client.properties")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSecurity(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		mechanism := ""
		if s.SASL != nil {
			mechanism = s.SASL.Name()
		}
		c := s.TLS
		if c == nil {
			c = &tls.Config{}
		}
		if mechanism != tt.mechanism || (s.TLS != nil) != tt.tls || (c.RootCAs != nil) != tt.roots || (len(c.Certificates) == 1) != tt.own || c.InsecureSkipVerify != tt.is {
			t.Errorf("%s: SASL %q, %+v", name, mechanism, s.TLS)
		}
	}
}

// TestReadSecurityErrors: each names its key, and none a password.
func TestReadSecurityErrors(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("won der"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, tt := range map[string]struct {
		kind  abi.Kind
		words string
	}{
		"security.protocol=TLS": {abi.Invalid, "security.protocol"},
		"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n" + jaas:                                 {abi.Unsupported, "sasl.mechanism"},
		"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x password=\"won der\";": {abi.Invalid, "sasl.jaas.config"},
		"sasl.login.class=x": {abi.Unsupported, "sasl.login.class"},
		"security.protocol=SSL\nssl.truststore.type=JKS\nssl.truststore.location=" + junk:   {abi.Unsupported, "ssl.truststore.type"},
		"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + junk:   {abi.Invalid, "ssl.truststore"},
		"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + junk:       {abi.Invalid, "ssl.keystore"},
		"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=" + junk + "x": {abi.NotFound, "junkx"},
	} {
		path := filepath.Join(dir, "client.properties")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadSecurity(path)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "won der") {
			t.Errorf("%q: %v, want %v with %q", text, err, tt.kind, tt.words)
		}
	}
	if _, err := ReadSecurity(filepath.Join(dir, "none")); !errors.Is(err, abi.NotFound) {
		t.Errorf("no file: %v", err)
	}
}

// TestAnyName: a server's chain is verified without its name too.
func TestAnyName(t *testing.T) {
	ca, other := certificates.New(t, "authority"), certificates.New(t, "another")
	chain, key := ca.Make(pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	state := tls.ConnectionState{ServerName: "another.example"}
	for _, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		state.PeerCertificates = append(state.PeerCertificates, cert)
	}
	for _, a := range []*certificates.Authority{ca, other} {
		c := &tls.Config{RootCAs: x509.NewCertPool()}
		c.RootCAs.AppendCertsFromPEM(a.PEM)
		anyName(c)
		if err := c.VerifyConnection(state); (err == nil) != (a == ca) {
			t.Errorf("by its authority: %v: %v", a == ca, err)
		}
	}
}
