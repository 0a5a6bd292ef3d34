package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/rsmhost/rsmhost/abi"
)

// The exchange of RFC 7677, section 3: user "user", password "pencil". The verifier is computed from them, and is the one
// that Kafka's ScramFormatter gives for this salt.
const (
	rfcSalt   = "W22ZaJ0SNY7soEsUEjb6gQ=="
	rfcNonce  = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	rfcFirst  = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
	rfcSecond = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcThird  = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcLast   = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	rfcUser   = "user SCRAM-SHA-256 salt=" + rfcSalt +
		",stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096\n"
)

func mustUsers(t testing.TB, text string) *Users {
	t.Helper()
	u, err := ParseUsers([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func begin(mechanism string, u *Users, nonce func() string) *Exchange {
	return newExchange(mechanism, u, []byte("secret"), make(chan struct{}, 1), nonce)
}

func TestRFC7677(t *testing.T) {
	e := begin(ScramSHA256, mustUsers(t, rfcUser), func() string { return rfcNonce })
	if got, err := e.Step([]byte(rfcFirst)); err != nil || string(got) != rfcSecond {
		t.Fatalf("%q, %v", got, err)
	}
	if _, done := e.Done(); done {
		t.Fatal("done too early")
	}
	if got, err := e.Step([]byte(rfcThird)); err != nil || string(got) != rfcLast {
		t.Fatalf("%q, %v", got, err)
	}
	if who, done := e.Done(); !done || who != "User:user" {
		t.Errorf("%q, %t", who, done)
	}
	if _, err := e.Step([]byte(rfcThird)); err == nil {
		t.Error("a third step is taken")
	}
	if _, done := e.Done(); done {
		t.Error("an exchange that failed later is done")
	}
}

// TestNonceTwice: a last message with another nonce than the server's is refused, as RFC 5802 has it, and the log says which
// client that may be.
func TestNonceTwice(t *testing.T) {
	e := begin(ScramSHA256, mustUsers(t, rfcUser), func() string { return rfcNonce })
	if _, err := e.Step([]byte(rfcFirst)); err != nil {
		t.Fatal(err)
	}
	_, err := e.Step([]byte(strings.Replace(rfcThird, "r=", "r=rOprNGfwEbeRWgbNEkqO", 1)))
	if _, done := e.Done(); done || err == nil || !strings.Contains(err.Error(), "librdkafka before 2.6.1") {
		t.Errorf("%v, %t", err, done)
	}
}

// converse plays a client by a library.
func converse(t *testing.T, e *Exchange, mechanism, user, password, id string) error {
	t.Helper()
	client, err := hashes[mechanism].NewClientUnprepped(user, password, id)
	if err != nil {
		t.Fatal(err)
	}
	conv := client.NewConversation()
	token, err := conv.Step("")
	for range 2 {
		if err != nil {
			t.Fatal(err)
		}
		var answer []byte
		if answer, err = e.Step([]byte(token)); err != nil {
			return err
		}
		token, err = conv.Step(string(answer))
	}
	if !conv.Valid() {
		t.Errorf("%s as %s: the client does not believe the server", mechanism, user)
	}
	return nil
}

func TestExchanges(t *testing.T) {
	lines, err := Verifiers("alice", "wonder land")
	if err != nil {
		t.Fatal(err)
	}
	u := mustUsers(t, lines+rfcUser)
	for _, tt := range []struct{ mechanism, user, password, id, want string }{
		{ScramSHA256, "alice", "wonder land", "", ""},
		{ScramSHA512, "alice", "wonder land", "", ""},
		{ScramSHA512, "alice", "wonder land", "alice", ""},
		{Plain, "alice", "wonder land", "", ""},
		{Plain, "alice", "wonder land", "alice", ""},
		{Plain, "user", "pencil", "", ""}, // by the one verifier that it has
		{ScramSHA256, "alice", "wonderland", "", "the password is wrong"},
		{ScramSHA512, "alice", "x", "", "the password is wrong"},
		{Plain, "alice", "x", "", "the password is wrong"},
		{Plain, "user", "x", "", "the password is wrong"},
		{ScramSHA256, "bob", "x", "", "there is no such user"},
		{ScramSHA512, "user", "pencil", "", "there is no such user"}, // no verifier for it
		{Plain, "bob", "x", "", "there is no such user"},
		{Plain, "", "x", "", "empty"},
		{Plain, "alice", "", "", "empty"},
		{ScramSHA256, "alice", "wonder land", "bob", "somebody else"},
		{Plain, "alice", "wonder land", "bob", "somebody else"},
	} {
		e := begin(tt.mechanism, u, nil)
		var err error
		if tt.mechanism == Plain {
			_, err = e.Step([]byte(tt.id + "\x00" + tt.user + "\x00" + tt.password))
		} else {
			err = converse(t, e, tt.mechanism, tt.user, tt.password, tt.id)
		}
		who, done := e.Done()
		if tt.want == "" && (err != nil || !done || who != Principal("User:"+tt.user)) {
			t.Errorf("%+v: %v, %s, %t", tt, err, who, done)
		}
		if tt.want != "" && (err == nil || abi.KindOf(err) != abi.Auth || !strings.Contains(err.Error(), tt.want) || done) {
			t.Errorf("%+v: %v, %t", tt, err, done)
		}
		if err != nil && tt.password != "x" && tt.password != "" && strings.Contains(err.Error(), tt.password) {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// TestStranger: who is no user gets the same answers as a user, and the same ones each time.
func TestStranger(t *testing.T) {
	u := mustUsers(t, rfcUser)
	first := func(user string) string {
		got, err := begin(ScramSHA256, u, func() string { return "N" }).Step([]byte("n,,n=" + user + ",r=c"))
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	user, stranger := first("user"), first("stranger")
	if len(user) != len(stranger) || !strings.HasSuffix(stranger, ",i=4096") || user == stranger {
		t.Errorf("a user hears %q, a stranger %q", user, stranger)
	}
	if again := first("stranger"); again != stranger {
		t.Errorf("first %q, then %q", stranger, again)
	}
	if other := first("another"); other == stranger {
		t.Errorf("two strangers hear %q", other)
	}
}

func TestUsersRefused(t *testing.T) {
	good := strings.TrimSpace(rfcUser)
	for text, want := range map[string]string{
		"alice":                        "line 1: want USER MECHANISM VERIFIER",
		good + " x":                    "want USER MECHANISM VERIFIER",
		"# c\n" + good + "\n\n" + good: "line 4: user has a second verifier for SCRAM-SHA-256",
		"a PLAIN secret":               `mechanism "PLAIN": want SCRAM-SHA-256 or SCRAM-SHA-512`,
		strings.Replace(good, "SHA-256", "SHA-512", 1):                "want 64 bytes in base64",
		strings.Replace(good, "4096", "4095", 1):                      "iterations: want 4096 to 16384",
		strings.Replace(good, "4096", "1000000", 1):                   "iterations: want 4096 to 16384",
		strings.Replace(good, "salt="+rfcSalt, "salt=", 1):            "salt: want 1 to 256 bytes",
		strings.Replace(good, "salt="+rfcSalt, "salt=!", 1):           "salt: want",
		strings.Replace(good, "salt="+rfcSalt, "iterations=1", 1):     "given twice",
		strings.Replace(good, "salt="+rfcSalt, "salt=QQ==,more=1", 1): "nothing else",
		strings.Replace(good, "server_key=", "server_key=A", 1):       "server_key: want 32 bytes",
		strings.Replace(good, "user ", `"" `, 1):                      "the user has no name",
	} {
		_, err := ParseUsers([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "WG5d8") {
			t.Errorf("the error shows a verifier: %v", err)
		}
	}
}

func TestVerifiers(t *testing.T) {
	for user, password := range map[string]string{"": "x", "a b": "x", "a#": "x", "a\"": "x", "a\tb": "x", "ª": "x", "a": "", "b": "\u00aa", "c": "a\x00b", "d": "x\u00ad"} {
		if got, err := Verifiers(user, password); err == nil {
			t.Errorf("%q with password %q: %s", user, password, got)
		}
	}
	a, _ := Verifiers("jürgen", "größe")
	b, _ := Verifiers("jürgen", "größe")
	if a == b || !strings.HasPrefix(a, "jürgen SCRAM-SHA-256 salt=") {
		t.Errorf("%q, then %q", a, b)
	}
	mustUsers(t, a)
	c, err := derive(ScramSHA256, "user", "pencil", scram.KeyFactors{Salt: mustUsers(t, rfcUser).of[ScramSHA256]["user"].Salt, Iters: 4096})
	if want := mustUsers(t, rfcUser).of[ScramSHA256]["user"]; err != nil || fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("%v, want %v, %v", c, want, err)
	}
}

// FuzzExchange: no token gets in without the password, and none crashes the server.
func FuzzExchange(f *testing.F) {
	u := mustUsers(f, rfcUser)
	for _, tokens := range [][2]string{{rfcFirst, rfcThird}, {"\x00user\x00x", ""}, {"n,a=x,n=user,r=c", "c=biws,r=c,p="}, {"p=tls-unique,,n=user,r=a", ""}, {"y,,n==2C,r=a,m=x", "c=,r=,p="}} {
		for m := range Mechanisms {
			f.Add(m, []byte(tokens[0]), []byte(tokens[1]))
		}
	}
	f.Fuzz(func(t *testing.T, m int, first, second []byte) {
		if m < 0 || m >= len(Mechanisms) {
			return
		}
		e := begin(Mechanisms[m], u, nil)
		if _, err := e.Step(first); err == nil {
			e.Step(second)
		}
		if who, done := e.Done(); done && !strings.Contains(string(first), "pencil") {
			t.Errorf("%q and %q let %s in", first, second, who)
		}
	})
}

// FuzzParseUsers: nothing crashes, and what is taken can be asked for.
func FuzzParseUsers(f *testing.F) {
	f.Add([]byte(rfcUser))
	f.Add([]byte("a SCRAM-SHA-512 salt=QQ==,stored_key=,server_key=,iterations=4096"))
	f.Add([]byte("\"a b\" SCRAM-SHA-256 x # y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := ParseUsers(text)
		if err != nil {
			return
		}
		for m := range hashes {
			for name := range u.of[m] {
				if _, known := begin(m, u, nil).credentials(m, name); !known || name == "" {
					t.Errorf("%q: %s is not known for %s", text, name, m)
				}
			}
		}
	})
}
