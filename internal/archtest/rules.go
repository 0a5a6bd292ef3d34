// Package archtest holds the project's rules about its own source, and the tests that check them: who may import whom,
// which third-party modules a room may use, and what every file has to have. It reads the source alone, runs no tool and
// needs no network.
package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rules say which package of the module may import which other one.
type Rules struct {
	names []string
	below map[string][]string // by name: the names it may import by itself
}

var chains = regexp.MustCompile(`\s{2,}|\n`)

// ParseRules reads rules in the notation of the design: "a < b" lets b import a and whatever a may; names joined by a
// comma do not import each other; braces hold alternatives; "*" stands for one element of a path, "X/..." for X and what
// lies below it. Two spaces or a new line end a chain. What is not written is forbidden.
func ParseRules(text string) (*Rules, error) {
	r := &Rules{below: map[string][]string{}}
	for _, chain := range chains.Split(text, -1) {
		if chain = strings.TrimSpace(chain); chain == "" {
			continue
		}
		var lower []string
		for i, group := range strings.Split(chain, " < ") {
			names, err := expandGroup(group)
			if err != nil {
				return nil, fmt.Errorf("chain %q: %w", chain, err)
			}
			for _, n := range names {
				r.add(n, lower)
			}
			if i > 0 && len(lower) == 0 {
				return nil, fmt.Errorf("chain %q: nothing before %q", chain, group)
			}
			lower = names
		}
	}
	return r, nil
}

func (r *Rules) add(name string, lower []string) {
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
	r.below[name] = append(r.below[name], lower...)
}

// expandGroup gives the names of a group; commas inside braces are alternatives.
func expandGroup(group string) ([]string, error) {
	var names []string
	depth, start := 0, 0
	for i, c := range group + "," {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			expanded, err := expandBraces(strings.TrimSpace(group[start:i]))
			if err != nil {
				return nil, err
			}
			names = append(names, expanded...)
			start = i + 1
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("group %q: braces do not match", group)
	}
	return names, nil
}

func expandBraces(name string) ([]string, error) {
	head, rest, found := strings.Cut(name, "{")
	if !found {
		if name == "" || strings.ContainsAny(name, "<> ") {
			return nil, fmt.Errorf("%q is not a name", name)
		}
		return []string{name}, nil
	}
	alternatives, tail, found := strings.Cut(rest, "}")
	if !found {
		return nil, fmt.Errorf("%q: braces do not match", name)
	}
	var out []string
	for _, a := range strings.Split(alternatives, ",") {
		more, err := expandBraces(head + strings.TrimSpace(a) + tail)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// Name gives the name in the rules that stands for a package: itself, a pattern, or the longest tree that holds it. It
// reports false for a package that no rule names.
func (r *Rules) Name(pkg string) (string, bool) {
	best, rank := "", -1
	for _, n := range r.names {
		if k := match(n, pkg); k > rank {
			best, rank = n, k
		}
	}
	return best, rank >= 0
}

// match ranks how well a name fits a package, -1 where it does not.
func match(name, pkg string) int {
	const exact, pattern = 1 << 20, 1 << 19
	if name == pkg {
		return exact
	}
	if tree, ok := strings.CutSuffix(name, "/..."); ok {
		if pkg == tree || strings.HasPrefix(pkg, tree+"/") {
			return len(tree)
		}
		return -1
	}
	if ok, err := path.Match(name, pkg); ok && err == nil {
		return pattern
	}
	return -1
}

// Allowed reports whether one package may import another. Packages of one tree may import each other.
func (r *Rules) Allowed(from, to string) bool {
	f, ok := r.Name(from)
	if !ok {
		return false
	}
	t, ok := r.Name(to)
	if !ok {
		return false
	}
	return f == t && strings.HasSuffix(f, "/...") || r.reaches(f, t, map[string]bool{})
}

func (r *Rules) reaches(from, to string, seen map[string]bool) bool {
	if seen[from] {
		return false
	}
	seen[from] = true
	for _, n := range r.below[from] {
		if n == to || r.reaches(n, to, seen) {
			return true
		}
	}
	return false
}
