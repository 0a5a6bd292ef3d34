package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/replay"
	"github.com/rsmhost/rsmhost/host/server"
)

// recordAll records all topics of a server.
func recordAll(t *testing.T, c *replay.Client, h *host.Host, cases int) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, topic := range h.Topics() {
		if !topic.Newest || topic.Deleted {
			continue
		}
		partitions, err := c.Partitions(topic.Name)
		if err != nil {
			t.Fatal(err)
		}
		enc, n := json.NewEncoder(&out), 0
		r := &replay.Recorder{Client: c, Topic: topic.Name, Partitions: partitions, Cases: cases, Seed: 7, Emit: func(k *replay.Case) error {
			n++
			return enc.Encode(k)
		}}
		if moved, err := r.Run(context.Background()); err != nil || moved || n == 0 || n > cases {
			t.Fatalf("%s: %d cases, moved %v, %v", topic.Name, n, moved, err)
		}
	}
	return out.Bytes()
}

// TestRecord: what is recorded from a server that answers as a broker does passes there to the byte, and with one that answers
// better; the same data make the same cases.
func TestRecord(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			cfg := fixtureConfig(builtIn(t, filepath.Join(fixtures, fixture, "remote"), "location"), fixture)
			cfg.KafkaExact = true
			h := openHost(t, cfg)
			exact, better := dial(t, served(t, h, server.Options{KafkaExact: true})), dial(t, servedFixture(t, fixture, false))
			cases := recordAll(t, exact, h, 250)
			if !bytes.Equal(cases, recordAll(t, exact, h, 250)) {
				t.Error("recorded again they are others")
			}
			kinds := replayCases(t, exact, cases, replay.Exact)
			replayCases(t, better, cases, replay.Better)
			for _, kind := range []string{"fetch", "offsets", "epochs", "with records", "with an error", "read_committed", "room for the first batch"} {
				if kinds[kind] == 0 {
					t.Errorf("no case of %s: %v", kind, kinds)
				}
			}
		})
	}
}

// replayCases replays cases, and counts them by kind.
func replayCases(t *testing.T, c *replay.Client, cases []byte, mode replay.Mode) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for s := replay.NewScanner("recorded", bytes.NewReader(cases)); ; {
		k, err := s.Next()
		if errors.Is(err, io.EOF) {
			return kinds
		}
		if err != nil {
			t.Fatal(err)
		}
		fails, err := replay.Run(context.Background(), c, k, mode)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fails {
			t.Errorf("mode %d: %s: %s: want %s, got %s", mode, k.Name(), f.Field, f.Want, f.Got)
		}
		if k.Note != "" {
			kinds[k.Note]++
		}
		switch {
		case k.Offsets != nil:
			kinds["offsets"]++
		case k.Epoch != nil:
			kinds["epochs"]++
		default:
			kinds["fetch"]++
			p := k.Fetch.Response.Partitions[0]
			kinds[map[bool]string{true: "with records", false: "without"}[p.RecordsLength > 0]]++
			kinds[map[bool]string{true: "with an error", false: "good"}[p.ErrorCode != 0]]++
			kinds[k.Fetch.Request.Isolation.String()]++
		}
	}
}

// TestRecordCommand: cases on stdout and nothing else, which pass where they were recorded; what is wrong is said.
func TestRecordCommand(t *testing.T) {
	address := servedFixture(t, "txn", false)
	var stderr bytes.Buffer
	cmd := exec.Command(artifacts(t).host, "record", "--bootstrap", address, "-t", "payments", "--cases", "40", "--seed", "3")
	cmd.Stderr = &stderr
	cases, err := cmd.Output()
	if err != nil || bytes.Count(cases, []byte("\n")) != 40 || stderr.String() != "rsmhost: recorded 40 cases of payments, 2 partitions\n" {
		t.Fatalf("%v: %d lines, %s", err, bytes.Count(cases, []byte("\n")), stderr.String())
	}
	file := filepath.Join(t.TempDir(), "cases.jsonl")
	if err := os.WriteFile(file, cases, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(artifacts(t).host, "test", "--bootstrap", address, file).CombinedOutput(); err != nil || string(out) != "40 passed, 0 failed\n" {
		t.Errorf("%v: %s", err, out)
	}
	for want, args := range map[string][]string{
		"give a server, a topic": {"record", "-t", "payments"},
		"takes no argument":      {"record", "--bootstrap", address, "-t", "payments", "x"},
		"has no such topic":      {"record", "--bootstrap", address, "-t", "nothing"},
		"NOT_FOUND: " + address + " has the partitions [0 1]": {"record", "--bootstrap", address, "-t", "payments", "-p", "7"},
	} {
		out, err := exec.Command(artifacts(t).host, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// TestSecuredServers: record and test --against log in to a server that asks for TLS and SASL, as a file of properties says.
func TestSecuredServers(t *testing.T) {
	s, dir := startSecured(t, "")
	properties := func(mechanism, password string) string {
		return writeFile(t, dir, mechanism+password, "security.protocol=SASL_SSL\nsasl.mechanism="+mechanism+"\nsasl.jaas.config=Module required username=\"alice\" password=\""+password+
			"\";\nssl.truststore.type=PEM\nssl.truststore.location="+filepath.Join(dir, "ca")+"\n")
	}
	run := func(args ...string) (string, error) {
		out, err := exec.Command(artifacts(t).host, args...).CombinedOutput()
		return string(out), err
	}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		out, err := run("record", "--bootstrap", s.address, "--bootstrap-config", properties(mechanism, "wonderland"), "-t", "payments", "--cases", "20")
		if err != nil || !strings.Contains(out, "recorded 20 cases") {
			t.Errorf("%s: %v: %s", mechanism, err, out)
		}
		out, err = run("record", "--bootstrap", s.address, "--bootstrap-config", properties(mechanism, "x"), "-t", "payments")
		if err == nil || !strings.Contains(out, "AUTH: SASL_AUTHENTICATION_FAILED") {
			t.Errorf("%s: a wrong password: %v: %s", mechanism, err, out)
		}
	}
	out, err := run("record", "--bootstrap", s.address, "-t", "payments")
	if err == nil || !strings.Contains(out, "no answer: EOF: it may ask for TLS or SASL, for which nothing is configured here") {
		t.Errorf("nothing configured: %v: %s", err, out)
	}
	out, err = run("test", "--bootstrap", servedFixture(t, "txn", true), "--against", s.address, "--against-config", properties("PLAIN", "wonderland"), "-t", "payments")
	if err != nil || !strings.Contains(out, "2 equal, 0 different") {
		t.Errorf("%v: %s", err, out)
	}
	s.stop(t)
}
