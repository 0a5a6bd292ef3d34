package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

const (
	walkBytes   = 4 << 20 // of a fetch: enough to make it cheap
	walkAhead   = 2       // answers that wait to be compared
	walkTries   = 10      // of what is answered with an error that passes
	walkPause   = 200 * time.Millisecond
	walkVersion = 17
)

// chunk is one answer of a walk, or its end.
type chunk struct {
	records []byte
	aborted []reader.AbortedTransaction
	end     *ending // nil: more comes
}

// ending is why a walk ended before it was at its end.
type ending struct {
	err    error  // of the connection, or of the context
	why    string // else
	failed bool   // something could not be read; false: nothing is there
}

// walk reads a partition of one side from offset at to end, and sends what comes. It ends with the context, or at its end,
// and closes the channel then.
type walk struct {
	c         *Client
	topic     string
	partition int32
	iso       locality.Isolation
	at, end   int64
	bytes     *atomic.Int64 // read so far, of all walks
}

// start begins a walk; wg is done when it has ended. A fetch that runs when stop is closed is waited for: its connection is good
// for the next walk then.
func (w walk) start(ctx context.Context, stop <-chan struct{}, wg *sync.WaitGroup) <-chan chunk {
	out := make(chan chunk, walkAhead)
	wg.Go(func() { // ends with stop or ctx, or at the end of what is read; who started it waits for wg
		defer close(out)
		for w.at < w.end {
			c := w.next(ctx)
			select {
			case out <- c:
			case <-stop:
				return
			}
			if c.end != nil {
				return
			}
		}
	})
	return out
}

// next fetches from where the walk is.
func (w *walk) next(ctx context.Context) chunk {
	for try := 1; ; try++ {
		p, err := w.fetch(ctx)
		switch {
		case err != nil:
			return chunk{end: &ending{err: err}}
		case passes(p.Code) && try < walkTries:
			if err := pause(ctx, walkPause*time.Duration(try)); err != nil {
				return chunk{end: &ending{err: err}}
			}
			continue
		case p.Code != reader.None:
			return chunk{end: &ending{why: fmt.Sprintf("%s (%d) at offset %d", p.Code, p.Code, w.at), failed: true}}
		}
		return w.took(p)
	}
}

// took moves on behind what came.
func (w *walk) took(p *reader.PartitionData) chunk {
	next, whole := w.at, int64(0)
	b := format.Walk(p.Records)
	for b.Next() {
		next, whole = max(next, b.Header().LastOffset+1), b.Pos()+b.Header().Size()
	}
	if err := b.Err(); err != nil && whole == 0 {
		return chunk{end: &ending{why: fmt.Sprintf("a damaged batch at offset %d: %v", w.at, err), failed: true}}
	}
	if next == w.at {
		return chunk{end: &ending{why: fmt.Sprintf("no records and no error at offset %d, below its end at %d: a consumer hangs there", w.at, w.end)}}
	}
	w.at = next
	w.bytes.Add(whole)
	aborted := slices.Clone(p.Aborted) // a broker has them in any order
	slices.SortFunc(aborted, func(a, b reader.AbortedTransaction) int { return int(min(1, max(-1, a.FirstOffset-b.FirstOffset))) })
	return chunk{records: p.Records[:whole], aborted: aborted}
}

func (w *walk) fetch(ctx context.Context) (*reader.PartitionData, error) {
	resp := w.c.Fetch(ctx, &reader.FetchRequest{Version: w.c.version(fetchKey, walkVersion), ReplicaID: locality.Consumer, Isolation: w.iso, MaxBytes: walkBytes,
		Partitions: []reader.FetchPartition{{Topic: w.topic, Partition: w.partition, Offset: w.at, MaxBytes: walkBytes,
			CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}}})
	if err := errors.Join(w.c.Err(), ctx.Err()); err != nil {
		return nil, err
	}
	return &resp.Partitions[0], nil
}

// passes says which errors a client tries again on.
func passes(c reader.Code) bool {
	switch c {
	case reader.NotLeaderOrFollower, reader.RequestTimedOut, reader.ReplicaNotAvailable, reader.KafkaStorageError:
		return true
	}
	return false
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// item is one record of a walk, with what its batch says of it.
type item struct {
	format.Record
	control, transactional bool
	producer               int64
}

// cursor goes through what a walk sends: by whole batches as long as these are equal, else by records.
type cursor struct {
	in   <-chan chunk
	iso  locality.Isolation
	from int64 // what lies below is not of the comparison

	end    ending // why nothing more comes, once it does not
	walker format.Walker
	now    *host.Delivery
	seen   bool // the batch at hand was looked at
	shown  bool // and is delivered
	items  []item
}

// batch gives the batch at hand, false at the end.
func (c *cursor) batch() ([]byte, bool) {
	for !c.seen {
		if !c.walker.Next() {
			ch, ok := <-c.in
			if !ok {
				return nil, false
			}
			if ch.end != nil {
				c.stop(*ch.end)
				return nil, false
			}
			c.walker, c.now = format.Walk(ch.records), host.NewDelivery(ch.aborted, c.iso)
			continue
		}
		h := c.walker.Header()
		shown, err := c.now.Delivers(h, c.walker.Bytes())
		if err != nil {
			c.stop(ending{why: err.Error(), failed: true})
			return nil, false
		}
		if h.LastOffset < c.from {
			continue
		}
		c.shown = shown || c.iso == locality.ReadUncommitted && h.IsControl() // markers are compared too
		c.seen = true
	}
	return c.walker.Bytes(), true
}

// stop ends a cursor, whatever is still sent.
func (c *cursor) stop(e ending) { c.end, c.in, c.walker, c.seen = e, closed, format.Walk(nil), false }

// closed is the channel of a walk that is over.
var closed = func() <-chan chunk { c := make(chan chunk); close(c); return c }()

// skip leaves the batch at hand.
func (c *cursor) skip() { c.seen = false }

// item gives the next record, false at the end.
func (c *cursor) item() (item, bool) {
	for len(c.items) == 0 {
		b, ok := c.batch()
		if !ok {
			return item{}, false
		}
		h := c.walker.Header()
		c.skip()
		if !c.shown {
			continue
		}
		records, err := format.Records(b, 0)
		if err != nil {
			c.stop(ending{why: err.Error(), failed: true})
			return item{}, false
		}
		for _, r := range records {
			if r.Offset >= c.from {
				c.items = append(c.items, item{r, h.IsControl(), h.IsTransactional(), h.ProducerID})
			}
		}
	}
	it := c.items[0]
	c.items = c.items[1:]
	return it, true
}

// part reports that the cursor stands within a batch.
func (c *cursor) part() bool { return len(c.items) > 0 }
