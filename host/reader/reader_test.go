package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/host/transfer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	batch   = kafkabytes.Batch
	segment = kafkabytes.Segment
)

// partitions is a Catalog of partitions by topic; all are partition 0.
type partitions map[string]*Partition

func (p partitions) Find(_ context.Context, topic string, _ abi.UUID, _ int32) (*Partition, Code, error) {
	if part, ok := p[topic]; ok {
		return part, None, nil
	}
	return nil, UnknownTopicOrPartition, abi.Errorf("fetch", topic, abi.NotFound, "no such topic")
}

func id(topic string) abi.TopicIDPartition {
	return abi.TopicIDPartition{Topic: topic, TopicID: kafkabytes.ID(topic[0])}
}

// remotePartition is a partition of which segs were tiered and nothing is left locally.
func remotePartition(t testing.TB, segs ...*segment) *Partition {
	t.Helper()
	store := rlmm.NewStore()
	for _, e := range kafkabytes.Finished(segs...) {
		value, err := format.AppendRemoteLogMetadata(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(value); err != nil {
			t.Fatal(err)
		}
	}
	last := segs[len(segs)-1].Meta.EndOffset + 1
	var epochs []abi.LeaderEpoch
	for _, s := range segs {
		if e := s.Meta.LeaderEpochs; len(epochs) == 0 || epochs[len(epochs)-1].Epoch != e[0].Epoch {
			epochs = append(epochs, e...)
		}
	}
	tp := segs[0].Meta.TopicIDPartition
	remote, _ := store.Partition(tp)
	return &Partition{ID: tp, LeaderID: 1, Remote: remote, Lineage: epoch.Of(epochs), Offsets: locality.Offsets{
		LogStart: segs[0].Meta.StartOffset, LocalStart: last, LocalBase: -1, HighWatermark: last, LastStableOffset: last, LogEnd: last, Remote: true}}
}

// withLocal adds a local tier.
func withLocal(t testing.TB, p *Partition, segs ...*segment) *Partition {
	t.Helper()
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, p.ID, segs...)
	d, err := locallog.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	l := d.Logs()[0]
	p.Local = l
	p.Offsets.LocalBase, p.Offsets.LocalStart = l.FirstBase(), l.FirstBase()
	p.Offsets.HighWatermark, p.Offsets.LastStableOffset, p.Offsets.LogEnd = l.LogEnd, l.LastStable, l.LogEnd
	return p
}

// newReader makes a reader over a store; a test that ends with open streams or buffers fails.
func newReader(t testing.TB, policy Policy, store *memrsm.Store, parts ...*Partition) *Reader {
	t.Helper()
	catalog := partitions{}
	for _, p := range parts {
		catalog[p.ID.Topic] = p
	}
	indexes, err := indexcache.New(indexcache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Catalog: catalog, Indexes: indexes, Policy: policy, Threads: 2, Pending: 1,
		Store: &Store{Name: "memory", RSM: store, Mover: transfer.New(nil, nil)}})
	t.Cleanup(func() {
		if n := store.Open(); n != 0 {
			t.Errorf("%d streams stay open", n)
		}
		if n := r.buffers.InUse(); n != 0 {
			t.Errorf("%d bytes of buffers stay in use", n)
		}
	})
	return r
}

// txn is a batch of a transaction.
func txn(base, last, producer int64) batch {
	return batch{Base: base, Last: last, Attributes: kafkabytes.Transactional, ProducerID: producer}
}

func ask(topic string, offset, maxBytes int64) FetchPartition {
	return FetchPartition{Topic: topic, Offset: offset, MaxBytes: maxBytes, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}
}

// fetch asks one request and checks what no answer may break; the response is released when the test ends.
func fetch(t testing.TB, r *Reader, ctx context.Context, req FetchRequest) []PartitionData {
	t.Helper()
	req.Version, req.ReplicaID = 17, locality.Consumer
	resp := r.Fetch(ctx, &req)
	t.Cleanup(resp.Release)
	for _, p := range resp.Partitions {
		if (p.Code == None) != (p.Err == nil) {
			t.Errorf("code %v with error %v", p.Code, p.Err)
		}
		if p.Code != None && (len(p.Records) > 0 || p.HighWatermark != -1) {
			t.Errorf("code %v with %d bytes and high watermark %d", p.Code, len(p.Records), p.HighWatermark)
		}
	}
	return resp.Partitions
}

