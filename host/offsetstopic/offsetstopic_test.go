package offsetstopic

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
)

// batches calls visit with each batch of a segment's bytes.
func batches(t testing.TB, b []byte, visit func(h *format.BatchHeader, b []byte)) {
	t.Helper()
	for len(b) > 0 {
		h, err := format.ParseBatchHeader(b)
		if err != nil || h.Size() > int64(len(b)) {
			t.Fatalf("%v", err)
		}
		visit(&h, b[:h.Size()])
		b = b[h.Size():]
	}
}

// TestOffsetsOfARealBroker: Kafka 4.3.1 with groups of the classic protocol, of KIP-848 and of transactions, some of which were
// aborted or are open, with offsets, a group and a topic that were deleted. Its own answers are the truth.
func TestOffsetsOfARealBroker(t *testing.T) {
	var got []string
	undecided, strange := 0, 0
	for p := range 3 {
		b, err := os.ReadFile(fmt.Sprintf("../../testdata/lostcluster/%s-%d/00000000000000000000.log", Name, p))
		if err != nil {
			t.Fatal(err)
		}
		s := New(1 << 20)
		batches(t, b, func(h *format.BatchHeader, b []byte) {
			if err := s.Batch(h, b); err != nil {
				t.Errorf("%d: %v", p, err)
			}
		})
		for _, c := range s.Commits(0) {
			got = append(got, fmt.Sprintf("%s\t%s-%d\t%d\t%d\t%s", c.Group, c.Topic, c.Partition, c.Offset, c.LeaderEpoch, c.Metadata))
			if c.TopicID.IsZero() != (c.Group == "tx-app") || c.At <= 0 {
				t.Errorf("%+v: 4.3 writes both, but for the topic's id of a transactional commit", c)
			}
		}
		undecided, strange = undecided+s.Undecided(), strange+s.Strange()
	}
	text, err := os.ReadFile("../../testdata/lostcluster.tsv")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), got); diff != "" {
		t.Error(diff)
	}
	if undecided != 1 || strange != 0 {
		t.Errorf("%d offsets of open transactions, want 1; %d strange records", undecided, strange)
	}
}

// step is a batch of a test.
type step struct {
	producer int64 // above 0: transactional
	end      string
	keys     [][]byte
	values   [][]byte
}

func keyOf(group string, partition int32) []byte {
	return (&kmsg.OffsetCommitKey{Version: 1, Group: group, Topic: "orders", Partition: partition}).AppendTo(nil)
}

func valueOf(version int16, offset int64) []byte {
	return (&kmsg.OffsetCommitValue{Version: version, Offset: offset, LeaderEpoch: 5, Metadata: "m", CommitTimestamp: 1000, ExpireTimestamp: -1, TopicID: abi.UUID{7}}).AppendTo(nil)
}

func commits(producer int64, group string, offset int64) step {
	return step{producer, "", [][]byte{keyOf(group, 0)}, [][]byte{valueOf(3, offset)}}
}

func ends(producer int64, how string) step { return step{producer: producer, end: how} }

func tombstone(group string) step { return step{0, "", [][]byte{keyOf(group, 0)}, [][]byte{nil}} }

