package access

import (
	"crypto/rand"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// Whether clients need a certificate, as ssl.client.auth has it.
const (
	Required  = "required"
	Requested = "requested"
)

// Options of an Access. What is empty is not asked of clients.
type Options struct {
	CertFile     string   // the server's chain, PEM; with KeyFile: connections are TLS
	KeyFile      string   // its key, PEM
	ClientCAFile string   // authorities of client certificates, PEM
	ClientAuth   string   // Required, or Requested: without one a client is Anonymous; "": Required
	UsersFile    string   // see ParseUsers; clients authenticate by SASL
	Mechanisms   []string // of SASL; nil: all
	RulesFile    string   // see ParseRules; "": everybody may do everything
	Log          *slog.Logger

	now func() time.Time
}

// Access is who may connect and do what. A nil one lets everybody do everything.
type Access struct {
	o        Options
	identity *watched[identity] // nil: no TLS
	users    *watched[*Users]   // nil: no SASL
	rules    *watched[*Rules]   // nil: no rules
	secret   []byte
	deriving chan struct{}
}

// New reads all files. An error names the option or the file, and the line.
func New(o Options) (*Access, error) {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(o.Mechanisms) == 0 {
		o.Mechanisms = Mechanisms
	}
	a := &Access{o: o, secret: make([]byte, 32), deriving: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	rand.Read(a.secret) // never fails
	if o.CertFile != "" {
		paths := []string{o.CertFile, o.KeyFile}
		if o.ClientCAFile != "" {
			paths = append(paths, o.ClientCAFile)
		}
		a.identity = &watched[identity]{what: "TLS files", paths: paths, now: o.now, log: o.Log,
			parse: func(c [][]byte) (identity, error) { return parseIdentity(paths, c, o.now()) }}
		if err := a.identity.open(); err != nil {
			return nil, err
		}
	}
	if o.UsersFile != "" {
		a.users = &watched[*Users]{what: "users", paths: []string{o.UsersFile}, now: o.now, log: o.Log,
			parse: func(c [][]byte) (*Users, error) { return ParseUsers(c[0]) }}
		if err := a.users.open(); err != nil {
			return nil, err
		}
	}
	if o.RulesFile != "" {
		a.rules = &watched[*Rules]{what: "rules", paths: []string{o.RulesFile}, now: o.now, log: o.Log,
			parse: func(c [][]byte) (*Rules, error) { return ParseRules(c[0]) }}
		if err := a.rules.open(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (o *Options) check() error {
	switch {
	case (o.CertFile == "") != (o.KeyFile == ""):
		return abi.Errorf("configure", "tls-cert, tls-key", abi.Invalid, "one of them is not given: TLS needs a certificate and its key")
	case o.ClientCAFile != "" && o.CertFile == "":
		return abi.Errorf("configure", "tls-client-ca", abi.Invalid, "client certificates need TLS: give tls-cert and tls-key too")
	case o.ClientAuth != "" && o.ClientAuth != Required && o.ClientAuth != Requested:
		return abi.Errorf("configure", "ssl.client.auth", abi.Invalid, "%q: want %s or %s", o.ClientAuth, Required, Requested)
	}
	for _, m := range o.Mechanisms {
		if !slices.Contains(Mechanisms, m) {
			return abi.Errorf("configure", "sasl.enabled.mechanisms", abi.Invalid, "%q: want some of %s", m, strings.Join(Mechanisms, ", "))
		}
	}
	return o.checkBasis()
}

// checkBasis refuses what says how clients are asked where they are not: somebody would believe that they are.
func (o *Options) checkBasis() error {
	switch {
	case o.ClientAuth == Requested && o.ClientCAFile == "":
		return abi.Errorf("configure", "ssl.client.auth", abi.Invalid, "no certificate is asked for: give tls-client-ca too")
	case len(o.Mechanisms) > 0 && o.UsersFile == "":
		return abi.Errorf("configure", "sasl.enabled.mechanisms", abi.Invalid, "nobody is asked for a password: give sasl-users too")
	}
	return nil
}

// Authenticates reports that no client is served that has not proved who it is.
func (a *Access) Authenticates() bool {
	return a.SASL() || a.Encrypts() && a.o.ClientCAFile != "" && a.o.ClientAuth != Requested
}

// Encrypts reports that connections are TLS.
func (a *Access) Encrypts() bool { return a != nil && a.identity != nil }

// Identifies reports that some clients at least can prove who they are.
func (a *Access) Identifies() bool { return a.SASL() || a.Encrypts() && a.o.ClientCAFile != "" }

// SASL reports that clients authenticate by it.
func (a *Access) SASL() bool { return a != nil && a.users != nil }

// Mechanisms are those of SASL that are served, nil without SASL. The caller must not change them.
func (a *Access) Mechanisms() []string {
	if !a.SASL() {
		return nil
	}
	return a.o.Mechanisms
}

// Begin begins an authentication, with the users that there are now. It reports false for a mechanism that is not served.
func (a *Access) Begin(mechanism string) (*Exchange, bool) {
	if !slices.Contains(a.Mechanisms(), mechanism) {
		return nil, false
	}
	return newExchange(mechanism, a.users.get(), a.secret, a.deriving, nil), true
}

// Users are those that there are now; nil without SASL.
func (a *Access) Users() *Users {
	if !a.SASL() {
		return nil
	}
	return a.users.get()
}

// Rules are those in force now; nil ones allow everything. Take them once for a request: looking at the file has its cost.
func (a *Access) Rules() *Rules {
	if a == nil || a.rules == nil {
		return nil
	}
	return a.rules.get()
}