// one asks for one partition.
func one(t testing.TB, r *Reader, p FetchPartition) PartitionData {
	t.Helper()
	return fetch(t, r, context.Background(), FetchRequest{MaxBytes: math.MaxInt32, Partitions: []FetchPartition{p}})[0]
}

// committed is one with read_committed.
func committed(t testing.TB, r *Reader, p FetchPartition) PartitionData {
	t.Helper()
	return fetch(t, r, context.Background(), FetchRequest{MaxBytes: math.MaxInt32, Isolation: locality.ReadCommitted, Partitions: []FetchPartition{p}})[0]
}

// bases lists the base offsets of the whole batches in an answer, and what is left behind them.
func bases(p PartitionData) string {
	out := []int64{}
	w := format.Walk(p.Records)
	for w.Next() {
		out = append(out, w.Header().BaseOffset)
	}
	if rest := len(w.Rest()); rest > 0 {
		return fmt.Sprint(out, "+", rest)
	}
	return fmt.Sprint(out)
}

func want(t testing.TB, what string, p PartitionData, code Code, batches string) {
	t.Helper()
	if p.Code != code || bases(p) != batches {
		t.Errorf("%s: %v, batches %s (%v), want %v, %s", what, p.Code, bases(p), p.Err, code, batches)
	}
}

// tens is a segment of n batches of ten offsets and size bytes each, from start on.
func tens(t testing.TB, number byte, start int64, n int, size int) *segment {
	t.Helper()
	var bs []batch
	for i := range int64(n) {
		bs = append(bs, batch{Base: start + 10*i, Last: start + 10*i + 9, Size: size})
	}
	return kafkabytes.NewSegment(t, id("a"), number, bs...)
}

// forms runs test for each form of a Source.
func forms(t *testing.T, test func(t *testing.T, form memrsm.Form)) {
	for name, form := range map[string]memrsm.Form{"inline": memrsm.Inline, "ranged": memrsm.Ranged, "stream": memrsm.Stream} {
		t.Run(name, func(t *testing.T) { test(t, form) })
	}
}

// TestR1MissingFirstBatch (spec 10.1): nothing at or above the offset, and no segment behind.
func TestR1MissingFirstBatch(t *testing.T) {
	for name, policy := range map[string]Policy{"better": Better, "exact": Kafka43} {
		s := tens(t, 1, 0, 2, 100)
		s.Meta.EndOffset = 99 // 20 to 99 were compacted away
		r := newReader(t, policy, memrsm.New(memrsm.Stream, s), remotePartition(t, s))
		got := committed(t, r, ask("a", 50, 1000))
		want(t, name, got, None, "[]")
		if got.Aborted == nil || len(got.Aborted) != 0 || got.HighWatermark != 100 {
			t.Errorf("%s: aborted %v, high watermark %d, want an empty list and 100", name, got.Aborted, got.HighWatermark)
		}
		if got := one(t, r, ask("a", 50, 1000)); got.Aborted != nil {
			t.Errorf("%s: uncommitted: aborted %v", name, got.Aborted)
		}
	}
}

// TestR2MinOneMessage (spec 10.1): a first batch above the allowance comes once a request, and then alone. Kafka's list of
// aborted transactions is null where it does not come; ours is empty, as wherever there is none.
func TestR2MinOneMessage(t *testing.T) {
	for name, policy := range map[string]Policy{"better": Better, "exact": Kafka43} {
		a := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9, Size: 110}, batch{Base: 10, Last: 19, Size: 110})
		b := kafkabytes.NewSegment(t, id("b"), 2, batch{Base: 0, Last: 9, Size: 110})
		r := newReader(t, policy, memrsm.New(memrsm.Inline, a, b), remotePartition(t, a), remotePartition(t, b))
		got := fetch(t, r, context.Background(), FetchRequest{MaxBytes: 10_000, Isolation: locality.ReadCommitted,
			Partitions: []FetchPartition{ask("a", 5, 100), ask("b", 0, 100)}})
		want(t, name+", first", got[0], None, "[0]")
		want(t, name+", second", got[1], None, "[]")
		if got[0].Aborted == nil || (got[1].Aborted == nil) != (policy == Kafka43) {
			t.Errorf("%s: aborted %#v, %#v", name, got[0].Aborted, got[1].Aborted)
		}
	}
}

