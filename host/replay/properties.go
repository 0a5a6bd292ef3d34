package replay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

// propertiesMax bounds a file of properties, and of certificates.
const propertiesMax = 1 << 20

// ReadSecurity reads how a client connects from a file of properties, as Kafka's own tools take it by --command-config:
// security.protocol, sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), sasl.jaas.config with a username and a password,
// ssl.truststore and ssl.keystore of type PEM, and an empty ssl.endpoint.identification.algorithm. Other keys of security are
// UNSUPPORTED, and keys of anything else are passed over. Errors name the key, and never a secret.
func ReadSecurity(path string) (Security, error) {
	b, err := readBounded(path)
	if err != nil {
		return Security{}, err
	}
	s, err := securityOf(parseProperties(string(b)))
	if own := (*abi.Error)(nil); errors.As(err, &own) {
		return s, abi.E("read client properties", path, own.Kind, err)
	}
	return s, err
}

func readBounded(path string) ([]byte, error) {
	return ownfile.ReadGiven("read", path, propertiesMax)
}

// parseProperties reads Java's form of properties: key=value, key: value or key value; # and ! begin a comment; a backslash
// at a line's end joins it with the next, and takes the next character as it is elsewhere, but for \n and \t.
func parseProperties(text string) map[string]string {
	out := map[string]string{}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for goesOn(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, rest := unescapeUntil(line, "=: \t\f")
		rest = strings.TrimLeft(rest, " \t\f")
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], " \t\f")
		}
		out[key], _ = unescapeUntil(rest, "")
	}
	return out
}

// goesOn reports an odd number of backslashes at the end.
func goesOn(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// unescapeUntil gives what stands before one of stops, and the rest with it.
func unescapeUntil(s, stops string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if n := strings.IndexByte("nt", s[i]); n >= 0 {
				b.WriteByte("\n\t"[n])
			} else {
				b.WriteByte(s[i])
			}
		case strings.IndexByte(stops, c) >= 0:
			return b.String(), s[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// known are the keys of security that mean something here.
var known = map[string]bool{"security.protocol": true, "sasl.mechanism": true, "sasl.jaas.config": true, "ssl.endpoint.identification.algorithm": true,
	"ssl.truststore.type": true, "ssl.truststore.location": true, "ssl.truststore.certificates": true,
	"ssl.keystore.type": true, "ssl.keystore.location": true, "ssl.keystore.certificate.chain": true, "ssl.keystore.key": true}

func securityOf(p map[string]string) (s Security, err error) {
	for key := range p {
		if prefix, _, _ := strings.Cut(key, "."); (prefix == "ssl" || prefix == "sasl" || prefix == "security") && !known[key] {
			return s, abi.Errorf("configure", key, abi.Unsupported, "this client does not know it")
		}
	}
	protocol := p["security.protocol"]
	switch protocol {
	case "", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		return s, abi.Errorf("configure", "security.protocol", abi.Invalid, "%q: want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocol)
	}
	if strings.HasSuffix(protocol, "SSL") {
		if s.TLS, err = tlsOf(p); err != nil {
			return s, err
		}
	}
	if strings.HasPrefix(protocol, "SASL") {
		s.SASL, err = saslOf(p)
	}
	return s, err
}

func tlsOf(p map[string]string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	roots, err := pemOf(p, "ssl.truststore", p["ssl.truststore.certificates"])
	if err != nil {
		return nil, err
	}
	if roots != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(roots) {
			return nil, abi.Errorf("configure", "ssl.truststore", abi.Invalid, "there is no certificate in it")
		}
	}
	inline := ""
	if p["ssl.keystore.key"] != "" {
		inline = p["ssl.keystore.certificate.chain"] + "\n" + p["ssl.keystore.key"]
	}
	own, err := pemOf(p, "ssl.keystore", inline)
	if err != nil {
		return nil, err
	}
	if own != nil {
		pair, err := tls.X509KeyPair(own, own)
		if err != nil {
			return nil, abi.Errorf("configure", "ssl.keystore", abi.Invalid, "want a certificate chain and its key, not encrypted: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if algorithm, given := p["ssl.endpoint.identification.algorithm"]; given && algorithm == "" {
		anyName(c)
	}
	return c, nil
}

// pemOf gives a store's PEM: as it is written, or of a file; nil where there is none.
func pemOf(p map[string]string, store, inline string) ([]byte, error) {
	location, kind := p[store+".location"], p[store+".type"]
	switch {
	case inline != "":
		return []byte(inline), nil
	case location == "":
		return nil, nil
	case kind != "PEM":
		return nil, abi.Errorf("configure", store+".type", abi.Unsupported, "want PEM: openssl pkcs12 -nodes -in STORE.p12 makes one of a PKCS#12 store")
	}
	return readBounded(location)
}

// anyName verifies a server's chain, and not its name.
func anyName(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // VerifyConnection does all but the name
	c.VerifyConnection = func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(o)
		return err
	}
}

var jaasOption = regexp.MustCompile(`(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"`)

func saslOf(p map[string]string) (sasl.Mechanism, error) {
	var user, password string
	for _, m := range jaasOption.FindAllStringSubmatch(p["sasl.jaas.config"], -1) {
		value, _ := unescapeUntil(m[2], "")
		switch m[1] {
		case "username":
			user = value
		case "password":
			password = value
		}
	}
	if user == "" || password == "" {
		return nil, abi.Errorf("configure", "sasl.jaas.config", abi.Invalid, `want a login module, required username="..." password="...";`)
	}
	switch name := p["sasl.mechanism"]; name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	default:
		return nil, abi.Errorf("configure", "sasl.mechanism", abi.Unsupported, "%s: want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", fmt.Sprintf("%q", name))
	}
}
