package access

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/xdg-go/scram"

	"github.com/rsmhost/rsmhost/abi"
)

// tokenMax bounds a client's token: the longest user, password and authorization id fit.
const tokenMax = 4096

// Exchange is one authentication. Each token of the client gets an answer, until it is done or failed.
type Exchange struct {
	mechanism string
	users     *Users
	secret    []byte        // behind the salts of those who are no users
	deriving  chan struct{} // a token: bounds how many passwords are hashed at once
	scram     *scram.ServerConversation
	known     bool
	name      string
	done      bool
	failed    bool
}

// newExchange begins one of a mechanism that is known; nonce is nil but in tests.
func newExchange(mechanism string, users *Users, secret []byte, deriving chan struct{}, nonce func() string) *Exchange {
	e := &Exchange{mechanism: mechanism, users: users, secret: secret, deriving: deriving}
	if hash, ok := hashes[mechanism]; ok {
		server, _ := hash.NewServer(func(name string) (scram.StoredCredentials, error) { // it never fails
			c, known := e.credentials(mechanism, name)
			e.known = known
			return c, nil
		})
		if nonce != nil {
			server.WithNonceGenerator(nonce)
		}
		e.scram = server.NewConversation()
	}
	return e
}

// Step takes a client's token and gives what is sent back. An error is AUTH, and ends the exchange; its sentence is for the
// log. A PLAIN token costs some milliseconds of CPU, whoever the user is; not many are worked on at once.
func (e *Exchange) Step(token []byte) ([]byte, error) {
	var answer []byte
	var err error
	switch {
	case e.done || e.failed:
		err = errors.New("the exchange is over")
	case len(token) > tokenMax:
		err = fmt.Errorf("a token of %d bytes: at most %d are taken", len(token), tokenMax)
	case e.scram != nil:
		answer, err = e.stepScram(string(token))
	default:
		err = e.plain(string(token))
	}
	if err != nil {
		e.failed, e.done = true, false
		return nil, abi.Errorf("authenticate", fmt.Sprintf("%s as %q", e.mechanism, short(e.name)), abi.Auth, "%w", err)
	}
	return answer, nil
}

// Done gives who the client is, once it has proved it.
func (e *Exchange) Done() (Principal, bool) {
	if !e.done {
		return "", false
	}
	return Principal("User:" + e.name), true
}

func (e *Exchange) stepScram(token string) ([]byte, error) {
	answer, err := e.scram.Step(token)
	e.name = e.scram.Username()
	switch id := e.scram.AuthzID(); {
	case err != nil && e.scram.Done() && !e.known && answer == scram.ErrInvalidProof:
		return nil, errNoUser
	case err != nil && answer == scram.ErrInvalidProof:
		return nil, errWrong
	case err != nil && answer == scram.ErrOtherError:
		return nil, fmt.Errorf("%w: librdkafka before 2.6.1 sends it twice, which Kafka 4 refuses too (CVE-2024-56128): take a newer one, or PLAIN over TLS", err)
	case err != nil:
		return nil, err
	case id != "" && id != e.name:
		return nil, errOther
	case e.scram.Done() && !(e.known && e.scram.Valid()):
		return nil, errNoUser
	}
	e.done = e.scram.Done()
	return []byte(answer), nil
}

// What is wrong, for the log.
var (
	errNoUser = errors.New("there is no such user with a verifier for this mechanism")
	errWrong  = errors.New("the password is wrong")
	errOther  = errors.New("it wants to act as somebody else, which nobody may")
)

// plain takes authorization id, user and password, with a zero byte between them (RFC 4616).
func (e *Exchange) plain(token string) error {
	parts := strings.Split(token, "\x00")
	if len(parts) != 3 || !utf8.ValidString(token) {
		return errors.New("the token is not an id, a user and a password")
	}
	id, password := parts[0], parts[2]
	e.name = parts[1]
	if e.name == "" || password == "" {
		return errors.New("the user or the password is empty")
	}
	if id != "" && id != e.name {
		return errOther
	}
	mechanism := ScramSHA512
	if len(e.users.of[ScramSHA512]) == 0 {
		mechanism = ScramSHA256
	}
	want, known := e.credentials(mechanism, e.name)
	if weaker, has := e.credentials(ScramSHA256, e.name); has && !known {
		mechanism, want, known = ScramSHA256, weaker, true
	}
	e.deriving <- struct{}{}
	defer func() { <-e.deriving }()
	got, err := derive(mechanism, e.name, password, want.KeyFactors)
	if err != nil {
		return err
	}
	same := subtle.ConstantTimeCompare(got.StoredKey, want.StoredKey) == 1
	switch {
	case !known:
		return errNoUser
	case !same:
		return errWrong
	}
	e.done = true
	return nil
}

// credentials gives a user's verifier, or one that no password fits, always the same for a name: the answer to a stranger
// looks like that to a user.
func (e *Exchange) credentials(mechanism, name string) (c scram.StoredCredentials, known bool) {
	size := hashes[mechanism]().Size()
	like := e.users.usual[mechanism]
	made, err := hkdf.Key(sha256.New, e.secret, nil, mechanism+" "+name, like.salt+2*size)
	if err != nil { // more than 255 hashes: no salt that was parsed is so long
		made = make([]byte, like.salt+2*size)
	}
	if found, ok := e.users.of[mechanism][name]; ok {
		return found, true
	}
	made, salt := made[like.salt:], made[:like.salt]
	return scram.StoredCredentials{KeyFactors: scram.KeyFactors{Salt: string(salt), Iters: like.iterations}, StoredKey: made[:size], ServerKey: made[size:]}, false
}

// short bounds what a client wrote, for the log.
func short(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