// TestR3CompactionGap (spec 10.1): the next segment has the first batch.
func TestR3CompactionGap(t *testing.T) {
	a := tens(t, 1, 0, 1, 100)
	a.Meta.EndOffset = 19
	b := tens(t, 2, 20, 2, 100)
	for name, policy := range map[string]Policy{"better": Better, "exact": Kafka43} {
		r := newReader(t, policy, memrsm.New(memrsm.Stream, a, b), remotePartition(t, a, b))
		want(t, name, one(t, r, ask("a", 15, 150)), None, map[bool]string{true: "[20]", false: "[20]+50"}[policy.WholeBatches])
		want(t, name+", minOne", one(t, r, ask("a", 15, 10)), None, "[20]")
	}
}

// TestR4Position (spec 10.1): 100 records, three a batch of 91 bytes; offset 10 lies in the batch of base 9 at 273.
func TestR4Position(t *testing.T) {
	var bs []batch
	for i := int64(0); i < 99; i += 3 {
		bs = append(bs, batch{Base: i, Last: i + 2, Size: 91})
	}
	s := kafkabytes.NewSegment(t, id("a"), 1, bs...)
	s.OffsetIndex = nil // from position 0
	forms(t, func(t *testing.T, form memrsm.Form) {
		store := memrsm.New(form, s)
		r := newReader(t, Kafka43, store, remotePartition(t, s))
		got := one(t, r, ask("a", 10, 91))
		want(t, "offset 10", got, None, "[9]")
		if !bytes.Equal(got.Records, s.Log[273:364]) {
			t.Error("the bytes are not those at position 273")
		}
	})
}

// TestConsume: a consumer that reads on from what it got sees each batch once and in order, whatever the sizes, budgets,
// forms and policies are.
func TestConsume(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		segs, want := randomSegments(t, rnd)
		split := rnd.IntN(len(segs))
		policy := Better
		if seed%4 == 0 {
			policy = Kafka43
		}
		store := memrsm.New(memrsm.Form(rnd.IntN(3)), segs...)
		store.NoSize = rnd.IntN(2) == 0
		p := remotePartition(t, segs[:split+1]...)
		if split < len(segs)-1 {
			withLocal(t, p, segs[split:]...) // both tiers hold segment split
		}
		r := newReader(t, policy, store, p)
		got, next := []int64{}, segs[0].Meta.StartOffset
		for rounds := 0; next < p.Offsets.HighWatermark && rounds < 1000; rounds++ {
			a := one(t, r, ask("a", next, 1+rnd.Int64N(3000)))
			if a.Code != None || len(a.Records) == 0 {
				t.Fatalf("seed %d, offset %d: %v, %d bytes, %v", seed, next, a.Code, len(a.Records), a.Err)
			}
			next = consume(a.Records, next, &got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
		}
	}
}

func consume(records []byte, next int64, got *[]int64) int64 {
	w := format.Walk(records)
	for w.Next() {
		if h := w.Header(); h.LastOffset >= next {
			*got = append(*got, h.BaseOffset)
			next = h.LastOffset + 1
		}
	}
	return next
}

// randomSegments is up to five segments of batches of any size, with gaps, and the base offsets of all batches.
func randomSegments(t testing.TB, rnd *rand.Rand) (segs []*segment, all []int64) {
	offset := rnd.Int64N(100)
	for n := range 1 + rnd.IntN(5) {
		var bs []batch
		start := offset
		for range 1 + rnd.IntN(12) {
			base := offset + max(0, rnd.Int64N(8)-5)
			last := base + rnd.Int64N(6)
			bs = append(bs, batch{Base: base, Last: last, Size: 130 + rnd.IntN(1<<rnd.IntN(11))})
			all = append(all, base)
			offset = last + 1
		}
		s := kafkabytes.NewSegment(t, id("a"), byte(n+1), bs...)
		if len(segs) > 0 || start == bs[0].Base {
			s.Meta.StartOffset = start
			s.Meta.LeaderEpochs = []abi.LeaderEpoch{{Epoch: 0, StartOffset: start}}
			s.OffsetIndex = reindex(t, s, rnd.Int64N(3000))
		}
		segs = append(segs, s)
	}
	return segs, all
}

