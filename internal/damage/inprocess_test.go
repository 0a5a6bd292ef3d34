package damage

import (
	"context"
	"fmt"
	"testing"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/finding"
)

// lookInProcess opens a host and asks it all that can be asked.
func lookInProcess(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	h, closeHost, err := openDamaged(ctx, d)
	if err != nil {
		d.told(&v, "open", err)
		return v
	}
	defer closeHost()
	for _, k := range d.truth.partitions {
		d.lookAt(ctx, &v, inProcess{h}, h, k)
	}
	d.memory(&v, h)
	d.list(&v, h.Findings())
	return v
}

// openDamaged opens a host over a damaged fixture.
func openDamaged(ctx context.Context, d *scene) (*host.Host, func(), error) {
	cfg, closeRoot, err := config(d.dir, d.truth.setup)
	if err != nil {
		closeRoot()
		return nil, nil, err
	}
	h, err := host.Open(ctx, cfg)
	if err != nil {
		closeRoot()
		return nil, nil, err
	}
	return h, func() {
		h.Close()
		closeRoot()
	}, nil
}

// lookAt reads a partition from beginning to end, from anywhere, and asks for its offsets.
func (d *scene) lookAt(ctx context.Context, v *verdict, a asked, h *host.Host, k *known) {
	for _, iso := range isolations {
		all := readAll(ctx, a, k.partition, iso)
		if all.err != nil {
			d.told(v, fmt.Sprintf("read of %s, %s", k.partition, iso), all.err)
		}
		k.compare(v, "read", iso, all, concerning(h.Findings(), k.partition))
	}
	for range 6 {
		d.fetchAnywhere(ctx, v, a, h, k)
	}
	d.lookForOffsets(ctx, v, a, h, k)
}

func (d *scene) fetchAnywhere(ctx context.Context, v *verdict, a asked, h *host.Host, k *known) {
	iso := isolations[d.rand.IntN(2)]
	span := k.end[iso] - k.start()
	if span <= 0 {
		return
	}
	from := k.start() + d.rand.Int64N(span)
	f := fetch(ctx, a, k.partition, from, int64(1)<<(8+d.rand.IntN(13)), iso)
	if f.err != nil {
		d.told(v, fmt.Sprintf("fetch of %s at offset %d, %s", k.partition, from, iso), f.err)
	}
	found := concerning(h.Findings(), k.partition)
	if f.code == 1 && !found { // OFFSET_OUT_OF_RANGE: a consumer resets its offset because of it
		v.wrongf("fetch of %s at offset %d: %v: consumers reset, without a finding", k.partition, from, f.err)
	}
	k.compareFetch(v, from, iso, f, found)
}

func (k *known) start() int64 { return k.specials[-2].Offset }

// lookForOffsets asks for the offsets that have names, and for some by their time.
func (d *scene) lookForOffsets(ctx context.Context, v *verdict, a asked, h *host.Host, k *known) {
	for ts, name := range specials {
		d.compareOffset(ctx, v, a, h, k, ts, name)
	}
	for ts := range k.times {
		d.compareOffset(ctx, v, a, h, k, ts, fmt.Sprintf("time %d", ts))
	}
}

func (d *scene) compareOffset(ctx context.Context, v *verdict, a asked, h *host.Host, k *known, ts int64, name string) {
	want, ok := k.specials[ts]
	if !ok {
		want = k.times[ts]
	}
	got := listOffset(ctx, a, k.partition, ts)
	where := fmt.Sprintf("offset of %s by %s", k.partition, name)
	if got.Err != nil && want.Err == nil {
		d.told(v, where, got.Err)
		return
	}
	same := got.Code == want.Code && got.Offset == want.Offset && got.Timestamp == want.Timestamp && got.LeaderEpoch == want.LeaderEpoch
	if !same && !concerning(h.Findings(), k.partition) {
		v.wrongf("%s: offset %d, time %d, epoch %d, %v; %d, %d, %d, %v is right, without a finding", where,
			got.Offset, got.Timestamp, got.LeaderEpoch, got.Code, want.Offset, want.Timestamp, want.LeaderEpoch, want.Code)
	}
}

// memory holds what is held in memory against what may be.
func (d *scene) memory(v *verdict, h *host.Host) {
	if used, limit := h.MemoryInUse(); used > limit {
		v.brokef("%d bytes in memory, and the limit is %d", used, limit)
	}
}

// list takes in findings: each names something.
func (d *scene) list(v *verdict, all []finding.Finding) {
	for _, f := range all {
		v.told = append(v.told, fmt.Sprintf("finding (repaired %v): %s", f.Repaired, f))
		if !d.names(f.String()) {
			v.wrongf("the finding names neither file, partition nor offset: %s", f)
		}
	}
}
