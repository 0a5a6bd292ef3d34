package main

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/format"
)

// catLocal runs cat on a partition of which only the local tier is given.
func catLocal(t *testing.T, broker, topic string, more ...string) []byte {
	t.Helper()
	dir := "../../testdata/kafka/" + broker + "/local"
	args := append([]string{"rsmhost", "cat", "-t", topic, "-p", "0", "--log-dir", dir, "--cache-dir", t.TempDir(), "--state-dir", t.TempDir()}, more...)
	var stdout, stderr bytes.Buffer
	if status := run(args, &stdout, &stderr); status != 0 {
		t.Fatalf("%v: status %d: %s", args, status, stderr.String())
	}
	return stdout.Bytes()
}

func headers(b []byte) []format.BatchHeader {
	var out []format.BatchHeader
	for w := format.Walk(b); w.Next(); {
		out = append(out, *w.Header())
	}
	return out
}

// TestRawEndsWithTheBatchBeforeTo: the last batch holds the offset before --to, wherever in a batch that lies.
func TestRawEndsWithTheBatchBeforeTo(t *testing.T) {
	all := headers(catLocal(t, "basic", "telemetry", "-o", "raw"))
	if len(all) < 10 {
		t.Fatalf("%d batches", len(all))
	}
	for _, h := range []format.BatchHeader{all[0], all[1], all[len(all)/2], all[len(all)-1]} {
		for _, to := range []int64{h.BaseOffset, h.BaseOffset + 1, h.LastOffset, h.LastOffset + 1} {
			var want []int64
			for _, b := range all {
				if b.BaseOffset < to {
					want = append(want, b.BaseOffset)
				}
			}
			var got []int64
			for _, b := range headers(catLocal(t, "basic", "telemetry", "-o", "raw", "--to", fmt.Sprint(to))) {
				got = append(got, b.BaseOffset)
			}
			if !slices.Equal(got, want) {
				t.Errorf("--to %d: batches %v, want %v", to, got, want)
			}
		}
	}
}

// TestRawCommittedHasNoAbortedBatches: the records of the raw batches are those that the other forms give.
func TestRawCommittedHasNoAbortedBatches(t *testing.T) {
	for _, isolation := range []string{"read_uncommitted", "read_committed"} {
		var got []int64
		for w := format.Walk(catLocal(t, "txn", "payments", "-o", "raw", "--isolation", isolation)); w.Next(); {
			if w.Header().IsControl() {
				continue
			}
			records, err := format.Records(w.Bytes(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				got = append(got, r.Offset)
			}
		}
		want := bytes.Count(catLocal(t, "txn", "payments", "-o", "json", "--isolation", isolation), []byte("\n"))
		if len(got) != want || want == 0 {
			t.Errorf("%s: %d records, and %d with -o json", isolation, len(got), want)
		}
	}
}
