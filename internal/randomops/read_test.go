package randomops

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// ask is a fetch: the views' offsets to read from, with their budgets.
type ask struct {
	iso   locality.Isolation
	max   int64
	parts []askOne
}

type askOne struct {
	v      *view
	offset int64
	max    int64
}

func (a ask) String() string {
	s := fmt.Sprintf("fetch %s, %d bytes:", a.iso, a.max)
	for _, p := range a.parts {
		s += fmt.Sprintf(" %s from %d (%d bytes)", p.v.p.id, p.offset, p.max)
	}
	return s
}

func (a ask) request() *reader.FetchRequest {
	req := &reader.FetchRequest{Version: 17, ReplicaID: locality.Consumer, Isolation: a.iso, MaxBytes: a.max}
	for _, p := range a.parts {
		req.Partitions = append(req.Partitions, reader.FetchPartition{Topic: p.v.p.id.Topic, Partition: p.v.p.id.Partition, Offset: p.offset,
			MaxBytes: p.max, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined})
	}
	return req
}

// draw draws a fetch of n partitions.
func (x *run) draw(n int) ask {
	a := ask{iso: locality.Isolation(x.r.IntN(2)), max: math.MaxInt32}
	for _, i := range x.r.Perm(len(x.views))[:n] {
		v := x.views[i]
		p := askOne{v: v, offset: x.offset(v)}
		p.max = x.budget(v.run(p.offset, a.iso))
		a.parts = append(a.parts, p)
	}
	if x.r.IntN(2) == 0 {
		a.max = x.budget(a.parts[0].v.run(a.parts[0].offset, a.iso))
	}
	return a
}

// offset draws where to read from: anywhere, a little beyond, and often where a segment or the log begins or ends.
func (x *run) offset(v *view) int64 {
	switch near := x.r.Int64N(3) - 1; {
	case x.r.IntN(12) == 0:
		return max(0, v.end+near)
	case x.r.IntN(12) == 0:
		return max(0, v.logStart+near)
	case x.r.IntN(3) == 0 && len(v.segs) > 0:
		u := v.segs[x.r.IntN(len(v.segs))]
		if x.r.IntN(2) == 0 {
			return max(0, u.start()+near)
		}
		return u.end() + near
	}
	low := min(v.sure, v.end)
	return low + x.r.Int64N(v.end-low+1)
}

// budget draws how many bytes to ask for: often just what some batches have, or one more or less.
func (x *run) budget(run []*batch) int64 {
	switch x.r.IntN(4) {
	case 0:
		return 1 << 20
	case 1:
		return 1 + x.r.Int64N(20000)
	}
	n := int64(0)
	for _, b := range run[:x.r.IntN(min(len(run), 12)+1)] {
		n += int64(len(b.raw))
	}
	return max(1, n+x.r.Int64N(3)-1)
}

// fetch asks, checks the answer against the model, and gives it. lenient: the store fails now. A host that finds an object
// gone or damaged looks by itself: then the answer may be of what there is now.
func (x *run) fetch(a ask, lenient bool) (*reader.FetchResponse, error) {
	x.now = nil
	if lenient || slices.ContainsFunc(x.views, func(v *view) bool { return !v.whole() }) {
		x.disk.checkpoints(x.parts, true)
		x.now = map[*view]*view{}
		for _, v := range x.views {
			x.now[v] = v.p.view(v.local, true)
		}
	}
	for began := time.Now(); ; {
		resp := x.host.Fetch(context.Background(), a.request())
		late := slices.ContainsFunc(resp.Partitions, x.late)
		if err := x.check(a, resp, lenient || late); err != nil {
			return resp, err
		}
		if !late || lenient {
			return resp, nil
		}
		if time.Since(began) > time.Minute {
			return resp, fmt.Errorf("a minute of answers that are late")
		}
		resp.Release()
	}
}

// late reports an answer that says that what it takes has not come yet.
func (x *run) late(p reader.PartitionData) bool {
	return p.Late || x.wait > 0 && p.Code == reader.ReplicaNotAvailable
}

