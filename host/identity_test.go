package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// part is a partition of a topic with this id.
func part(topic string, id byte, number int32) abi.TopicIDPartition {
	p := tp(topic, id)
	p.Partition = number
	return p
}

// findings is what a host's findings say, one a line.
func findings(h *Host) string {
	var out []string
	for _, f := range h.Findings() {
		out = append(out, f.String())
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// checkFindings checks that there is a finding for each of words, and no other.
func checkFindings(t *testing.T, h *Host, words ...string) {
	t.Helper()
	all := h.Findings()
	ok := len(all) == len(words)
	for _, w := range words {
		ok = ok && strings.Contains(findings(h), w)
	}
	if !ok {
		t.Errorf("findings:\n%s\nwant\n%s", findings(h), strings.Join(words, "\n"))
	}
}

// TestTopicIDOfALog: partition.metadata is a small file without a checksum. Where it says another id than the metadata, and the log
// goes on where a remote partition of the topic ends, it is that one's, and a finding says so; where nothing says that it is
// wrong, the topic was made anew.
func TestTopicIDOfALog(t *testing.T) {
	remote := tens(t, part("orders", 1, 0), 11, 0, 2, 0)  // 0-19
	other := tens(t, part("orders", 1, 1), 12, 0, 2, 0)   // 0-19
	behind := tens(t, part("orders", 1, 0), 13, 20, 2, 0) // 20-39
	for _, tt := range []struct {
		name       string
		says       byte     // the id of partition 0's log
		local      *segment // partition 0's log
		checkpoint string
		sibling    byte // the id of partition 1's log; 0: there is none
		topics     string
		at0        string
		findings   []string
	}{
		{"the metadata's", 1, behind, "orders 0 0", 0, "orders@1 0:0-40 1:0-20 newest", "NONE [0 10 20 30]", nil},
		{"another, and it depends on the remote tier", 9, behind, "orders 0 0", 0, "orders@1 0:0-40 1:0-20 newest", "NONE [0 10 20 30]",
			[]string{"partition.metadata: it says topic id AAAAAAAAAAAAAAAAAAAACQ, and the log goes on where the remote tier of orders ends"}},
		{"another, and siblings have the metadata's", 9, behind, "others 0 0", 1, "orders@1 0:0-40 1:0-20 newest", "NONE [0 10 20 30]",
			[]string{"partition.metadata: it says topic id AAAAAAAAAAAAAAAAAAAACQ"}},
		{"another, and its leader epochs begin with the remote tier", 9, behind, "others 0 0", 0, "orders@1 0:0-40 1:0-20 newest", "NONE [0 10 20 30]",
			[]string{"partition.metadata: it says topic id AAAAAAAAAAAAAAAAAAAACQ"}},
		{"another, of a topic that was made anew", 9, tens(t, part("orders", 9, 0), 14, 0, 2, 0), "others 0 0", 0, "orders@9 0:0-20 newest, orders@1 0:0-20 1:0-20", "NONE [0 10]", nil},
		{"another, and a gap", 9, tens(t, part("orders", 1, 0), 14, 50, 1, 0), "others 0 0", 1, "orders@1 0:0-20 1:0-20 newest, orders@9 0:50-60", "NONE [0 10]",
			[]string{"they are read as two topics"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			kafkabytes.WriteLog(t, dir, part("orders", tt.says, 0), tt.local)
			if tt.sibling != 0 {
				kafkabytes.WriteLog(t, dir, part("orders", tt.sibling, 1), other)
			}
			kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), []byte("0\n1\n0 0\n"))
			kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", tt.checkpoint)
			h := open(t, Config{RSM: memrsm.New(memrsm.Inline, remote, other), Metadata: metadata(t, finished(remote, other)...), LogDirs: []string{dir}})
			want(t, "topics", topics(h), tt.topics)
			want(t, "at 0", read(t, h, from("orders", 0)), tt.at0)
			checkFindings(t, h, tt.findings...)
		})
	}
}

// TestOneIDOfTwoTopics: two names with one id are told, both are read by name, and nobody is given the id.
func TestOneIDOfTwoTopics(t *testing.T) {
	a, b := tens(t, part("a", 1, 0), 11, 0, 1, 0), tens(t, part("b", 1, 0), 12, 0, 2, 0)
	t.Run("in the metadata", func(t *testing.T) {
		h := bucket(t, memrsm.New(memrsm.Inline, a, b), finished(a, b)...)
		want(t, "a", read(t, h, from("a", 0)), "NONE [0]")
		want(t, "b", read(t, h, from("b", 0)), "NONE [0 10]")
		if _, ok := h.Incarnation(a.Meta.TopicID); ok {
			t.Error("the id means one of them")
		}
		for _, topic := range h.Topics() {
			if !topic.WireID().IsZero() {
				t.Errorf("clients are told id %s of %s", topic.WireID(), topic.Name)
			}
		}
		checkFindings(t, h, "a: the metadata gives its id, AAAAAAAAAAAAAAAAAAAAAQ, to a and b", "b: the metadata gives its id, AAAAAAAAAAAAAAAAAAAAAQ, to a and b")
	})
	t.Run("in the local tier", func(t *testing.T) {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, part("a", 1, 0), a)
		kafkabytes.WriteLog(t, dir, part("b", 1, 0), b)
		h := open(t, Config{LogDirs: []string{dir}})
		want(t, "topics", topics(h), "a@0 0:0-10 newest, b@0 0:0-20 newest")
		want(t, "b", read(t, h, from("b", 0)), "NONE [0 10]")
		checkFindings(t, h, "that of topic b: the id of this one is not known", "that of topic a: the id of this one is not known")
	})
	t.Run("one in each", func(t *testing.T) {
		dir := t.TempDir()
		kafkabytes.WriteLog(t, dir, part("b", 1, 0), b)
		h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a), Metadata: metadata(t, finished(a)...), LogDirs: []string{dir}})
		want(t, "topics", topics(h), "a@1 0:0-10 newest, b@0 0:0-20 newest")
		checkFindings(t, h, "that of topic a: the id of this one is not known")
	})
}