// reindex writes an index with an entry about every interval bytes.
func reindex(t testing.TB, s *segment, interval int64) []byte {
	var index []byte
	since := int64(0)
	for w := format.Walk(s.Log); w.Next(); {
		if since > interval {
			index = kafkabytes.AppendEntry(index, w.Header().LastOffset-s.Meta.StartOffset, w.Pos())
			since = 0
		}
		since += w.Header().Size()
	}
	return index
}

// TestContinuation: a read goes on over the ends of segments and of the remote tier, in whole batches; exact, it does not.
func TestContinuation(t *testing.T) {
	a, b, c := tens(t, 1, 0, 3, 100), tens(t, 2, 30, 3, 100), tens(t, 3, 60, 3, 100)
	for _, tt := range []struct {
		max           int64
		better, exact string
	}{
		{250, "[0 10]", "[0 10]+50"},
		{299, "[0 10]", "[0 10]+99"}, // the third batch is in memory, and must not be skipped
		{300, "[0 10 20]", "[0 10 20]"},
		{399, "[0 10 20]", "[0 10 20]"},
		{500, "[0 10 20 30 40]", "[0 10 20]"},
		{699, "[0 10 20 30 40 50]", "[0 10 20]"},
		{700, "[0 10 20 30 40 50 60]", "[0 10 20]"},
		{9999, "[0 10 20 30 40 50 60 70 80]", "[0 10 20]"},
		{math.MaxInt64, "[0 10 20 30 40 50 60 70 80]", "[0 10 20]"},
	} {
		for name, policy := range map[string]Policy{"better": Better, "exact": Kafka43} {
			p := withLocal(t, remotePartition(t, a, b), c)
			r := newReader(t, policy, memrsm.New(memrsm.Stream, a, b), p)
			w := tt.better
			if name == "exact" {
				w = tt.exact
			}
			want(t, fmt.Sprint(name, " up to ", tt.max), one(t, r, ask("a", 5, tt.max)), None, w)
		}
	}
}

// TestSmallerBatchBehind: a batch that does not fit ends the answer, also where the next segment's first one would fit.
func TestSmallerBatchBehind(t *testing.T) {
	a := kafkabytes.NewSegment(t, id("a"), 1, batch{Base: 0, Last: 9, Size: 200}, batch{Base: 10, Last: 19, Size: 200})
	b := kafkabytes.NewSegment(t, id("a"), 2, batch{Base: 20, Last: 29, Size: 100})
	r := newReader(t, Better, memrsm.New(memrsm.Inline, a, b), remotePartition(t, a, b))
	want(t, "350 bytes", one(t, r, ask("a", 0, 350)), None, "[0]")
	r = newReader(t, Better, memrsm.New(memrsm.Inline, a), withLocal(t, remotePartition(t, a), b))
	want(t, "350 bytes, local behind", one(t, r, ask("a", 0, 350)), None, "[0]")
}

