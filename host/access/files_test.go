package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/certificates"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// folder is a directory of files that change.
type folder struct {
	t   *testing.T
	dir string
	age time.Time // of what is written next: each is younger than the one before
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.age = f.age.Add(time.Second)
	if err := os.Chtimes(f.path(name), f.age, f.age); err != nil {
		f.t.Fatal(err)
	}
}

func newFolder(t *testing.T) *folder {
	return &folder{t: t, dir: t.TempDir(), age: time.Now().Add(-time.Hour)}
}

func TestReload(t *testing.T) {
	f, c := newFolder(t), &clock{at: time.Now()}
	var log bytes.Buffer
	f.write("acl", []byte("User:a read topic:x"))
	a, err := New(Options{RulesFile: f.path("acl"), Log: slog.New(slog.NewTextHandler(&log, nil)), now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	reads := func(topic string) bool { return a.Rules().Allow("User:a", Read, Topic, topic) }
	f.write("acl", []byte("User:a read topic:y"))
	if !reads("x") || reads("y") {
		t.Error("it looked again before its time")
	}
	c.pass(lookInterval)
	if reads("x") || !reads("y") {
		t.Error("a change is not in force")
	}
	f.write("acl", []byte("User:a reads topic:z"))
	for range 3 {
		c.pass(lookInterval)
		if !reads("y") {
			t.Error("what was there before is not in force")
		}
	}
	if n := strings.Count(log.String(), `line 1: operation`); n != 1 {
		t.Errorf("a bad file is told of %d times: %s", n, &log)
	}
	os.Remove(f.path("acl"))
	for range 3 {
		c.pass(lookInterval)
		if !reads("y") {
			t.Error("a file that is gone takes its rules with it")
		}
	}
	if n := strings.Count(log.String(), "no such file"); n != 1 {
		t.Errorf("a file that is gone is told of %d times: %s", n, &log)
	}
	f.write("acl", []byte("User:a read topic:z"))
	c.pass(lookInterval)
	if !reads("z") || reads("y") {
		t.Error("a file that came back is not in force")
	}
}

// TestReloadTogether: a certificate and its key are two files, and a connection never sees one without the other.
func TestReloadTogether(t *testing.T) {
	f, c := newFolder(t), &clock{at: time.Now()}
	ca := certificates.New(t, "ca")
	put := func(name string, which string) {
		cert, key := ca.Make(pkix.Name{CommonName: name}, time.Now().Add(time.Hour))
		if strings.Contains(which, "c") {
			f.write("cert", cert)
		}
		if strings.Contains(which, "k") {
			f.write("key", key)
		}
	}
	put("one", "ck")
	f.write("ca", ca.PEM)
	var log bytes.Buffer
	a, err := New(Options{CertFile: f.path("cert"), KeyFile: f.path("key"), ClientCAFile: f.path("ca"), now: c.now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	serves := func() string {
		c.pass(lookInterval)
		conf, err := a.TLS().GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		if conf.ClientAuth != tls.RequireAndVerifyClientCert || conf.MinVersion != tls.VersionTLS12 || !conf.SessionTicketsDisabled {
			t.Errorf("it serves %+v", conf)
		}
		return conf.Certificates[0].Leaf.Subject.CommonName
	}
	put("two", "c") // its key is not there yet
	if got := serves(); got != "one" {
		t.Errorf("with a key that is not its own it serves %s", got)
	}
	if !strings.Contains(log.String(), "private key does not match public key") {
		t.Errorf("the log says %s", &log)
	}
	put("three", "ck")
	if got := serves(); got != "three" {
		t.Errorf("it serves %s", got)
	}
	f.write("ca", []byte("nothing"))
	if got := serves(); got != "three" || !strings.Contains(log.String(), "no certificate of an authority in it") {
		t.Errorf("it serves %s: %s", got, &log)
	}
}

func TestNewRefused(t *testing.T) {
	f := newFolder(t)
	cert, key := certificates.New(t, "ca").Make(pkix.Name{CommonName: "x"}, time.Now().Add(time.Hour))
	f.write("cert", cert)
	f.write("key", key)
	old, oldKey := certificates.New(t, "ca").Make(pkix.Name{CommonName: "x"}, time.Now().Add(-time.Hour))
	f.write("old", old)
	f.write("old-key", oldKey)
	f.write("empty", nil)
	f.write("bad", []byte("\n\nx"))
	missing, pipe := f.path("missing"), f.path("pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		o    Options
		want string
		kind abi.Kind
	}{
		{Options{CertFile: "x"}, "tls-cert, tls-key", abi.Invalid},
		{Options{KeyFile: "x"}, "tls-cert, tls-key", abi.Invalid},
		{Options{ClientCAFile: "x"}, "client certificates need TLS", abi.Invalid},
		{Options{ClientAuth: "maybe"}, "want required or requested", abi.Invalid},
		{Options{Mechanisms: []string{"GSSAPI"}}, `"GSSAPI": want some of PLAIN`, abi.Invalid},
		{Options{Mechanisms: []string{Plain}}, "sasl.enabled.mechanisms: INVALID: nobody is asked for a password", abi.Invalid},
		{Options{ClientAuth: Requested}, "ssl.client.auth: INVALID: no certificate is asked for", abi.Invalid},
		{Options{CertFile: f.path("cert"), KeyFile: f.path("old-key")}, f.path("old-key") + ": INVALID: tls: private key does not match", abi.Invalid},
		{Options{CertFile: f.path("cert"), KeyFile: f.path("key"), ClientCAFile: f.path("bad")}, f.path("bad") + ": INVALID: no certificate of an authority", abi.Invalid},
		{Options{CertFile: f.path("cert"), KeyFile: f.path("empty")}, "failed to find any PEM data in key", abi.Invalid},
		{Options{CertFile: f.path("cert"), KeyFile: missing}, "missing", abi.NotFound},
		{Options{CertFile: f.path("old"), KeyFile: f.path("old-key")}, "the certificate expired at ", abi.Invalid},
		{Options{UsersFile: f.path("bad")}, "line 3: want USER", abi.Invalid},
		{Options{UsersFile: missing}, "missing", abi.NotFound},
		{Options{UsersFile: pipe}, pipe + ": INVALID: it is a pipe", abi.Invalid},
		{Options{RulesFile: "/dev/zero"}, "/dev/zero: INVALID: it is a device", abi.Invalid},
		{Options{RulesFile: f.path("bad")}, "line 3: want PRINCIPAL", abi.Invalid},
		{Options{RulesFile: missing}, "missing", abi.NotFound},
	} {
		if _, err := New(tt.o); err == nil || abi.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
	}
	var none *Access
	if none.Authenticates() || none.Encrypts() || none.SASL() || none.TLS() != nil || none.Mechanisms() != nil || !none.Rules().Allow(Anonymous, Read, Group, "g") {
		t.Error("without access something is asked for")
	}
	if _, ok := none.Begin(Plain); ok {
		t.Error("without users somebody may try")
	}
}

// TestNames: subjects as Java's X500Principal.getName writes them; the first column is what it got.
func TestNames(t *testing.T) {
	for der, want := range map[string]string{
		"300e310c300a06035504030c03617070": "CN=app",
		"306c310b3009060355040613024445310f300d06035504080c064265726c696e310f300d06035504070c064265726c696e31143012060355040a0c0b4578616d706c6520496e63310d300b060355040b0c0444617461" +
			"3116301406035504030c0d6f72646572732d726561646572": "CN=orders-reader,OU=Data,O=Example Inc,L=Berlin,ST=Berlin,C=DE",
		"304e31133011060a0992268993f22c6401191603636f6d31173015060a0992268993f22c64011916076578616d706c6531123010060a0992268993f22c6401010c027531310a300806035504030c0178": "CN=x,UID=u1,DC=example,DC=com",
		"304231253023060355040a0c1c41636d652c20496e632e202271756f74656422203c613e3b20625c633119301706035504030c10206c65616420616e6420747261696c20":                         `CN=\ lead and trail\ ,O=Acme\, Inc. \"quoted\" \<a\>\; b\\c`,
		"302e310e300c06035504030c052368617368311c301a06092a864886f70d010901160d61406578616d706c652e636f6d":                                                                 `1.2.840.113549.1.9.1=#160d61406578616d706c652e636f6d,CN=\#hash`,
		"30273118301606035504030c0f4ac3bc7267656e204772c3b6c39f65310b3009060355040513023432":                                                                               "2.5.4.5=#13023432,CN=Jürgen Größe",
		"301831163008060355040c0c0174300a06035504030c03613d62":                                                                                                             `2.5.4.12=#0c0174+CN=a\=b`,
		"3022310a3008060355040a0c01783114300806035504030c01623008060355040b0c0161":                                                                                         "CN=b+OU=a,O=x",
		"30263114301206035504030c0b74776f2020626c616e6b73310e300c06035504090c055761792031":                                                                                 "STREET=Way 1,CN=two  blanks",
	} {
		b, err := hex.DecodeString(der)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := distinguishedName(b); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	for _, bad := range []string{"", "30", "300e310c300a06035504030c036170", "300e310c300a06035504030c0361707000", "0400"} {
		b, _ := hex.DecodeString(bad)
		if got, err := distinguishedName(b); err == nil {
			t.Errorf("%s is read as %q", bad, got)
		}
	}
}

// FuzzDistinguishedName: no subject crashes the server.
func FuzzDistinguishedName(f *testing.F) {
	for _, der := range []string{"300e310c300a06035504030c03617070", "3022310a3008060355040a0c01783114300806035504030c01623008060355040b0c0161", "30023100", "3000"} {
		b, err := hex.DecodeString(der)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if name, err := distinguishedName(der); err != nil && name != "" {
			t.Errorf("%q with %v", name, err)
		}
	})
}
