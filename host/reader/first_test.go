package reader

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// firstReader has "h", whose offsets from 10 on were compacted away, "d", whose batches are damaged, and "r" in the remote
// tier, and "l" in the local one, with batches of 1,000 bytes.
func firstReader(t testing.TB, policy Policy) *Reader {
	t.Helper()
	one := func(topic string, number byte, size int) *segment {
		return kafkabytes.NewSegment(t, id(topic), number, batch{Base: 0, Last: 9, Size: size})
	}
	h, d, remote, local := one("h", 1, 100), one("d", 2, 1000), one("r", 3, 1000), one("l", 4, 1000)
	h.Meta.EndOffset = 19
	d.Log[500] ^= 1
	store := memrsm.New(memrsm.Inline, h, d, remote)
	return newReader(t, policy, store, remotePartition(t, h), remotePartition(t, d), remotePartition(t, remote), withLocal(t, remotePartition(t, local), local))
}

// TestFirstPassesOn: the partition that may exceed its allowance by a first batch finds nothing. Another one may then, in the
// order of the request, and only one; with Kafka none may.
func TestFirstPassesOn(t *testing.T) {
	for _, tt := range []struct {
		order     string
		max, each int64 // of the request, and of a partition
		want      string
		kafka     string // what a broker gives: its right stays with the first that was asked for
	}{
		{"hlr", 100_000, 10, "h[] l[0] r[]", "h[] l[] r[]"},
		{"hrl", 100_000, 10, "h[] r[0] l[]", "h[] r[] l[]"},
		{"hr", 100_000, 10, "h[] r[0]", "h[] r[]"},
		{"hrl", 10, 10, "h[] r[0] l[]", "h[] r[] l[]"}, // nothing is left for "r", which is not even asked for
		{"drl", 100_000, 10, "d[]CORRUPT_MESSAGE r[0] l[]", "d[0] r[] l[]"},
		{"hdl", 100_000, 10, "h[] d[]CORRUPT_MESSAGE l[0]", "h[] d[] l[]"},
		{"hlr", 100_000, 1000, "h[] l[0] r[0]", "h[] l[0] r[0]"}, // nobody is held back
		{"h", 100_000, 10, "h[]", "h[]"},
		{"hlr", 0, 10, "h[] l[0] r[]", "h[] l[0] r[]"},
	} {
		for name, want := range map[string]string{"better": tt.want, "exact": tt.kafka} {
			r := firstReader(t, policies[name])
			got := ""
			for i, p := range fetch(t, r, context.Background(), from(all(tt.order, tt.max, tt.each), 'h', 10)) {
				got += fmt.Sprintf(" %c%s", tt.order[i], bases(p))
				if p.Code != None {
					got += p.Code.String()
				}
			}
			if got[1:] != want {
				t.Errorf("%s, %s of %d bytes, %d each: %s, want %s", name, tt.order, tt.max, tt.each, got[1:], want)
			}
		}
	}
}

// from is the request with another offset for one of its partitions.
func from(q FetchRequest, topic byte, offset int64) FetchRequest {
	for i := range q.Partitions {
		if q.Partitions[i].Topic == string(topic) {
			q.Partitions[i].Offset = offset
		}
	}
	return q
}

// TestFirstPassesOnLate: while a read is on its way nobody else may exceed an allowance, since it may bring a first batch. The
// retry, which finds that it brought nothing, gives one.
func TestFirstPassesOnLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := firstReader(t, Better)
		store := r.store.RSM.(*memrsm.Store)
		delays(store, []*Partition{r.catalog.(partitions)["h"]}, map[string]time.Duration{"h": time.Second})
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		req := from(all("hl", 100_000, 10), 'h', 10)
		got := fetch(t, r, context.Background(), req)
		if !got[0].Late {
			t.Errorf("the first read was not late: %+v", got[0])
		}
		want(t, "beside a late read", got[1], None, "[]")
		time.Sleep(5 * time.Second) // its index and its log have come
		got = fetch(t, r, context.Background(), req)
		want(t, "the late read", got[0], None, "[]")
		want(t, "beside it", got[1], None, "[0]")
	})
}

// slowThree has "a", "b" and "c" in a store that is slower than the wait, each a batch of 1,000 bytes.
func slowThree(t *testing.T) *Reader {
	t.Helper()
	var segs []*segment
	var parts []*Partition
	for i, topic := range []string{"a", "b", "c"} {
		segs = append(segs, kafkabytes.NewSegment(t, id(topic), byte(i+1), batch{Base: 0, Last: 9, Size: 1000}))
		parts = append(parts, remotePartition(t, segs[i]))
	}
	store := slowStore(700*time.Millisecond, segs...)
	store.Form = memrsm.Stream // each read asks it
	r := newReader(t, Better, store, parts...)
	r.Resize(10, 10)
	r.SetWait(500 * time.Millisecond)
	return r
}

// TestFirstOfALateRead: two partitions take turns to be the first, and each is when it is answered from a read that was begun
// when it was not, and found a batch that was too large. What the first may do is not lost with that.
func TestFirstOfALateRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowThree(t)
		defer r.Close()
		fetch(t, r, context.Background(), all("ca", 100_000, 10))
		for n := range 10 {
			for _, p := range fetch(t, r, context.Background(), all([]string{"ab", "ba"}[n%2], 100_000, 10)) {
				if len(p.Records) > 0 {
					return
				}
			}
		}
		t.Error("nothing came in ten requests")
	})
}

// TestRoomOfALateRead: a read that found a batch too large for its room is no answer to a request that has the room.
func TestRoomOfALateRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := slowThree(t)
		defer r.Close()
		fetch(t, r, context.Background(), all("ab", 100_000, 10))
		r.SetWait(time.Minute)
		got := fetch(t, r, context.Background(), all("ab", 100_000, 1000))
		want(t, "the first", got[0], None, "[0]")
		want(t, "the other", got[1], None, "[0]")
	})
}