// TestTwoLogDirs: of two logs of one partition the longer is read, in whatever order they are given: by the last leader epoch first,
// then by the end. A finding names both.
func TestTwoLogDirs(t *testing.T) {
	p := tp("orders", 1)
	segs := func(epochs string, segs ...*segment) func(t *testing.T, node string) string {
		return func(t *testing.T, node string) string {
			dir := t.TempDir()
			kafkabytes.WriteLog(t, dir, p, segs...)
			kafkabytes.WriteFile(t, filepath.Join(dir, "orders-0", "leader-epoch-checkpoint"), []byte(epochs))
			kafkabytes.WriteFile(t, filepath.Join(dir, "meta.properties"), []byte("version=1\nnode.id="+node+"\n"))
			end := segs[len(segs)-1].Meta.EndOffset + 1
			kafkabytes.WriteCheckpoint(t, dir, "replication-offset-checkpoint", fmt.Sprintf("orders 0 %d", end))
			kafkabytes.WriteCheckpoint(t, dir, "log-start-offset-checkpoint", fmt.Sprintf("orders 0 %d", segs[0].Meta.StartOffset))
			return dir
		}
	}
	a, b := tens(t, p, 11, 0, 2, 0), tens(t, p, 12, 20, 2, 0)
	later := kafkabytes.NewSegment(t, p, 13, kafkabytes.Batch{Base: 0, Last: 9}, kafkabytes.Batch{Base: 10, Last: 14, Epoch: 3})
	const zero, three = "0\n1\n0 0\n", "0\n2\n0 0\n3 10\n"
	for _, tt := range []struct {
		name         string
		one, another func(t *testing.T, node string) string
		end          int64
		repaired     bool // where they are of two brokers
	}{
		{"one is behind", segs(zero, a), segs(zero, a, b), 40, true},
		{"one is of a later leader", segs(zero, a, b), segs(three, later), 15, true},
		{"one begins later", segs(zero, b), segs(zero, a, b), 40, true},
		{"their epochs part", segs("0\n2\n0 0\n1 10\n", a, b), segs(three, later), 15, false},
	} {
		for _, nodes := range []string{"11", "12"} {
			one, another := tt.one(t, nodes[:1]), tt.another(t, nodes[1:])
			for _, dirs := range [][]string{{one, another}, {another, one}} {
				h := open(t, Config{LogDirs: dirs})
				topic, err := h.Topic("orders")
				if err != nil || len(topic.Partitions) != 1 {
					t.Fatalf("%s: %v, %v", tt.name, topic, err)
				}
				if got := topic.Partitions[0].Offsets.LogEnd; got != tt.end {
					t.Errorf("%s: log end %d, want %d", tt.name, got, tt.end)
				}
				all := h.Findings()
				if len(all) != 1 || !strings.Contains(all[0].String(), one) || !strings.Contains(all[0].String(), another) ||
					all[0].Repaired != (tt.repaired && nodes == "12") {
					t.Errorf("%s, nodes %s: findings %+v", tt.name, nodes, all)
				}
			}
		}
	}
}

// TestHolesAreFindings: offsets that no tier holds are told, with the answers that follow from it, and stand until they are found.
func TestHolesAreFindings(t *testing.T) {
	p := tp("orders", 1)
	a, b, c := tens(t, p, 11, 0, 1, 0), tens(t, p, 12, 10, 1, 0), tens(t, p, 13, 20, 1, 0)
	dir := t.TempDir()
	log := kafkabytes.MetadataLog(t, finished(a, c)...)
	path := filepath.Join(dir, "__remote_log_metadata-0", "00000000000000000000.log")
	kafkabytes.WriteFile(t, path, log)
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, a, b, c), Metadata: "dir:" + dir})
	checkFindings(t, h, "orders-0, offset 10: offsets 10 to 19 are in no tier")
	want(t, "before it", read(t, h, from("orders", 0)), "NONE [0]")
	want(t, "in it", read(t, h, from("orders", 15)), "NOT_LEADER_OR_FOLLOWER []")
	want(t, "behind it", read(t, h, from("orders", 20)), "NONE [20]")
	kafkabytes.WriteFile(t, path, append(log, kafkabytes.MetadataLogAt(t, 4, finished(b)...)...))
	if err := h.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkFindings(t, h)
	want(t, "found", read(t, h, from("orders", 0)), "NONE [0 10 20]")
}

// TestManyHolesAreBounded: a partition with many holes is told of in a few findings.
func TestManyHolesAreBounded(t *testing.T) {
	p := tp("orders", 1)
	var segs []*segment
	for i := range 40 {
		segs = append(segs, tens(t, p, byte(11+i), int64(i)*20, 1, 0))
	}
	h := bucket(t, memrsm.New(memrsm.Inline), finished(segs...)...)
	if all := h.Findings(); len(all) != maxHoles+1 || !strings.Contains(fmt.Sprint(all), "29 more stretches") {
		t.Errorf("%d findings: %v", len(all), all)
	}
}