// TestBadBatch: what lies before a bad batch is returned, the fetch that reaches it is told of it with offsets, and no
// byte behind it is ever returned.
func TestBadBatch(t *testing.T) {
	for name, damage := range map[string]func(b []byte){
		"a flipped bit":    func(b []byte) { b[70] ^= 1 },
		"a wrong CRC":      func(b []byte) { b[17] ^= 1 },
		"an unknown magic": func(b []byte) { b[16] = 7 },
		"a tiny size":      func(b []byte) { copy(b[8:], []byte{0, 0, 0, 13}) },
		"a negative size":  func(b []byte) { b[8] = 0x80 },
		"an absurd size":   func(b []byte) { copy(b[8:], []byte{0x7f, 0xff, 0xff, 0xff}) },
		"zeros":            func(b []byte) { clear(b[:100]) },
	} {
		for _, at := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s in batch %d", name, at), func(t *testing.T) {
				forms(t, func(t *testing.T, form memrsm.Form) {
					s := tens(t, 1, 0, 4, 100)
					damage(s.Log[100*at : 100*at+100])
					p := remotePartition(t, s)
					r := newReader(t, Better, memrsm.New(form, s), p)
					if at > 0 {
						want(t, "from before it", one(t, r, ask("a", 5, 1000)), None, "[0 10]")
					}
					got := one(t, r, ask("a", int64(10*at), 1000))
					want(t, "at it", got, CorruptMessage, "[]")
					if got.Err == nil || !strings.Contains(got.Err.Error(), s.Meta.Key()) {
						t.Errorf("the error names no segment: %v", got.Err)
					}
					if n := r.buffers.InUse(); n > 1<<20 {
						t.Errorf("%d bytes were taken for a segment of 400", n)
					}
				})
			})
		}
	}
}

