package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/replay"
	"github.com/rsmhost/rsmhost/host/server"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// logOf is a log to compare, and what is changed in it.
type logOf struct {
	records []format.Record
	cut     []int // records a batch; nil: one batch of all
	aborted bool  // all are one producer's, in a transaction that is aborted
	hidden  bool  // which the transaction index does not know
	start   string
	attrs   int16
}

// three are three records that have all that a record can have.
func three() []format.Record {
	h := []format.Header{{Key: "h", Value: []byte("x")}}
	return []format.Record{{Offset: 0, Timestamp: 1000, Key: []byte("a"), Value: []byte("1")}, {Offset: 1, Timestamp: 1500, Key: []byte{}, Value: []byte("2"), Headers: h},
		{Offset: 2, Timestamp: 1200, Value: []byte("3")}}
}

// serve writes the log as a broker's log directory, and serves it.
func (l logOf) serve(t *testing.T) string {
	t.Helper()
	id := abi.TopicIDPartition{Topic: "orders", TopicID: kafkabytes.ID(1)}
	seg := &kafkabytes.Segment{Meta: abi.SegmentMetadata{LeaderEpochs: []abi.LeaderEpoch{{Epoch: 0, StartOffset: 0}}}}
	head := format.BatchHeader{Attributes: l.attrs, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	if l.aborted {
		head.ProducerID, head.ProducerEpoch, head.Attributes, head.BaseSequence = 7, 0, l.attrs|kafkabytes.Transactional, 0
	}
	rest, cuts := l.records, l.cut
	if cuts == nil {
		cuts = []int{len(rest)}
	}
	for _, n := range cuts {
		seg.Log = l.append(t, seg.Log, head, rest[:n])
		rest = rest[n:]
	}
	if l.aborted {
		marker := head
		marker.Attributes |= kafkabytes.Control
		marker.BaseSequence = -1
		end := l.records[len(l.records)-1].Offset + 1
		seg.Log = l.append(t, seg.Log, marker, []format.Record{{Offset: end, Timestamp: 2000, Key: []byte{0, 0, 0, 0}, Value: make([]byte, 6)}})
		if !l.hidden {
			seg.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 7, FirstOffset: 0, LastOffset: end, LastStableOffset: end + 1})
		}
	}
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, id, seg)
	if l.start != "" {
		kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", "orders 0 "+l.start)
	}
	kafkabytes.WriteCheckpoint(t, dir, "recovery-point-offset-checkpoint", "orders 0 100")
	kafkabytes.WriteFile(t, dir+"/.kafka_cleanshutdown", []byte(`{"version":0,"brokerEpoch":-1}`))
	return served(t, openHost(t, host.Config{LogDirs: []string{dir}}), server.Options{})
}

