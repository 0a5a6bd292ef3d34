package access

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const someRules = `
# who                          may            what
User:alice                     read           topic:orders topic:billing-* group:alice-*   # hers
User:bob                       describe       topic:* cluster
"User:CN=app,O=Example Inc"    describe,read  topic:app
*                              read           topic:public group:*
User:#1                        read           topic:one
User:ops                       delete         group:old-*
`

func TestAllow(t *testing.T) {
	r, err := ParseRules([]byte(someRules))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		who  Principal
		op   Operation
		kind Kind
		name string
		want bool
	}{
		{"User:alice", Read, Topic, "orders", true},
		{"User:alice", Describe, Topic, "orders", true}, // read implies it
		{"User:alice", Read, Topic, "orders2", false},
		{"User:alice", Read, Topic, "order", false},
		{"User:alice", Read, Topic, "billing-", true},
		{"User:alice", Read, Topic, "billing-7", true},
		{"User:alice", Read, Topic, "billing", false},
		{"User:alice", Read, Group, "alice-1", true},
		{"User:alice", Read, Group, "orders", true}, // everybody's
		{"User:alice", Describe, Cluster, "", false},
		{"User:Alice", Read, Topic, "orders", false},
		{"alice", Read, Topic, "orders", false},
		{"User:bob", Describe, Topic, "orders", true},
		{"User:bob", Read, Topic, "orders", false},
		{"User:bob", Describe, Cluster, "", true},
		{"User:bob", Read, Cluster, "", false},
		{"User:CN=app,O=Example Inc", Read, Topic, "app", true},
		{"User:CN=app", Read, Topic, "app", false},
		{Anonymous, Read, Topic, "public", true},
		{Anonymous, Read, Topic, "orders", false},
		{"User:#1", Read, Topic, "one", true},
		{"User:ops", Delete, Group, "old-1", true},
		{"User:ops", Describe, Group, "old-1", true},
		{"User:alice", Delete, Group, "alice-1", false},
		{"User:ops", Delete, Group, "new", false},
		{"*", Read, Topic, "orders", false},
		{"User:*", Read, Topic, "orders", false}, // a user of that name has no rights of its own
	} {
		if got := r.Allow(tt.who, tt.op, tt.kind, tt.name); got != tt.want {
			t.Errorf("%s %v %v %q: %t", tt.who, tt.op, tt.kind, tt.name, got)
		}
	}
	var none *Rules
	if !none.Allow(Anonymous, Read, Topic, "x") {
		t.Error("no rules deny something")
	}
	if !none.Knows("User:x") || !r.Knows(Anonymous) || !r.Knows("User:ops") {
		t.Error("who has rules is not known")
	}
	for text, want := range map[string]bool{"": false, "User:a read topic:x": false, "User:a read topic:x\nUser:ANONYMOUS read topic:y": true, "* read topic:y": true} {
		if r, err := ParseRules([]byte(text)); err != nil || r.Knows(Anonymous) != want {
			t.Errorf("%q: %v, want %t", text, err, want)
		}
	}
	if empty, err := ParseRules(nil); err != nil || empty.Allow("User:alice", Describe, Topic, "x") {
		t.Errorf("an empty file allows something, or is refused: %v", err)
	}
}

func TestRulesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"User:a read":                              "line 1: want PRINCIPAL OPERATION RESOURCE",
		"\n# x\nUser:a  read topic":                `line 3: resource "topic": want topic:PATTERN`,
		"alice read topic:x":                       `line 1: principal "alice": want User:NAME`,
		"User: read topic:x":                       `principal "User:"`,
		"User:a write topic:x":                     `operation "write": want read, describe`,
		"User:a read, topic:x":                     `operation ""`,
		"User:a read topic:":                       `resource "topic:"`,
		"User:a read cluster:x":                    `resource "cluster:x"`,
		"User:a read topic:a*b":                    `pattern "a*b": a * stands at the end`,
		"User:a read topic:**":                     `pattern "**"`,
		"\"User:a read topic:x":                    "a quote is not closed",
		"\"User:a\"read topic:x":                   `a blank is wanted behind "User:a"`,
		"User:a read topic:x\nUser:b read \xff":    "line 2: it is not UTF-8",
		"User:a read topic:x user:y":               `resource "user:y"`,
		strings.Repeat("#\n", 999) + "User:a read": "line 1000: ",
	} {
		if _, err := ParseRules([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzParseRules: what is taken allows nobody more than its words say, and nothing crashes.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte(someRules), "User:alice", "orders")
	f.Add([]byte("* read topic:*"), "User:x", "y")
	f.Add([]byte("\"User:a b\" describe,read topic:a* cluster"), "User:a b", "ab")
	f.Fuzz(func(t *testing.T, text []byte, who, name string) {
		r, err := ParseRules(text)
		if err != nil || !r.Allow(Principal(who), Read, Topic, name) {
			return
		}
		if s := string(text); !strings.Contains(s, "read") || !strings.Contains(s, "topic:") || !strings.Contains(s, who) && !strings.Contains(s, "*") {
			t.Errorf("%q lets %q read %q", text, who, name)
		}
	})
}

// TestLists: rules and users are listed as they are, each once, without what is secret.
func TestLists(t *testing.T) {
	r, err := ParseRules([]byte("User:b read topic:x topic:x\n* describe cluster\nUser:a delete,read group:g*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{{"*", Describe, Cluster, ""}, {"User:a", Delete, Group, "g*"}, {"User:a", Read, Group, "g*"}, {"User:b", Read, Topic, "x"}}
	if got := r.List(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (*Rules)(nil).List(); got != nil {
		t.Errorf("of no rules: %v", got)
	}
	var lines string
	for _, user := range []string{"zoe", "adam"} {
		text, err := Verifiers(user, "secret")
		if err != nil {
			t.Fatal(err)
		}
		lines += text
	}
	u, err := ParseUsers([]byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	list := u.List()
	if len(list) != 4 || list[0].User != "adam" || list[3].User != "zoe" || list[0].Mechanism != ScramSHA256 || list[1].Mechanism != ScramSHA512 || list[0].Iterations < iterationsMin {
		t.Errorf("%+v", list)
	}
	if got := (*Users)(nil).List(); got != nil {
		t.Errorf("of no users: %v", got)
	}
}
