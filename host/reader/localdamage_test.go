package reader

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestDamagedLocalHeader is TestDamagedHeader in the local tier, where records are copied and where the answer is stretches of
// files, of which only headers are read. Bits that only a CRC could tell are left out for the latter: a client checks it.
func TestDamagedLocalHeader(t *testing.T) {
	for _, files := range []bool{false, true} {
		a, b := tens(t, 1, 0, 4, 100), tens(t, 2, 40, 2, 100)
		for k := range 4 {
			for bit := range 23 * 8 { // up to the last offset's delta
				if at := bit / 8; at == 7 || bit%3 > 0 && at != 15 || files && at >= 17 { // 7: the low byte of the base offset
					continue
				}
				bad := *a
				bad.Log = slices.Clone(a.Log)
				bad.Log[100*k+bit/8] ^= 0x80 >> (bit % 8)
				p := withLocal(t, remotePartition(t, a), &bad, b)
				p.Remote, p.Offsets.LogStart, p.Offsets.Remote = nil, 0, false
				r := newReader(t, Better, memrsm.New(memrsm.Inline), p)
				for _, offset := range []int64{0, int64(10 * k), int64(10*k + 9), int64(10*k + 10)} {
					got := oneLocal(t, r, ask("a", offset, 1<<20), files)
					checkDamaged(t, fmt.Sprintf("bit %d of batch %d, files %v, from %d", bit, k, files, offset), got, offset, int64(10*k))
				}
			}
		}
	}
}

// oneLocal is one, with the bytes of files in Records.
func oneLocal(t *testing.T, r *Reader, p FetchPartition, files bool) PartitionData {
	t.Helper()
	resp := r.Fetch(context.Background(), &FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: 1 << 20, Files: files, Partitions: []FetchPartition{p}})
	t.Cleanup(resp.Release)
	got := resp.Partitions[0]
	for _, f := range got.Files {
		b, err := io.ReadAll(io.NewSectionReader(f.Segment, f.Pos, f.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		got.Records = append(got.Records, b...)
	}
	return got
}

// TestLocalHole: offsets of a local segment that is gone are read from the remote tier if that has them. Else they are an error
// that can be tried again and says where they end; what lies before and behind is read, and no lookup by time passes over them.
func TestLocalHole(t *testing.T) {
	a, b, c := tens(t, 1, 0, 2, 100), tens(t, 2, 20, 2, 100), tens(t, 3, 40, 2, 100)
	gone := *b
	gone.Log = nil
	local := withLocal(t, remotePartition(t, a), a, &gone, c)
	local.Remote, local.Offsets.LogStart, local.Offsets.Remote = nil, 0, false
	local.ID = id("a")
	both := withLocal(t, remotePartition(t, named(a, "b"), named(b, "b")), named(a, "b"), named(&gone, "b"), named(c, "b"))
	both.Offsets.LogStart = 0
	r := newReader(t, Better, memrsm.New(memrsm.Inline, named(a, "b"), named(b, "b")), local, both)
	for _, files := range []bool{false, true} {
		for _, tt := range []struct {
			topic   string
			offset  int64
			code    Code
			batches string
			until   int64
		}{
			{"a", 0, None, "[0 10]", 0},
			{"a", 20, NotLeaderOrFollower, "[]", 40},
			{"a", 35, NotLeaderOrFollower, "[]", 40},
			{"a", 40, None, "[40 50]", 0},
			{"b", 0, None, "[0 10]", 0},
			{"b", 20, None, "[20 30 40 50]", 0},
			{"b", 35, None, "[30 40 50]", 0},
		} {
			got := oneLocal(t, r, ask(tt.topic, tt.offset, 1<<20), files)
			if got.Code != tt.code || bases(got) != tt.batches || got.MissingUntil != tt.until {
				t.Errorf("%s from %d, files %v: %v %s, missing until %d: %v", tt.topic, tt.offset, files, got.Code, bases(got), got.MissingUntil, got.Err)
			}
			if tt.code != None && (len(got.Findings) != 1 || got.Findings[0].Repaired || got.Findings[0].Offset != 20) {
				t.Errorf("%s from %d: findings %v", tt.topic, tt.offset, got.Findings)
			}
		}
	}
	for _, tt := range []struct {
		topic     string
		timestamp int64
		code      Code
		offset    int64
	}{
		{"a", 1 << 50, NotLeaderOrFollower, -1},
		{"a", MaxTimestamp, NotLeaderOrFollower, -1},
		{"b", 1 << 50, None, -1},
		{"b", MaxTimestamp, None, 0},
	} {
		got := r.ListOffsets(context.Background(), &ListOffsetsRequest{Version: 9, ReplicaID: locality.Consumer, Partitions: []ListOffsetsPartition{
			{Topic: tt.topic, Timestamp: tt.timestamp, CurrentLeaderEpoch: -1}}})[0]
		if got.Code != tt.code || got.Offset != tt.offset {
			t.Errorf("%s at timestamp %d: %v, offset %d: %v", tt.topic, tt.timestamp, got.Code, got.Offset, got.Err)
		}
	}
}

// TestTimesInALocalHole: what is missing locally and lies in the remote tier is found by its time.
func TestTimesInALocalHole(t *testing.T) {
	of := func(number byte, start, timestamp int64) *segment {
		return kafkabytes.NewSegment(t, id("a"), number, batch{Base: start, Last: start + 9, Size: 100, Timestamp: timestamp},
			batch{Base: start + 10, Last: start + 19, Size: 100, Timestamp: timestamp + 10})
	}
	below, a, b, c := of(1, 0, 100), of(2, 20, 120), of(3, 40, 900), of(4, 60, 160)
	gone := *b
	gone.Log = nil
	for name, tt := range map[string]struct {
		remote []*segment
		codes  map[int64]Code // by timestamp; None where it is not in it
	}{
		"it is there":     {[]*segment{below, a, b}, nil},
		"it is not there": {[]*segment{below, a}, map[int64]Code{900: NotLeaderOrFollower, 905: NotLeaderOrFollower, 911: NotLeaderOrFollower, 165: NotLeaderOrFollower, MaxTimestamp: NotLeaderOrFollower}},
	} {
		t.Run(name, func(t *testing.T) {
			p := withLocal(t, remotePartition(t, tt.remote...), a, &gone, c)
			p.Offsets.LogStart = 0
			r := newReader(t, Better, memrsm.New(memrsm.Inline, tt.remote...), p)
			for timestamp, offset := range map[int64]int64{0: 0, 110: 10, 115: 20, 130: 30, 165: 40, 900: 40, 905: 50, 911: -1, MaxTimestamp: 50} {
				got := r.ListOffsets(context.Background(), &ListOffsetsRequest{Version: 9, ReplicaID: locality.Consumer, Partitions: []ListOffsetsPartition{
					{Topic: "a", Timestamp: timestamp, CurrentLeaderEpoch: -1}}})[0]
				code := tt.codes[timestamp]
				if code != None {
					offset = -1
				}
				if got.Code != code || got.Offset != offset {
					t.Errorf("timestamp %d: %v, offset %d, want %v, %d: %v", timestamp, got.Code, got.Offset, code, offset, got.Err)
				}
			}
		})
	}
}

// named is a segment of another topic.
func named(s *segment, topic string) *segment {
	c := *s
	c.Meta.TopicIDPartition = id(topic)
	return &c
}