// TestExactPassesOn: with Kafka's policy a bad CRC goes to the client, and only a tiny size is CORRUPT_MESSAGE.
func TestExactPassesOn(t *testing.T) {
	s := tens(t, 1, 0, 2, 100)
	s.Log[170] ^= 1
	r := newReader(t, Kafka43, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
	want(t, "a wrong CRC", one(t, r, ask("a", 10, 1000)), None, "[10]")
	copy(s.Log[8:], []byte{0, 0, 0, 13})
	r = newReader(t, Kafka43, memrsm.New(memrsm.Inline, s), remotePartition(t, s))
	want(t, "a tiny size", one(t, r, ask("a", 0, 1000)), CorruptMessage, "[]")
}

// TestShortSegment: a segment that is shorter than its metadata says is CORRUPT where its size is told, whichever part of it is
// read: it may be another object. Where no size is told it is read up to there.
func TestShortSegment(t *testing.T) {
	forms(t, func(t *testing.T, form memrsm.Form) {
		for _, noSize := range []bool{false, true} {
			for _, cut := range []int{200, 230, 265} { // between batches, in a header, in a body
				s, next := tens(t, 1, 0, 4, 100), tens(t, 2, 40, 1, 100)
				p := remotePartition(t, s, next)
				s.Log = s.Log[:cut]
				store := memrsm.New(form, s, next)
				store.NoSize = noSize
				r := newReader(t, Better, store, p)
				what := fmt.Sprintf("cut at %d, no size %v", cut, noSize)
				whole := one(t, r, ask("a", 0, 1000))
				if noSize && form != memrsm.Inline { // which tells by itself
					want(t, what, whole, None, "[0 10]")
				} else {
					want(t, what, whole, CorruptMessage, "[]")
				}
				for _, offset := range []int64{20, 35} {
					got := one(t, r, ask("a", offset, 1000))
					want(t, fmt.Sprint(what, ", offset ", offset), got, CorruptMessage, "[]")
				}
				want(t, what+", the next segment", one(t, r, ask("a", 40, 1000)), None, "[40]")
			}
		}
	})
}

// TestBadIndex: an offset index that is empty or wrong costs a longer way and no data.
func TestBadIndex(t *testing.T) {
	entry := kafkabytes.AppendEntry
	for name, index := range map[string][]byte{
		"empty":                    nil,
		"one entry":                entry(nil, 29, 200),
		"behind the segment":       entry(nil, 19, 1<<30),
		"at the segment's end":     entry(nil, 19, 400),
		"in the middle of a batch": entry(nil, 19, 133),
		"at a later batch":         entry(nil, 19, 300),
		"at the last bytes":        entry(nil, 19, 390),
		"good, then wrong":         entry(entry(nil, 19, 100), 29, 311),
	} {
		t.Run(name, func(t *testing.T) {
			forms(t, func(t *testing.T, form memrsm.Form) {
				s := tens(t, 1, 0, 4, 100)
				s.OffsetIndex = index
				r := newReader(t, Better, memrsm.New(form, s), remotePartition(t, s))
				for offset := int64(0); offset < 40; offset++ {
					got := one(t, r, ask("a", offset, 100))
					want(t, fmt.Sprint("offset ", offset), got, None, fmt.Sprintf("[%d]", offset/10*10))
				}
			})
		})
	}
}

// TestDamagedIndexExact: with Kafka's policy an index that is no index, twice, is what Kafka says to everything.
func TestDamagedIndexExact(t *testing.T) {
	s := tens(t, 1, 0, 4, 100)
	s.OffsetIndex = []byte("thirteen char")
	store := memrsm.New(memrsm.Stream, s)
	r := newReader(t, Kafka43, store, remotePartition(t, s))
	want(t, "damaged", one(t, r, ask("a", 15, 100)), UnknownServerError, "[]")
	if n := len(store.Calls()); n != 2 {
		t.Errorf("%d calls, want the index twice", n)
	}
	want(t, "where no index is needed", one(t, r, ask("a", 0, 100)), None, "[0]")
}

// TestStoreErrors: what a failed store is to a client, in both policies.
func TestStoreErrors(t *testing.T) {
	for _, tt := range []struct {
		kind   abi.Kind
		better Code
	}{
		{abi.NotFound, UnknownServerError}, {abi.Denied, UnknownServerError}, {abi.Corrupt, CorruptMessage},
		{abi.Unavailable, KafkaStorageError}, {abi.Throttled, KafkaStorageError}, {abi.Internal, UnknownServerError},
	} {
		for policy, code := range map[Policy]Code{Better: tt.better, Kafka43: UnknownServerError} {
			s := tens(t, 1, 0, 4, 100)
			store := memrsm.New(memrsm.Stream, s)
			store.Before = func(_ context.Context, c memrsm.Call) error {
				if c.Index == 0 {
					return abi.E("fetch_log_segment", "", tt.kind, errors.New("the store says so"))
				}
				return nil
			}
			r := newReader(t, policy, store, remotePartition(t, s))
			got := one(t, r, ask("a", 15, 100))
			want(t, tt.kind.String(), got, code, "[]")
			if abi.KindOf(got.Err) != tt.kind {
				t.Errorf("kind %v became %v", tt.kind, got.Err)
			}
		}
	}
}

// TestFailureBehind: an error in what is read in addition does not take back what was read.
func TestFailureBehind(t *testing.T) {
	a, b := tens(t, 1, 0, 2, 100), tens(t, 2, 20, 2, 100)
	store := memrsm.New(memrsm.Stream, a, b)
	store.Before = func(_ context.Context, c memrsm.Call) error {
		if c.Segment == b.Meta.SegmentID {
			return abi.E("fetch_log_segment", "", abi.Unavailable, nil)
		}
		return nil
	}
	r := newReader(t, Better, store, remotePartition(t, a, b))
	want(t, "over the border", one(t, r, ask("a", 0, 1000)), None, "[0 10]")
	want(t, "at it", one(t, r, ask("a", 20, 1000)), KafkaStorageError, "[]")
}

// TestOutOfRange: 1 is for what is not of the log. What no segment holds of it is told so that a client asks again.
func TestOutOfRange(t *testing.T) {
	a, b := tens(t, 1, 10, 2, 100), tens(t, 3, 50, 2, 100) // 30-49 are in no tier
	p := remotePartition(t, a, b)
	r := newReader(t, Better, memrsm.New(memrsm.Inline, a, b), p)
	for offset, code := range map[int64]Code{-5: 1, 9: 1, 10: 0, 29: 0, 30: 6, 49: 6, 50: 0, 69: 0, 70: 0, 71: 1} {
		if got := one(t, r, ask("a", offset, 1000)); got.Code != code {
			t.Errorf("offset %d: %v, %v", offset, got.Code, got.Err)
		}
	}
	if got := one(t, r, ask("x", 0, 1)); got.Code != UnknownTopicOrPartition || got.Aborted == nil {
		t.Errorf("no topic: %v, aborted %v", got.Code, got.Aborted)
	}
	p.Remote = nil
	want(t, "no metadata", one(t, r, ask("a", 10, 1000)), NotLeaderOrFollower, "[]")
	r.store = nil
	want(t, "no plugin", one(t, r, ask("a", 10, 1000)), UnknownServerError, "[]")
}

// TestM4BreachingFetchMaxBytes (spec 1.5): 200,000 in all and 100,000 a partition are two remote reads, and a third
// partition gets none.
func TestM4BreachingFetchMaxBytes(t *testing.T) {
	var segs []*segment
	var parts []*Partition
	for i, topic := range []string{"a", "b", "c"} {
		s := kafkabytes.NewSegment(t, id(topic), byte(i+1), batch{Base: 0, Last: 9, Size: 120_000}, batch{Base: 10, Last: 19, Size: 1000})
		segs, parts = append(segs, s), append(parts, remotePartition(t, s))
	}
	store := memrsm.New(memrsm.Inline, segs...)
	r := newReader(t, Kafka43, store, parts...)
	ask3 := []FetchPartition{ask("a", 0, 100_000), ask("b", 10, 100_000), ask("c", 10, 100_000)}
	got := fetch(t, r, context.Background(), FetchRequest{MaxBytes: 200_000, Partitions: ask3})
	want(t, "a, which may be too large", got[0], None, "[0]")
	want(t, "b", got[1], None, "[10]")
	want(t, "c, for which nothing is left", got[2], None, "[]")
	if got[2].HighWatermark != 20 {
		t.Errorf("c: high watermark %d", got[2].HighWatermark)
	}
	for _, c := range store.Calls() {
		if c.Segment == segs[2].Meta.SegmentID {
			t.Error("a read was begun for c")
		}
	}
	ask2 := []FetchPartition{ask("b", 10, 100_000), ask("c", 10, 100_000)}
	got = fetch(t, r, context.Background(), FetchRequest{MaxBytes: 100_500, Partitions: ask2})
	if len(got[0].Records) != 1000 || len(got[1].Records) != 0 {
		t.Errorf("%d and %d bytes, want 1000 and none: it does not fit into 500 and is not the first", len(got[0].Records), len(got[1].Records))
	}
	want(t, "no budget", fetch(t, r, context.Background(), FetchRequest{MaxBytes: 0, Partitions: ask2[:1]})[0], None, "[]")
	want(t, "a negative one", one(t, r, ask("a", 0, -1)), None, "[]")
}

// TestAborted: a transaction that ends in a later segment counts.
func TestAborted(t *testing.T) {
	a := kafkabytes.NewSegment(t, id("a"), 1, txn(0, 9, 7), txn(10, 19, 8))
	b := tens(t, 2, 20, 2, 200)
	c := kafkabytes.NewSegment(t, id("a"), 3, batch{Base: 40, Last: 44}, kafkabytes.Marker(45, 7, false), kafkabytes.Marker(46, 8, false), batch{Base: 50, Last: 59})
	c.Meta.TxnIndexEmpty = false
	c.TxnIndex = kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 7, FirstOffset: 0, LastOffset: 45, LastStableOffset: 10})
	c.TxnIndex = kafkabytes.AppendAborted(c.TxnIndex, format.AbortedTxn{ProducerID: 8, FirstOffset: 10, LastOffset: 46, LastStableOffset: 47})
	one, both := int64(len(a.Log))/2, int64(len(a.Log))
	for _, flagged := range []bool{true, false} {
		b.Meta.TxnIndexEmpty = flagged // false: not known, and the store has none
		store := memrsm.New(memrsm.Stream, a, b, c)
		r := newReader(t, Better, store, remotePartition(t, a, b, c))
		got := committed(t, r, ask("a", 0, one))
		if want := []AbortedTransaction{{7, 0}}; !slices.Equal(got.Aborted, want) {
			t.Errorf("flagged %v: aborted %v, want %v", flagged, got.Aborted, want)
		}
		got = committed(t, r, ask("a", 0, both))
		if want := []AbortedTransaction{{7, 0}, {8, 10}}; !slices.Equal(got.Aborted, want) {
			t.Errorf("flagged %v: aborted %v, want %v", flagged, got.Aborted, want)
		}
		if got := committed(t, r, ask("a", 50, 200)); got.Aborted == nil || len(got.Aborted) != 0 {
			t.Errorf("behind the markers: %v", got.Aborted)
		}
	}
}

