package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rsmhost/rsmhost/internal/certificates"
)

// startSecured starts the command on the fixture txn with TLS and the user alice, whose password is wonderland. acl is the
// text of the rules; empty: none. It gives the folder of the files that it was given; "ca" is there for clients.
func startSecured(t *testing.T, acl string) (s *serveCommand, dir string) {
	t.Helper()
	dir = t.TempDir()
	passwd := exec.Command(artifacts(t).host, "passwd", "alice")
	passwd.Stdin = strings.NewReader("wonderland\n")
	users, err := passwd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ca := certificates.New(t, "authority")
	cert, key := ca.Make(pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	writeFile(t, dir, "ca", string(ca.PEM))
	flags := []string{"--tls-cert", writeFile(t, dir, "cert", string(cert)), "--tls-key", writeFile(t, dir, "key", string(key)),
		"--sasl-users", writeFile(t, dir, "users", string(users))}
	if acl != "" {
		flags = append(flags, "--acl", writeFile(t, dir, "acl", acl))
	}
	return startServe(t, "txn", flags...), dir
}

// writeFile writes a file into a folder, and gives its path.
func writeFile(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServeSecured: the command with TLS, users that passwd made, and rules. Who is let in reads both tiers as they were
// recorded; no secret and no path of one is told.
func TestServeSecured(t *testing.T) {
	s, dir := startSecured(t, "User:alice read topic:payments\nUser:alice describe cluster\n")
	ca, err := os.ReadFile(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	with := func(password string, o ...kgo.Opt) *kgo.Client {
		return client(t, s.address, append(o, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.RetryTimeout(time.Second),
			kgo.SASL(scram.Auth{User: "alice", Pass: password}.AsSha512Mechanism()))...)
	}
	cl := with("wonderland", kgo.ConsumeTopics("payments"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	consume(t, cl, len(recorded(t, "txn", "read_uncommitted")))

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	configs, err := kadm.NewClient(cl).DescribeBrokerConfigs(ctx)
	if err != nil || len(configs) != 1 {
		t.Fatalf("%v, %v", configs, err)
	}
	for _, c := range configs[0].Configs {
		if v := c.MaybeValue(); strings.Contains(v, dir) || strings.Contains(v, "stored_key") {
			t.Errorf("a client is told of %s: %s", c.Key, v)
		}
	}
	if err := with("x").Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	if rest := s.stop(t); rest != "" {
		t.Errorf("more on stdout: %s", rest)
	}
	if log := s.stderr.String(); !strings.Contains(log, "the password is wrong") || strings.Contains(log, "wonderland") {
		t.Errorf("stderr says %s", log)
	}
}
