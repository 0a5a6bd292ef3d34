package access

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"
	"github.com/xdg-go/stringprep"
)

// The SASL mechanisms, by their names on the wire.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms are all that are known, in the order in which clients are told of them.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512}

// hashes are those of the mechanisms that have verifiers.
var hashes = map[string]scram.HashGeneratorFcn{ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512}

const (
	// iterationsMin and iterationsMax are those of Kafka: clients refuse less, and brokers more.
	iterationsMin = 4096
	iterationsMax = 16384
	saltBytes     = 24
)

// Users are the verifiers of passwords, by mechanism and name.
type Users struct {
	of    map[string]map[string]scram.StoredCredentials
	usual map[string]shape // by mechanism
}

// shape is what a client sees of a verifier.
type shape struct{ salt, iterations int }

// ParseUsers reads verifiers, one a line: user, mechanism, and the verifier as Kafka writes it.
//
//	alice SCRAM-SHA-256 salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=8192
//
// Each user has one for each mechanism that it may use; either serves PLAIN. An error names the line.
func ParseUsers(text []byte) (*Users, error) {
	u := &Users{of: map[string]map[string]scram.StoredCredentials{ScramSHA256: {}, ScramSHA512: {}}, usual: map[string]shape{}}
	err := eachLine(text, func(words []string) error {
		if len(words) != 3 {
			return errors.New("want USER MECHANISM VERIFIER, as rsmhost passwd prints it")
		}
		user, mechanism := words[0], words[1]
		hash, ok := hashes[mechanism]
		if !ok {
			return fmt.Errorf("mechanism %q: want %s or %s", mechanism, ScramSHA256, ScramSHA512)
		}
		if user == "" {
			return errors.New("the user has no name")
		}
		if _, twice := u.of[mechanism][user]; twice {
			return fmt.Errorf("%s has a second verifier for %s", user, mechanism)
		}
		c, err := parseVerifier(words[2], hash().Size())
		if err != nil {
			return fmt.Errorf("verifier of %s: %w", user, err)
		}
		u.of[mechanism][user] = c
		return nil
	})
	if err != nil {
		return nil, err
	}
	for m, verifiers := range u.of {
		u.usual[m] = usual(verifiers)
	}
	return u, nil
}

// Verified is what may be told of a verifier.
type Verified struct {
	User, Mechanism string
	Iterations      int
}

// List gives what may be told of all verifiers, by user and mechanism.
func (u *Users) List() (out []Verified) {
	if u == nil {
		return nil
	}
	for mechanism, verifiers := range u.of {
		for user, c := range verifiers {
			out = append(out, Verified{user, mechanism, c.Iters})
		}
	}
	slices.SortFunc(out, func(a, b Verified) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return out
}

// parseVerifier reads salt, stored key, server key and iterations, each once. What it holds is in no error: it is a secret.
func parseVerifier(text string, size int) (c scram.StoredCredentials, err error) {
	fields := map[string]string{}
	for _, f := range strings.Split(text, ",") {
		k, v, _ := strings.Cut(f, "=")
		if _, twice := fields[k]; twice {
			return c, errors.New("a field is given twice")
		}
		fields[k] = v
	}
	salt, err := base64.StdEncoding.DecodeString(fields["salt"])
	if err != nil || len(salt) == 0 || len(salt) > 256 {
		return c, errors.New("salt: want 1 to 256 bytes in base64")
	}
	for name, key := range map[string]*[]byte{"stored_key": &c.StoredKey, "server_key": &c.ServerKey} {
		if *key, err = base64.StdEncoding.DecodeString(fields[name]); err != nil || len(*key) != size {
			return c, fmt.Errorf("%s: want %d bytes in base64", name, size)
		}
	}
	c.Salt = string(salt)
	c.Iters, err = strconv.Atoi(fields["iterations"])
	if err != nil || c.Iters < iterationsMin || c.Iters > iterationsMax {
		return c, fmt.Errorf("iterations: want %d to %d", iterationsMin, iterationsMax)
	}
	if len(fields) != 4 {
		return c, errors.New("want salt, stored_key, server_key and iterations, and nothing else")
	}
	return c, nil
}

// Verifiers are the lines of a users file for a password: one for each SCRAM mechanism, with a salt of their own. An error
// says what is wrong with the name or the password: clients must agree on its bytes, and not all of them apply SASLprep.
func Verifiers(user, password string) (string, error) {
	if user == "" || strings.ContainsAny(user, "\"#\x00") || strings.ContainsFunc(user, isBlank) || !prepared(user) {
		return "", fmt.Errorf("user %q: want a name without blanks, quotes, \"#\" and characters that SASLprep changes", user)
	}
	if password == "" || !prepared(password) {
		return "", errors.New("the password is empty, or has characters that SASLprep forbids or changes, which clients would send differently")
	}
	var out strings.Builder
	for _, m := range []string{ScramSHA256, ScramSHA512} {
		salt := make([]byte, saltBytes)
		rand.Read(salt) // never fails
		c, err := derive(m, user, password, scram.KeyFactors{Salt: string(salt), Iters: iterationsMax})
		if err != nil {
			return "", err
		}
		b64 := base64.StdEncoding.EncodeToString
		fmt.Fprintf(&out, "%s %s salt=%s,stored_key=%s,server_key=%s,iterations=%d\n", user, m, b64(salt), b64(c.StoredKey), b64(c.ServerKey), c.Iters)
	}
	return out.String(), nil
}

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// prepared reports a text that SASLprep takes and leaves as it is.
func prepared(s string) bool {
	out, err := stringprep.SASLprep.Prepare(s)
	return err == nil && out == s
}

// derive makes a verifier.
func derive(mechanism, user, password string, kf scram.KeyFactors) (scram.StoredCredentials, error) {
	client, err := hashes[mechanism].NewClientUnprepped(user, password, "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(kf)
}

// usual is the shape that most verifiers have: what somebody who is no user is answered with.
func usual(verifiers map[string]scram.StoredCredentials) shape {
	count := map[shape]int{}
	for _, c := range verifiers {
		count[shape{len(c.Salt), c.Iters}]++
	}
	if len(count) == 0 {
		return shape{saltBytes, iterationsMax}
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(count)), func(a, b shape) int {
		return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(a.iterations, b.iterations), cmp.Compare(a.salt, b.salt))
	})
}