// TestQueueFull: two read and one waits; a fourth is delayed until its deadline, and gets its turn when one ends.
func TestQueueFull(t *testing.T) {
	for _, exact := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			policy, code := Better, KafkaStorageError
			if exact {
				policy, code = Kafka43, None
			}
			s := tens(t, 1, 0, 2, 100)
			store := memrsm.New(memrsm.Inline, s)
			release := make(chan struct{})
			store.Before = func(ctx context.Context, _ memrsm.Call) error {
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			r := newReader(t, policy, store, remotePartition(t, s))
			var wg sync.WaitGroup
			read := func(timeout time.Duration, code Code, batches string) (done chan struct{}) {
				done = make(chan struct{})
				wg.Go(func() {
					defer close(done)
					ctx, cancel := context.WithTimeout(context.Background(), timeout)
					defer cancel()
					got := fetch(t, r, ctx, FetchRequest{MaxBytes: 1000, Partitions: []FetchPartition{ask("a", 0, 100)}})[0]
					want(t, fmt.Sprint("with ", timeout), got, code, batches)
					if exact && code == None && got.HighWatermark != 20 {
						t.Errorf("high watermark %d with an empty answer", got.HighWatermark)
					}
				})
				synctest.Wait()
				return done
			}
			for range 3 {
				read(time.Hour, None, "[0]")
			}
			late := read(time.Second, code, "[]") // nobody makes room in time
			read(time.Hour, None, "[0]")
			if n := r.PoolStats().Running; n != 2 { // one of them asks the store for both
				t.Errorf("%d run, want 2: that many threads", n)
			}
			<-late
			close(release)
			wg.Wait()
		})
	}
}