func (l logOf) append(t *testing.T, log []byte, h format.BatchHeader, records []format.Record) []byte {
	t.Helper()
	h.BaseOffset, h.LastOffset, h.BaseTimestamp = records[0].Offset, records[len(records)-1].Offset, records[0].Timestamp
	for _, r := range records {
		h.MaxTimestamp = max(h.MaxTimestamp, r.Timestamp)
	}
	out, err := format.AppendBatch(log, h, records)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// but is three with one of them changed.
func but(i int, change func(r *format.Record)) []format.Record {
	all := three()
	change(&all[i])
	return all
}

// TestAgainst: a difference in anything that a consumer sees is found and named, and how records are cut into batches is none.
func TestAgainst(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b logOf
		what string // "": equal
		text string // of B's side
	}{
		"equal":            {logOf{records: three()}, logOf{records: three()}, "", ""},
		"other batches":    {logOf{records: three(), cut: []int{1, 2}}, logOf{records: three(), cut: []int{2, 1}}, "", ""},
		"aborted, cut":     {logOf{records: three(), aborted: true}, logOf{records: three(), aborted: true, cut: []int{1, 1, 1}}, "", ""},
		"a value":          {logOf{records: three()}, logOf{records: but(1, func(r *format.Record) { r.Value = []byte("3") })}, "offset 1, read_uncommitted: value", `key "", value "3", header "h"="x"`},
		"a value, cut":     {logOf{records: three(), cut: []int{1, 2}}, logOf{records: but(2, func(r *format.Record) { r.Value = nil })}, "offset 2, read_uncommitted: value", "key null, value null"},
		"null for nothing": {logOf{records: three()}, logOf{records: but(1, func(r *format.Record) { r.Key = nil })}, "offset 1, read_uncommitted: key", "key null"},
		"a header":         {logOf{records: three()}, logOf{records: but(1, func(r *format.Record) { r.Headers = nil })}, "offset 1, read_uncommitted: headers", `value "2"`},
		"a time":           {logOf{records: three()}, logOf{records: but(0, func(r *format.Record) { r.Timestamp++ })}, "offset 0, read_uncommitted: timestamp", "1970-01-01T00:00:01.001Z"},
		"a kind of time":   {logOf{records: three()[:1]}, logOf{records: three()[:1], attrs: 0x08}, "offset 0, read_uncommitted: timestamp type", "LogAppendTime"},
		"a hole":           {logOf{records: three()}, logOf{records: append(three()[:1], three()[2])}, "offset 1, read_uncommitted: offset", "offset 2"},
		"a missing tail":   {logOf{records: three()}, logOf{records: three()[:2]}, "the end, read_uncommitted", "offset 2"},
		"another start":    {logOf{records: three(), cut: []int{1, 2}}, logOf{records: three(), cut: []int{1, 2}, start: "1"}, "the first offset, read_uncommitted", "offset 1"},
		"an index lost":    {logOf{records: three(), aborted: true}, logOf{records: three(), aborted: true, hidden: true}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, swapped := range []bool{false, true} {
				sides := [2]*replay.Client{dial(t, tt.a.serve(t)), dial(t, tt.b.serve(t))}
				if swapped {
					sides[0], sides[1] = sides[1], sides[0]
				}
				g := &replay.Against{A: sides[0], B: sides[1], Topic: "orders"}
				got, err := g.Partition(context.Background(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if tt.what == "" {
					if got.Difference != nil || got.Records < 3 || g.Read.Load() == 0 {
						t.Errorf("swapped %v: %+v, %+v", swapped, got, got.Difference)
					}
					continue
				}
				if d := got.Difference; d == nil || d.What != tt.what || !strings.Contains(map[bool]string{false: d.B, true: d.A}[swapped], tt.text) {
					t.Errorf("swapped %v: %+v, want %q with %q", swapped, d, tt.what, tt.text)
				}
			}
		})
	}
}

func dial(t *testing.T, address string) *replay.Client {
	t.Helper()
	c, err := replay.Dial(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestAgainstCommand: what each recorded broker holds is the same through both kinds of answers, and the exit code says what is
// not.
func TestAgainstCommand(t *testing.T) {
	run := func(exit int, args ...string) string {
		t.Helper()
		out, err := exec.Command(artifacts(t).host, append([]string{"test"}, args...)...).CombinedOutput()
		code := 0
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != exit {
			t.Errorf("%v: exit %d, want %d", args, code, exit)
		}
		return string(out)
	}
	a, b := servedFixture(t, "txn", true), servedFixture(t, "txn", false)
	if out := run(0, "--bootstrap", a, "--against", b, "-t", "payments"); !strings.Contains(out, "payments-0 equal: offsets 0 to 1387, ") ||
		!strings.Contains(out, "\n2 equal, 0 different\n") || !strings.Contains(out, "rsmhost: read ") {
		t.Errorf("said %s", out)
	}
	one, other := logOf{records: three()}.serve(t), logOf{records: three()[:2]}.serve(t)
	want := "orders-0 differs: the end, read_uncommitted\n  " + one + ": offset 3, leader epoch 0\n  " + other + ": offset 2, leader epoch 0\n0 equal, 1 different\n"
	if out := run(1, "--bootstrap", one, "--against", other, "-t", "orders"); !strings.HasPrefix(out, want) {
		t.Errorf("said %s", out)
	}
	for want, args := range map[string][]string{
		"give the two servers and a topic": {"--against", a, "-t", "orders"},
		"takes no FILE":                    {"--bootstrap", a, "--against", a, "-t", "orders", "x.jsonl"},
		"FILEs name their topics":          {"--bootstrap", a, "-t", "orders", "x.jsonl"},
		"--against has none":               {"--bootstrap", a, "--against", a, "-t", "orders", "--junit", "x.xml"},
		"test --bootstrap: it is empty":    {"--bootstrap", "", "x.jsonl"},
		"test --against: it is empty":      {"--bootstrap", a, "--against", "", "x.jsonl"},
		"to --bootstrap HOST:PORT":         {"--bootstrap-config", "x", "x.jsonl"},
		"to --against HOST:PORT":           {"--bootstrap", a, "--against-config", "x", "x.jsonl"},
	} {
		if out := run(2, args...); !strings.Contains(out, want) {
			t.Errorf("%v: said %s", args, out)
		}
	}
	if out := run(1, "--bootstrap", a, "--against", b, "-t", "payments", "-p", "7"); !strings.Contains(out, "find partition payments-7: NOT_FOUND: "+a+" has the partitions [0 1]") {
		t.Errorf("said %s", out)
	}
	if out := run(1, "--bootstrap", one, "--against", a, "-t", "orders"); !strings.Contains(out, "NOT_FOUND: "+a+" has no such topic") {
		t.Errorf("said %s", out)
	}
}
