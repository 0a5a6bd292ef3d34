package damage

import (
	"context"
	"fmt"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// asked is who answers reads: a host in this process, or a server over TCP.
type asked interface {
	Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse
	ListOffsets(ctx context.Context, req *reader.ListOffsetsRequest) []reader.OffsetData
}

// inProcess is a host.
type inProcess struct{ *host.Host }

// got is what one fetch gave.
type got struct {
	decoded  []format.Record // data records that a consumer delivers
	next     int64
	late     bool
	code     reader.Code
	err      error
	findings []finding.Finding
}

// fetch is one fetch of a consumer. The records are the caller's.
func fetch(ctx context.Context, a asked, p partition, from, maxBytes int64, iso locality.Isolation) got {
	resp := a.Fetch(ctx, &reader.FetchRequest{Version: 17, ReplicaID: locality.Consumer, Isolation: iso, MaxBytes: maxBytes,
		Partitions: []reader.FetchPartition{{Topic: p.topic, TopicID: p.id, Partition: p.number, Offset: from,
			CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined, MaxBytes: maxBytes}}})
	defer resp.Release()
	data := &resp.Partitions[0]
	out := got{next: from, late: data.Late, code: data.Code, err: data.Err, findings: data.Findings}
	if data.Err != nil {
		return out
	}
	data.Records = append([]byte(nil), data.Records...) // what is decoded points into it
	if out.err = verify(p, data.Records); out.err != nil {
		return out
	}
	out.decoded, out.next, out.err = host.Consume(data, from, iso)
	return out
}

// verify holds batches against their CRCs, as clients do.
func verify(p partition, records []byte) error {
	for w := format.Walk(records); w.Next(); {
		if err := format.VerifyBatch(w.Header(), w.Bytes()); err != nil {
			return fmt.Errorf("%s offset %d: %w", p, w.Header().BaseOffset, err)
		}
	}
	return nil
}

// listOffset asks for one offset by a timestamp.
func listOffset(ctx context.Context, a asked, p partition, timestamp int64) reader.OffsetData {
	return a.ListOffsets(ctx, &reader.ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer, Isolation: locality.ReadUncommitted, Markers: true,
		Partitions: []reader.ListOffsetsPartition{{Topic: p.topic, TopicID: p.id, Partition: p.number, Timestamp: timestamp, CurrentLeaderEpoch: epoch.Undefined}}})[0]
}

// whole is what a consumer got of a partition from its beginning to its end.
type whole struct {
	start, end int64
	records    []record
	code       reader.Code
	err        error // what ended it
}

// patience is how often a fetch without records, without an error and below the end is repeated where it was late.
const patience = 200

// readAll reads a partition as `rsmhost cat` does.
func readAll(ctx context.Context, a asked, p partition, iso locality.Isolation) whole {
	first, last := bounds(ctx, a, p, iso)
	for _, d := range []reader.OffsetData{first, last} {
		if d.Err != nil {
			return whole{code: d.Code, err: d.Err}
		}
	}
	out := whole{start: first.Offset, end: last.Offset}
	late := 0
	for from := out.start; from < out.end; {
		f := fetch(ctx, a, p, from, 1<<20, iso)
		for i := range f.decoded {
			out.records = append(out.records, newRecord(&f.decoded[i]))
		}
		switch {
		case f.err != nil:
			out.code, out.err = f.code, f.err
			return out
		case f.late && late < patience:
			late++
		case f.next <= from:
			return out // as a consumer that hangs: what is missing is seen
		}
		from = max(f.next, from)
	}
	return out
}

// bounds are where a partition begins and ends for a consumer.
func bounds(ctx context.Context, a asked, p partition, iso locality.Isolation) (first, last reader.OffsetData) {
	ask := func(timestamp int64) reader.OffsetData {
		return a.ListOffsets(ctx, &reader.ListOffsetsRequest{Version: 11, ReplicaID: locality.Consumer, Isolation: iso,
			Partitions: []reader.ListOffsetsPartition{{Topic: p.topic, TopicID: p.id, Partition: p.number, Timestamp: timestamp, CurrentLeaderEpoch: epoch.Undefined}}})[0]
	}
	return ask(reader.Earliest), ask(reader.Latest)
}