// TestDeadlineInAStore: a deadline that passes while the store works ends the fetch at once.
func TestDeadlineInAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tens(t, 1, 0, 2, 100)
		store := memrsm.New(memrsm.Stream, s)
		store.Before = func(ctx context.Context, _ memrsm.Call) error { <-ctx.Done(); return context.Cause(ctx) }
		r := newReader(t, Better, store, remotePartition(t, s))
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		got := fetch(t, r, ctx, FetchRequest{MaxBytes: 1000, Partitions: []FetchPartition{ask("a", 0, 100)}})[0]
		want(t, "after its deadline", got, KafkaStorageError, "[]")
		if took := time.Since(began); took != 500*time.Millisecond || abi.KindOf(got.Err) != abi.Deadline {
			t.Errorf("after %v: %v", took, got.Err)
		}
	})
}

// TestOneLookupOfAnIndex: many readers of one segment load its index once.
func TestOneLookupOfAnIndex(t *testing.T) {
	s := tens(t, 1, 0, 4, 100)
	store := memrsm.New(memrsm.Inline, s)
	r := newReader(t, Better, store, remotePartition(t, s))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { want(t, "concurrently", one(t, r, ask("a", 25, 100)), None, "[20]") })
	}
	wg.Wait()
	n := 0
	for _, c := range store.Calls() {
		if c.Index == abi.OffsetIndex {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the index was fetched %d times", n)
	}
}

// TestTrace: each step that was taken is told, in order, and a failure ends the list.
func TestTrace(t *testing.T) {
	a, b, c := tens(t, 1, 0, 2, 100), tens(t, 2, 20, 2, 100), tens(t, 3, 40, 2, 100)
	r := newReader(t, Better, memrsm.New(memrsm.Inline, a, b), withLocal(t, remotePartition(t, a, b), c))
	steps := func(offset int64) string {
		p := ask("a", offset, 1000)
		p.Trace = trace.New("x", nil)
		one(t, r, p)
		var names []string
		for _, s := range p.Trace.Steps() {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	for offset, want := range map[int64]string{
		15: "locality epoch segment index position source transfer batches epoch segment position source transfer batches local answer",
		45: "locality local answer",
		60: "locality answer",
		99: "locality answer",
	} {
		if got := steps(offset); got != want {
			t.Errorf("offset %d: %s, want %s", offset, got, want)
		}
	}
}
