package abi

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func contractText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestClauseIDs holds that every clause has an id of its own, and that ids are given in order.
func TestClauseIDs(t *testing.T) {
	last := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*([A-Z])-(\d\d)\*\* `).FindAllStringSubmatch(contractText(t), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if n != last[m[1]]+1 {
			t.Errorf("%s-%02d follows %s-%02d", m[1], n, m[1], last[m[1]])
		}
		last[m[1]] = n
	}
	if len(last) < 9 {
		t.Errorf("the text has clauses of %d groups", len(last))
	}
}

// TestKindsStandInTheText holds the table of section 4 and the code together: number, name, and whether it is retriable.
func TestKindsStandInTheText(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| ([A-Z]+(?:_[A-Z]+)*) \| .* \| (yes)? ?\|$`).FindAllStringSubmatch(contractText(t), -1)
	if len(rows) != len(kindNames)-1 {
		t.Fatalf("%d kinds in the text, %d in the code", len(rows), len(kindNames)-1)
	}
	for _, row := range rows {
		k, ok := ParseKind(row[2])
		if !ok || fmt.Sprint(int32(k)) != row[1] || k.Retriable() != (row[3] == "yes") {
			t.Errorf("the text has %v, the code %v = %d, retriable %v", row[1:], k, int32(k), k.Retriable())
		}
	}
}

// TestIndexTypesStandInTheText does the same for X-01.
func TestIndexTypesStandInTheText(t *testing.T) {
	text := contractText(t)
	for _, typ := range IndexTypes() {
		if want := fmt.Sprintf("%v %d", typ, int32(typ)); !strings.Contains(text, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
}