// check compares an answer with the model.
func (x *run) check(a ask, resp *reader.FetchResponse, lenient bool) error {
	total, any := int64(0), lenient
	over := int64(0) // what the first batch may exceed the request by
	for i := range a.parts {
		p, got := &a.parts[i], &resp.Partitions[i]
		taken, err := x.checkOne(a, p, got, lenient)
		if now := x.now[p.v]; err != nil && now != nil {
			if again, err2 := x.checkOne(a, &askOne{now, p.offset, p.max}, got, lenient); err2 == nil {
				taken, err = again, nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s from %d: %w (code %s, error %v)", p.v.p.id, p.offset, err, got.Code, got.Err)
		}
		if size := int64(len(got.Records)); size > 0 {
			if total == 0 {
				over = max(0, int64(len(taken[0].raw))-min(p.max, a.max))
			}
			total += size
		}
		any = any || len(taken) > 0 || got.Code != reader.None
	}
	if total > a.max+over {
		return fmt.Errorf("%d bytes came, %d were asked for", total, a.max)
	}
	if any || x.now != nil {
		return nil
	}
	for _, p := range a.parts {
		if len(p.v.run(p.offset, a.iso)) > 0 && p.offset < p.v.limit {
			return fmt.Errorf("no progress: nothing came, though %s has records at %d", p.v.p.id, p.offset)
		}
	}
	return nil
}

// checkOne compares the answer of one partition with the model and gives the batches that came.
func (x *run) checkOne(a ask, p *askOne, got *reader.PartitionData, lenient bool) ([]*batch, error) {
	v := p.v
	inside := p.offset >= v.logStart && p.offset <= v.end
	run := v.run(p.offset, a.iso)
	vague := p.offset < v.sure || v.limit < v.end && (p.offset >= v.limit || len(run) == 0) // a dead lineage may be all there is
	switch {
	case (got.Code == reader.OffsetOutOfRange || got.Code == reader.NotLeaderOrFollower) && (!inside || vague): // the latter: a copy that failed, or of a dead lineage
		return nil, nil
	case !inside && !vague:
		return nil, fmt.Errorf("the log has %d to %d: OFFSET_OUT_OF_RANGE was expected", v.logStart, v.end)
	case got.Code == reader.OffsetOutOfRange:
		return nil, fmt.Errorf("the log has %d to %d", v.logStart, v.end)
	case got.Code != reader.None && (lenient || vague || v.excused(p.offset, a.iso) != ""):
		return nil, nil
	case got.Code != reader.None:
		return nil, fmt.Errorf("nothing is wrong there")
	}
	taken, err := compare(run, got.Records)
	if err != nil {
		return nil, err
	}
	if err := delivered(taken, p.offset, a.iso, got); err != nil {
		return nil, err
	}
	if size := int64(len(got.Records)); size > p.max && len(taken) > 1 {
		return nil, fmt.Errorf("%d batches of %d bytes, %d were asked for", len(taken), size, p.max)
	}
	if len(a.parts) == 1 && !lenient && !vague && v.whole() && x.wait == 0 { // the latter: a late read ends with what it has
		return taken, most(run, taken, min(p.max, a.max))
	}
	return taken, nil
}

// compare holds the bytes of an answer against the batches that must come, in order and whole.
func compare(run []*batch, raw []byte) ([]*batch, error) {
	n := 0
	for ; len(raw) > 0; n++ {
		if n == len(run) {
			return nil, fmt.Errorf("after %d batches come bytes that the model has not: %s", n, head(raw))
		}
		if want := run[n].raw; !bytes.HasPrefix(raw, want) {
			return nil, fmt.Errorf("batch %d of the answer is %s, want %s", n, head(raw), head(want))
		}
		raw = raw[len(run[n].raw):]
	}
	return run[:n], nil
}

func head(raw []byte) string {
	h, err := format.ParseBatchHeader(raw)
	if err != nil {
		return fmt.Sprintf("%d bytes that are no batch", len(raw))
	}
	return fmt.Sprintf("%d-%d of epoch %d, %d bytes", h.BaseOffset, h.LastOffset, h.LeaderEpoch, h.Size())
}

// most says whether taken is as much of run as there is room for.
func most(run, taken []*batch, room int64) error {
	n, size := 0, int64(0)
	for n < len(run) && (n == 0 || size+int64(len(run[n].raw)) <= room) {
		size += int64(len(run[n].raw))
		n++
	}
	if n != len(taken) {
		return fmt.Errorf("%d batches came, %d fit into %d bytes", len(taken), n, room)
	}
	return nil
}

// delivered holds what a consumer makes of an answer against the model: no aborted record, and no other one lost.
func delivered(taken []*batch, from int64, iso locality.Isolation, got *reader.PartitionData) error {
	recs, next, err := host.Consume(got, from, iso)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	if want := max(from, end(taken)); next != want {
		return fmt.Errorf("the next offset is %d, want %d", next, want)
	}
	for _, b := range taken {
		has := len(recs) > 0 && recs[0].Offset <= b.last
		if !b.delivered(iso) {
			if has {
				return fmt.Errorf("record %d (%s) is delivered and must not be; aborted transactions: %v", recs[0].Offset, recs[0].Key, got.Aborted)
			}
			continue
		}
		for _, want := range b.recs {
			if want.Offset < from {
				continue
			}
			if len(recs) == 0 || recs[0].Offset != want.Offset || !bytes.Equal(recs[0].Key, want.Key) || !bytes.Equal(recs[0].Value, want.Value) {
				return fmt.Errorf("record %d is not delivered; aborted transactions: %v", want.Offset, got.Aborted)
			}
			recs = recs[1:]
		}
	}
	if len(recs) > 0 {
		return fmt.Errorf("record %d (%s) is delivered and nobody wrote it", recs[0].Offset, recs[0].Key)
	}
	return nil
}

// end is the exclusive end of batches; 0 where there are none.
func end(batches []*batch) int64 {
	if len(batches) == 0 {
		return 0
	}
	return batches[len(batches)-1].last + 1
}

// consume reads a partition from an offset to its end, as a consumer does. It ends at an error that the model allows.
func (x *run) consume(v *view, from int64, iso locality.Isolation) (string, error) {
	for {
		run := v.run(from, iso)
		one := ask{iso: iso, max: math.MaxInt32, parts: []askOne{{v, from, x.budget(run)}}}
		resp, err := x.fetch(one, false)
		if err != nil {
			resp.Release()
			return "", fmt.Errorf("%s: %w", one, err)
		}
		got := &resp.Partitions[0]
		_, next, _ := host.Consume(got, from, iso)
		code := got.Code
		resp.Release()
		switch {
		case code != reader.None:
			return code.String(), nil
		case len(run) == 0 || from >= v.limit:
			return "the end", nil
		case next <= from:
			return "", fmt.Errorf("%s: no progress", one)
		}
		from = next
	}
}
