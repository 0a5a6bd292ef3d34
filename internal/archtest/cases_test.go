package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kafkaCases are the reading cases of Kafka's own tests, and defects of Kafka that are known or have a letter, for each of
// which there is a test. They are named in the issue that asks for the read path; the numbers are those of the behaviour
// specification, sections 10 and 11. Each id stands for tests named Test and the id, with a word behind it or not.
const kafkaCases = `
	R1-5 S1-4 T1-2 O1-4 M1-7 D1-7 I1-18 L1-10 C1-4
	Defect1-6 Defect8-21 Defect23-24 Defect28-32 Defect35-36 Defect38-39 Defect41-41 Defect43-43
	DefectA-H DefectJ-P
`

// ids gives what a list stands for: "R1-3" is R1, R2 and R3, "A-C" is A, B and C.
func ids(list string) ([]string, error) {
	var out []string
	form := regexp.MustCompile(`^([A-Za-z]*?)([A-Z]|[0-9]+)-([A-Z]|[0-9]+)$`)
	for _, w := range strings.Fields(list) {
		m := form.FindStringSubmatch(w)
		if m == nil {
			return nil, fmt.Errorf("%q is no range", w)
		}
		from, err := strconv.Atoi(m[2])
		to, terr := strconv.Atoi(m[3])
		switch {
		case err == nil && terr == nil:
			for n := from; n <= to; n++ {
				out = append(out, fmt.Sprint(m[1], n))
			}
		case err != nil && terr != nil: // a letter each
			for c := m[2][0]; c <= m[3][0]; c++ {
				out = append(out, m[1]+string(c))
			}
		default:
			return nil, fmt.Errorf("%q is no range", w)
		}
	}
	return out, nil
}

// named matches the tests of an id: TestL1 and TestL1Empty, and not TestL10 or TestLast.
func named(id string) *regexp.Regexp {
	return regexp.MustCompile(`^Test` + id + `($|_|[A-Z]` + map[bool]string{true: ``, false: `|[0-9]`}[id[len(id)-1] <= '9'] + `)`)
}

// testFuncs are the test functions of files by name.
func testFuncs(files []*File) map[string][]*ast.FuncDecl {
	out := map[string][]*ast.FuncDecl{}
	for _, f := range files {
		for _, d := range f.Syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.Test && fn.Recv == nil && fn.Body != nil {
				out[fn.Name.Name] = append(out[fn.Name.Name], fn)
			}
		}
	}
	return out
}

// silent are the methods of testing.T that check nothing.
var silent = []string{"Skip", "Skipf", "SkipNow", "Helper", "Parallel", "Log", "Logf", "Run", "Cleanup"}

// onlySkips reports a test that checks nothing: one that skips whatever happens, or that calls nothing but what is silent.
func onlySkips(fn *ast.FuncDecl) bool {
	for _, s := range fn.Body.List {
		if e, ok := s.(*ast.ExprStmt); ok && strings.HasPrefix(method(e.X), "Skip") {
			return true
		}
	}
	checks := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && !slices.Contains(silent, method(c)) {
			checks = true
		}
		return !checks
	})
	return !checks
}

// method is the name of the method that e calls, empty where it calls none.
func method(e ast.Expr) string {
	if c, ok := e.(*ast.CallExpr); ok {
		if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
			return sel.Sel.Name
		}
	}
	return ""
}

// missing lists the ids that no test checks.
func missing(list []string, tests map[string][]*ast.FuncDecl) []string {
	return slices.DeleteFunc(slices.Clone(list), func(id string) bool {
		re := named(id)
		for name, fns := range tests {
			if re.MatchString(name) && slices.ContainsFunc(fns, func(fn *ast.FuncDecl) bool { return !onlySkips(fn) }) {
				return true
			}
		}
		return false
	})
}

// TestKafkaCases: each case and each defect has a test of its name that does more than to skip.
func TestKafkaCases(t *testing.T) {
	list, err := ids(kafkaCases)
	if err != nil {
		t.Fatal(err)
	}
	const want = 5 + 4 + 2 + 4 + 7 + 7 + 18 + 10 + 4 + 6 + 14 + 2 + 5 + 2 + 2 + 1 + 1 + 8 + 7
	if len(list) != want {
		t.Errorf("%d ids, want %d", len(list), want)
	}
	for _, id := range missing(list, testFuncs(load(t))) {
		t.Errorf("no test named Test%s... checks anything", id)
	}
}

// TestMissing holds the list against tests that check nothing, or another thing.
func TestMissing(t *testing.T) {
	const source = `package p
func TestL1Empty(t *testing.T) { t.Errorf("x") }
func TestL20(t *testing.T) { t.Errorf("x") }
func TestL3(t *testing.T) { t.Skip("later"); t.Errorf("x") }
func TestL4(t *testing.T) {}
func TestL5Words(t *testing.T) { t.Run("x", func(t *testing.T) { t.Skipf("later") }) }
func TestL6(t *testing.T) { check(t) }
func TestL7_a(t *testing.T) { if testing.Short() { t.Skip() }; t.Error("x") }
func TestL8word(t *testing.T) { t.Error("x") }
func (s suite) TestL9(t *testing.T) { t.Error("x") }
func TestDefectA1Nested(t *testing.T) { t.Error("x") }
func TestDefectB(t *testing.T) { t.Error("x") }
func TestDefectCached(t *testing.T) { t.Error("x") }
func TestDefectDDamage(t *testing.T) { t.Error("x") }
`
	syntax, err := parser.ParseFile(token.NewFileSet(), "p_test.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ids("L1-10 DefectA-E")
	if err != nil {
		t.Fatal(err)
	}
	got := missing(list, testFuncs([]*File{{Path: "p_test.go", Test: true, Syntax: syntax}}))
	if want := []string{"L2", "L3", "L4", "L5", "L8", "L9", "L10", "DefectC", "DefectE"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
	for _, bad := range []string{"L", "L1", "1-A", "A-10", "L1-", "AB-CD"} {
		if got, err := ids(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}