// apply makes a batch of each step, the first at this offset, and gives them to s.
func apply(t *testing.T, s *State, base int64, steps ...step) {
	t.Helper()
	for i, st := range steps {
		h := format.BatchHeader{BaseOffset: base + int64(i)*10, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, BaseTimestamp: 1000, MaxTimestamp: 1000}
		var records []format.Record
		for j := range st.keys {
			records = append(records, format.Record{Offset: h.BaseOffset + int64(j), Timestamp: 1000, Key: st.keys[j], Value: st.values[j]})
		}
		if st.producer > 0 {
			h.ProducerID, h.ProducerEpoch, h.Attributes = st.producer, 0, 0x10
		}
		if st.end != "" {
			h.Attributes |= 0x20
			records = []format.Record{{Offset: h.BaseOffset, Timestamp: 1000, Key: []byte{0, 0, 0, map[string]byte{"abort": 0, "commit": 1, "other": 9}[st.end]}, Value: []byte{0, 0, 0, 0, 0, 0}}}
		}
		b, err := format.AppendBatch(nil, h, records)
		if err != nil {
			t.Fatal(err)
		}
		if h, err = format.ParseBatchHeader(b); err != nil {
			t.Fatal(err)
		}
		if err := s.Batch(&h, b); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatStands: which of several commits of a partition counts; -1: none.
func TestWhatStands(t *testing.T) {
	for name, tt := range map[string]struct {
		steps     []step
		want      int64
		undecided int
	}{
		"the last":                  {[]step{commits(0, "g", 5), commits(0, "g", 3)}, 3, 0},
		"a tombstone":               {[]step{commits(0, "g", 5), tombstone("g")}, -1, 0},
		"after a tombstone":         {[]step{commits(0, "g", 5), tombstone("g"), commits(0, "g", 6)}, 6, 0},
		"a tombstone of nothing":    {[]step{tombstone("g")}, -1, 0},
		"an open transaction":       {[]step{commits(0, "g", 5), commits(1, "g", 9)}, 5, 1},
		"one that committed":        {[]step{commits(0, "g", 5), commits(1, "g", 9), ends(1, "commit")}, 9, 0},
		"one that aborted":          {[]step{commits(0, "g", 5), commits(1, "g", 9), ends(1, "abort")}, 5, 0},
		"another's marker":          {[]step{commits(1, "g", 9), ends(2, "commit")}, -1, 1},
		"a marker of another kind":  {[]step{commits(1, "g", 9), ends(1, "other")}, -1, 1},
		"a marker without commits":  {[]step{ends(1, "commit"), commits(0, "g", 4)}, 4, 0},
		"a later commit came first": {[]step{commits(1, "g", 9), commits(0, "g", 5), ends(1, "commit")}, 5, 0},
		"two in a transaction":      {[]step{commits(1, "g", 9), commits(1, "g", 8), ends(1, "commit")}, 8, 0},
		"two transactions":          {[]step{commits(1, "g", 9), commits(2, "g", 8), ends(2, "commit"), ends(1, "commit")}, 8, 0},
		"the next of one producer":  {[]step{commits(1, "g", 9), ends(1, "abort"), commits(1, "g", 2), ends(1, "commit")}, 2, 0},
		"a tombstone while open":    {[]step{commits(0, "g", 5), commits(1, "g", 9), tombstone("g"), ends(1, "commit")}, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(1 << 20)
			apply(t, s, 100, tt.steps...)
			got := int64(-1)
			for _, c := range s.Commits(0) {
				got = c.Offset
			}
			if got != tt.want || s.Undecided() != tt.undecided {
				t.Errorf("%d, %d undecided; want %d, %d", got, s.Undecided(), tt.want, tt.undecided)
			}
			if got := len(s.Commits(100 + int64(len(tt.steps))*10)); got != 0 {
				t.Errorf("%d commits behind the last record", got)
			}
		})
	}
}

// TestEveryVersionOfARecord: keys 0 and 1, values 0 to 4, and what each tells.
func TestEveryVersionOfARecord(t *testing.T) {
	for version := int16(0); version <= 4; version++ {
		for _, of := range []int16{0, 1} {
			k := (&kmsg.OffsetCommitKey{Version: of, Group: "g", Topic: "orders", Partition: 3}).AppendTo(nil)
			s := New(1 << 20)
			apply(t, s, 0, step{0, "", [][]byte{k}, [][]byte{valueOf(version, 42)}})
			want := Commit{Group: "g", Topic: "orders", Partition: 3, Offset: 42, LeaderEpoch: -1, Metadata: "m", At: 1000}
			if version >= 3 {
				want.LeaderEpoch = 5
			}
			if version >= 4 {
				want.TopicID = abi.UUID{7}
			}
			if diff := cmp.Diff([]Commit{want}, s.Commits(0)); diff != "" {
				t.Errorf("key %d, value %d: %s", of, version, diff)
			}
		}
	}
}

// TestRecordsOfOtherKinds: groups' own records change nothing, and what nobody knows is counted.
func TestRecordsOfOtherKinds(t *testing.T) {
	long := valueOf(3, 1)
	for name, tt := range map[string]struct {
		key, value []byte
		strange    int
	}{
		"a classic group":         {(&kmsg.GroupMetadataKey{Version: 2, Group: "g"}).AppendTo(nil), []byte("x"), 0},
		"a deleted classic group": {(&kmsg.GroupMetadataKey{Version: 2, Group: "g"}).AppendTo(nil), nil, 0},
		"a group of KIP-848":      {[]byte{0, 3, 0, 1, 'g'}, []byte("x"), 0},
		"a pattern":               {[]byte{0, 16, 0, 1, 'g'}, []byte("x"), 0},
		"a streams topology":      {[]byte{0, 22, 0, 1, 'g'}, []byte("x"), 0},
		"a later kind":            {[]byte{0, 23, 0, 1, 'g'}, []byte("x"), 1},
		"a negative kind":         {[]byte{0xff, 0xff, 0, 1, 'g'}, []byte("x"), 1},
		"no key":                  {nil, long, 1},
		"a cut key":               {keyOf("other", 0)[:9], long, 1},
		"a negative partition":    {keyOf("other", -1), long, 1},
		"a cut value":             {keyOf("other", 0), long[:9], 1},
		"an empty value":          {keyOf("other", 0), []byte{}, 1},
		"a later value":           {keyOf("other", 0), append([]byte{0, 5}, long[2:]...), 1},
		"a negative offset":       {keyOf("other", 0), valueOf(3, -1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(1 << 20)
			apply(t, s, 0, commits(0, "g", 5), step{0, "", [][]byte{tt.key}, [][]byte{tt.value}}, commits(0, "h", 6))
			if got := s.Commits(0); len(got) != 2 || got[0].Offset != 5 || got[1].Offset != 6 || s.Strange() != tt.strange {
				t.Errorf("%+v, %d strange", got, s.Strange())
			}
		})
	}
}

// TestAnOffsetThatRanOut: by a time of its own, before the last record was written.
func TestAnOffsetThatRanOut(t *testing.T) {
	for expires, want := range map[int64]int{-1: 1, 999: 0, 1000: 0, 1001: 1} {
		v := (&kmsg.OffsetCommitValue{Version: 1, Offset: 5, CommitTimestamp: 1, ExpireTimestamp: expires}).AppendTo(nil)
		s := New(1 << 20)
		apply(t, s, 0, step{0, "", [][]byte{keyOf("g", 0)}, [][]byte{v}})
		if got := len(s.Commits(0)); got != want {
			t.Errorf("until %d: %d offsets, want %d", expires, got, want)
		}
	}
}

// TestADamagedBatchChangesNothing: it is an error, and those around it are read.
func TestADamagedBatchChangesNothing(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "lostcluster", Name+"-2", "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	batches(t, b, func(*format.BatchHeader, []byte) { n++ })
	for damaged := range n {
		s, i := New(1<<20), 0
		batches(t, b, func(h *format.BatchHeader, b []byte) {
			b = slices.Clone(b)
			if i == damaged {
				b[len(b)-1] ^= 1
			}
			before := s.Commits(0)
			if err := s.Batch(h, b); (err != nil) != (i == damaged) || err != nil && !errors.Is(err, abi.Corrupt) {
				t.Errorf("batch %d: %v", i, err)
			}
			if i == damaged && !cmp.Equal(before, s.Commits(0)) {
				t.Errorf("batch %d changed something", i)
			}
			i++
		})
	}
}

// TestMemoryIsBounded: what is beyond the bound is left out and said; what is deleted makes room.
func TestMemoryIsBounded(t *testing.T) {
	s := New(10 * 400)
	for i := range 40 {
		apply(t, s, int64(i)*10, commits(int64(i%2), fmt.Sprint("g", i), 5))
	}
	if n := len(s.Commits(0)) + s.Undecided(); !s.Full() || n < 5 || n > 14 || s.bytes > s.most {
		t.Errorf("%d offsets, %d bytes of %d, full: %v", n, s.bytes, s.most, s.Full())
	}
	apply(t, s, 1000, ends(1, "abort"))
	for _, c := range s.Commits(0) {
		apply(t, s, 2000, tombstone(c.Group))
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes of nothing", s.bytes)
	}
}

// FuzzRecord: no record makes it panic, or keep what is no offset.
func FuzzRecord(f *testing.F) {
	for version := int16(0); version <= 4; version++ {
		f.Add(keyOf("g", 1), valueOf(version, 7), true)
	}
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{}, false)
	f.Add([]byte{}, []byte(nil), false)
	f.Fuzz(func(t *testing.T, k, v []byte, transactional bool) {
		s := New(1 << 20)
		h := &format.BatchHeader{ProducerID: 1}
		if transactional {
			h.Magic, h.Attributes = 2, 0x10
		}
		s.record(h, &format.Record{Offset: 3, Timestamp: 5, Key: k, Value: v})
		if transactional {
			if n := len(s.Commits(0)); n != 0 {
				t.Errorf("%d offsets of an open transaction", n)
			}
			if err := s.control(h, []format.Record{{Key: []byte{0, 0, 0, 1}}}); err != nil {
				t.Error(err)
			}
		}
		for _, c := range s.Commits(0) {
			if c.Offset < 0 || c.Partition < 0 || len(c.Group)+len(c.Topic)+len(c.Metadata) > len(k)+len(v) {
				t.Errorf("%+v of %x, %x", c, k, v)
			}
		}
	})
}
