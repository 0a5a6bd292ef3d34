package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentsShowWhatHappens runs each command that a document shows and holds its output against it, but for times and
// request ids.
func TestDocumentsShowWhatHappens(t *testing.T) {
	for _, doc := range []string{"README.md", "docs/read-path.md"} {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			t.Parallel()
			checkDocument(t, doc)
		})
	}
}

func checkDocument(t *testing.T, doc string) {
	b, err := os.ReadFile(filepath.Join("../..", doc))
	if err != nil {
		t.Fatal(err)
	}
	art := artifacts(t)
	state := t.TempDir()
	blocks := consoleBlocks(string(b))
	if len(blocks) < 5 {
		t.Fatalf("only %d commands found", len(blocks))
	}
	for _, block := range blocks {
		command, want, _ := strings.Cut(block, "\n")
		args := append(strings.Fields(command), "--config", "examples/rsmhost.yaml", "--plugin-dir", filepath.Dir(art.wasm), "--cache-dir", state, "--state-dir", state+"/state")
		cmd := exec.Command(art.host, args...)
		cmd.Dir = "../.."
		got, _ := cmd.CombinedOutput() // an exit status other than 0 is part of the tour
		if settle(string(got)) != settle(want) {
			t.Errorf("$ rsmhost %s\n--- the document has\n%s\n--- it prints\n%s", command, settle(want), settle(string(got)))
		}
	}
}

// consoleBlocks gives the indented blocks that begin with "$ rsmhost ", without indent and prompt.
func consoleBlocks(doc string) []string {
	var blocks []string
	open := false
	for _, line := range strings.Split(doc, "\n") {
		text, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(text, "$ rsmhost "):
			blocks, open = append(blocks, strings.TrimPrefix(text, "$ rsmhost ")), true
		case open && (indented || line == ""):
			blocks[len(blocks)-1] += "\n" + text
		default:
			open = false
		}
	}
	return blocks
}

var (
	times = regexp.MustCompile(` +[0-9]+\.[0-9]{2} ms( +▇*)?`)
	ids   = regexp.MustCompile(`request [0-9a-f]{8}`)
)

// settle replaces what differs from run to run.
func settle(s string) string {
	return strings.TrimSpace(ids.ReplaceAllString(times.ReplaceAllString(s, " TIME"), "request ID"))
}
