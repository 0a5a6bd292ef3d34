package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rsmhost/rsmhost/internal/golden"
)

// line is a record as a recorded consumer had it, or what the recorder says in its place.
type line map[string]any

// TestCat holds rsmhost cat against what Java consumers got of the same topics.
func TestCat(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		for _, isolation := range []string{"read_uncommitted", "read_committed"} {
			t.Run(fixture+"/"+isolation, func(t *testing.T) {
				t.Parallel()
				want := recorded(t, fixture, isolation)
				for _, topic := range topicsOf(t, fixture) {
					got := cat(t, fixture, topic, isolation)
					var mine []line
					for _, l := range want {
						if l["topic"] == topic {
							mine = append(mine, l)
						}
					}
					if diff := cmp.Diff(mine, got); diff != "" {
						t.Errorf("%s: %d records, want %d (-want +got):\n%.4000s", topic, len(got), len(mine), diff)
					}
				}
			})
		}
	}
}

// cat runs the command and gives its lines in the form of recorded ones.
func cat(t *testing.T, fixture, topic, isolation string) []line {
	t.Helper()
	dir := filepath.Join(fixtures, fixture)
	cmd := exec.Command(artifacts(t).host, "cat", "-t", topic, "--isolation", isolation, "-o", "json",
		"--metadata", "dir:"+filepath.Join(dir, "rlmm"), "--log-dir", filepath.Join(dir, "local"),
		"--plugin", artifacts(t).process, "--plugin-config", "root="+filepath.Join(dir, "remote"), "--cache-dir", t.TempDir(), "--state-dir", t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("cat %s: %v: %s", topic, err, stderr.String())
	}
	lines := parseLines(t, bytes.NewReader(out))
	for _, l := range lines {
		l["key"], l["value"] = digest(t, l["key"]), digest(t, l["value"])
		for _, h := range l["headers"].([]any) {
			h := h.(map[string]any)
			h["v"] = digest(t, h["v"])
		}
	}
	return lines
}

// digest gives a payload as the recorder wrote it: bytes up to 64, of more the length and the hash.
func digest(t *testing.T, payload any) any {
	t.Helper()
	if payload == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(payload.(map[string]any)["b64"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if len(b) <= 64 {
		return payload
	}
	sum := sha256.Sum256(b)
	return map[string]any{"len": json.Number(fmt.Sprint(len(b))), "sha256": hex.EncodeToString(sum[:])}
}

// recorded gives the records of a fixture's topics. Where a consumer hung (KAFKA-16088), cat goes on to the next record
// as the recorder made the consumer do.
func recorded(t *testing.T, fixture, isolation string) []line {
	t.Helper()
	read := func(name string) []line {
		f, err := os.Open(filepath.Join(fixtures, fixture, "golden", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return parseLines(t, f)
	}
	all := read("records-uncommitted.jsonl")
	if isolation == "read_committed" {
		uncommitted := all
		all = nil
		for _, l := range read("records-committed.jsonl") {
			if l["sameAsUncommitted"] != true {
				all = append(all, l)
				continue
			}
			for _, u := range uncommitted {
				if u["topic"] == l["topic"] && u["partition"] == l["partition"] {
					all = append(all, u)
				}
			}
		}
	}
	return slices.DeleteFunc(all, func(l line) bool { return l["stuckAt"] != nil })
}

func parseLines(t *testing.T, r io.Reader) []line {
	t.Helper()
	var out []line
	s := bufio.NewScanner(r)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.UseNumber()
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%s: %v", s.Bytes(), err)
		}
		out = append(out, l)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// topicsOf lists the topics of a fixture's recorded partitions.
func topicsOf(t *testing.T, fixture string) []string {
	t.Helper()
	var topics []string
	for _, p := range golden.Partitions(t, filepath.Join(fixtures, fixture)) {
		if !slices.Contains(topics, p.Topic) {
			topics = append(topics, p.Topic)
		}
	}
	return topics
}
