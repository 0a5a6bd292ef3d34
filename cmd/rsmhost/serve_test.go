package main

import (
	"crypto/x509/pkix"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/internal/certificates"
)

// TestCheckPublic: an address that other machines reach needs clients that prove who they are, and no password in the open.
func TestCheckPublic(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := certificates.New(t, "authority")
	cert, key := ca.Make(pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	certFile, keyFile, caFile, users := write("cert", cert), write("key", key), write("ca", ca.PEM), write("users", nil)
	for name, tt := range map[string]struct {
		o      access.Options
		listen string
		want   string // in the error; empty: none
		client string // in what a client is told to use
	}{
		"nothing":                     {access.Options{}, "0.0.0.0:0", "nobody is asked who he is", ""},
		"nothing, loopback":           {access.Options{}, "127.0.0.1:0", "", ""},
		"nothing, loopback of IPv6":   {access.Options{}, "[::1]:0", "", ""},
		"nothing, all addresses":      {access.Options{}, ":0", "nobody is asked who he is", ""},
		"TLS alone":                   {access.Options{CertFile: certFile, KeyFile: keyFile}, "0.0.0.0:0", "nobody is asked who he is", "=SSL -X ssl.ca"},
		"certificates":                {access.Options{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile}, "0.0.0.0:0", "", "=SSL -X ssl.ca.location=CA.pem -X ssl.certificate"},
		"certificates, not needed":    {access.Options{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile, ClientAuth: access.Requested}, "0.0.0.0:0", "nobody is asked", "=SSL "},
		"SASL":                        {access.Options{UsersFile: users}, "0.0.0.0:0", "passwords of PLAIN can be read", "=SASL_PLAINTEXT -X sasl.mechanism=SCRAM-SHA-512"},
		"SASL, loopback":              {access.Options{UsersFile: users}, "127.0.0.1:0", "", "=SASL_PLAINTEXT "},
		"SCRAM":                       {access.Options{UsersFile: users, Mechanisms: []string{access.ScramSHA256}}, "0.0.0.0:0", "", "=SASL_PLAINTEXT -X sasl.mechanism=SCRAM-SHA-256"},
		"SASL over TLS":               {access.Options{UsersFile: users, CertFile: certFile, KeyFile: keyFile}, "0.0.0.0:0", "", "=SASL_SSL -X sasl.mechanism=PLAIN "},
		"an address that is none":     {access.Options{}, "nowhere", "missing port", ""},
		"rules that nobody can prove": {access.Options{RulesFile: users}, "0.0.0.0:0", "nobody is asked who he is", ""},
	} {
		who, err := access.New(tt.o)
		if err != nil {
			t.Fatal(err)
		}
		err = checkPublic(tt.listen, false, who)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err := checkPublic(tt.listen, true, who); err != nil && tt.listen != "nowhere" {
			t.Errorf("%s, allowed: %v", name, err)
		}
		if got := clientSettings(who); (got == "") != (tt.client == "") || !strings.Contains(got, tt.client) {
			t.Errorf("%s: clients are told %q, want %q", name, got, tt.client)
		}
	}
}
