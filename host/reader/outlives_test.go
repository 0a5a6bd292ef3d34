package reader

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// said is all that an answer tells, in an own copy.
func said(p *PartitionData) string {
	text := fmt.Sprintf("%s %v %d %v %v hw %d lso %d start %d aborted %v late %v remote %v records %d %08x", p.Topic, p.TopicID, p.Partition,
		p.Code, p.Err, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.Aborted, p.Late, p.Remote, len(p.Records), crc32.ChecksumIEEE(p.Records))
	if p.Diverging != nil {
		text += fmt.Sprintf(" diverging %+v", *p.Diverging)
	}
	if p.Leader != nil {
		text += fmt.Sprintf(" leader %+v", *p.Leader)
	}
	for _, f := range p.Files {
		text += fmt.Sprintf(" file %s %d %d", f.Segment.Path(), f.Pos, f.Bytes)
	}
	return text
}

// TestAnswersOutliveReads: what worked on a request works on the next one, while the first one's answer is on its way. The
// answer keeps nothing of it, whatever it tells.
func TestAnswersOutliveReads(t *testing.T) {
	fenced, live := forked(t)
	a := remotePartition(t, live, fenced)
	a.Lineage = lineage(0, 0, 2, 20)
	here := kafkabytes.NewSegment(t, id("b"), 3, batch{Base: 0, Last: 9, Size: 300, Epoch: 5}, batch{Base: 10, Last: 19, Size: 300, Epoch: 7})
	b := withLocal(t, &Partition{ID: id("b"), LeaderID: 4, Lineage: lineage(5, 0, 7, 10),
		Offsets: locality.Offsets{LocalBase: 0, HighWatermark: 20, LastStableOffset: 20, LogEnd: 20}}, here)
	r := newReader(t, Better, memrsm.New(memrsm.Inline, fenced, live), a, b)
	known := func(topic string, offset int64, current, last int32) FetchPartition {
		p := ask(topic, offset, 1<<20)
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = current, last
		return p
	}
	asks := []struct {
		FetchPartition
		want string // is said
	}{
		{known("a", 45, -1, 0), "diverging {Epoch:0 StartOffset:20}"},
		{known("b", 15, -1, 5), "diverging {Epoch:5 StartOffset:10}"},
		{known("a", 0, 1, -1), "leader {ID:1 Epoch:2}"},
		{known("b", 0, 6, -1), "leader {ID:4 Epoch:7}"},
		{ask("a", 0, 1<<20), "aborted [{8 10}]"},
		{ask("a", 30, 1<<20), "records 206"},
		{ask("b", 0, 1<<20), "hw 20"},
		{ask("b", 10, 1<<20), "hw 20"},
		{ask("a", 99, 1<<20), "OFFSET_OUT_OF_RANGE"},
		{ask("c", 0, 1<<20), "no such topic"},
	}
	fetch := func(p FetchPartition, files bool) *FetchResponse {
		return r.Fetch(context.Background(), &FetchRequest{Version: 17, ReplicaID: locality.Consumer, MaxBytes: math.MaxInt32,
			Isolation: locality.ReadCommitted, Files: files, Partitions: []FetchPartition{p}})
	}
	for i, tt := range asks {
		for _, files := range []bool{false, true} {
			resp := fetch(tt.FetchPartition, files)
			got := &resp.Partitions[0]
			before := said(got)
			for j := range 3 * len(asks) {
				fetch(asks[(i+j+1)%len(asks)].FetchPartition, files).Release()
			}
			if after := said(got); after != before || !strings.Contains(before, tt.want) {
				t.Errorf("the answer said\n%s\nwith %q, and says after others\n%s", before, tt.want, after)
			}
			resp.Release()
		}
	}
}
