package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Principal is who a client is, in Kafka's form: "User:alice", "User:CN=app,O=Example".
type Principal string

// Anonymous is a client that was not asked who it is.
const Anonymous Principal = "User:ANONYMOUS"

// Operation is what a client wants to do. Read and Delete imply Describe.
type Operation uint8

// The operations. Delete is of groups and their offsets alone: nothing else can be deleted here.
const (
	Describe Operation = 1
	Read     Operation = 2
	Delete   Operation = 3
)

// String is the operation as rules have it.
func (o Operation) String() string {
	return [...]string{"", "describe", "read", "delete"}[o]
}

// Kind is what a name names.
type Kind uint8

// The kinds. There is one cluster, and its name is empty.
const (
	Topic   Kind = 1
	Group   Kind = 2
	Cluster Kind = 3
)

// String is the kind as rules have it.
func (k Kind) String() string {
	return [...]string{"", "topic", "group", "cluster"}[k]
}

// anyone stands for all principals.
const anyone Principal = "*"

// Rules say who may do what. What no rule allows is denied; there are no rules that deny.
type Rules struct {
	of map[Principal][]rule
}

type rule struct {
	op      Operation
	kind    Kind
	pattern string
}

// ParseRules reads rules, one a line: a principal ("*" is everybody), operations joined by commas, and resources.
//
//	# who        may       what
//	User:alice   read      topic:orders topic:orders-* group:billing-*
//	*            describe  topic:*
//	User:ops     describe  cluster
//	User:ops     delete    group:*
//	"User:CN=app,O=Example Inc" read topic:*
//
// A pattern is a name, a prefix before "*", or "*" for all. An error names the line.
func ParseRules(text []byte) (*Rules, error) {
	r := &Rules{of: map[Principal][]rule{}}
	err := eachLine(text, func(words []string) error {
		if len(words) < 3 {
			return fmt.Errorf("want PRINCIPAL OPERATION RESOURCE..., as in: User:alice read topic:orders-*")
		}
		who, err := parsePrincipal(words[0])
		if err != nil {
			return err
		}
		for _, o := range strings.Split(words[1], ",") {
			op, err := parseOperation(o)
			if err != nil {
				return err
			}
			for _, w := range words[2:] {
				one, err := parseResource(w)
				if err != nil {
					return err
				}
				one.op = op
				r.of[who] = append(r.of[who], one)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

func parsePrincipal(w string) (Principal, error) {
	name, ok := strings.CutPrefix(w, "User:")
	switch {
	case w == "*" || w == "User:*":
		return anyone, nil
	case !ok || name == "":
		return "", fmt.Errorf("principal %q: want User:NAME, or * for everybody", w)
	}
	return Principal(w), nil
}

func parseOperation(w string) (Operation, error) {
	switch w {
	case "read":
		return Read, nil
	case "describe":
		return Describe, nil
	case "delete":
		return Delete, nil
	}
	return 0, fmt.Errorf("operation %q: want read, describe, delete, or some with commas: nothing else is served", w)
}

func parseResource(w string) (rule, error) {
	if w == "cluster" {
		return rule{kind: Cluster}, nil
	}
	kind, pattern, ok := strings.Cut(w, ":")
	one := rule{pattern: pattern}
	switch kind {
	case "topic":
		one.kind = Topic
	case "group":
		one.kind = Group
	default:
		ok = false
	}
	if !ok || pattern == "" {
		return rule{}, fmt.Errorf("resource %q: want topic:PATTERN, group:PATTERN or cluster", w)
	}
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i < len(pattern)-1 {
		return rule{}, fmt.Errorf("pattern %q: a * stands at the end, for a prefix, or alone", pattern)
	}
	return one, nil
}

// Allow says whether a principal may do this to what is named. Nil rules allow everything.
func (r *Rules) Allow(who Principal, op Operation, kind Kind, name string) bool {
	return r == nil || allowed(r.of[who], op, kind, name) || allowed(r.of[anyone], op, kind, name)
}

// Knows reports that some rule is about a principal, or about everybody. Nil rules know everybody.
func (r *Rules) Knows(who Principal) bool { return r == nil || len(r.of[who])+len(r.of[anyone]) > 0 }

func allowed(rules []rule, op Operation, kind Kind, name string) bool {
	for i := range rules {
		if one := &rules[i]; one.kind == kind && (one.op == op || op == Describe) && matches(one.pattern, name) {
			return true
		}
	}
	return false
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// Rule is one thing that rules allow, for who lists them.
type Rule struct {
	Principal Principal // "*": everybody
	Operation Operation
	Kind      Kind
	Pattern   string // a name, a prefix before "*", or "*" for all; of Cluster empty
}

// List gives all rules, each once, in the order of principals and then of the file. Nil rules have none: they allow everything.
func (r *Rules) List() []Rule {
	if r == nil {
		return nil
	}
	var out []Rule
	seen := map[Rule]bool{}
	for _, who := range slices.Sorted(maps.Keys(r.of)) {
		for _, of := range r.of[who] {
			one := Rule{who, of.op, of.kind, of.pattern}
			if !seen[one] {
				out = append(out, one)
			}
			seen[one] = true
		}
	}
	return out
}
