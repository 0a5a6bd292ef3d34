package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/trace"
)

func fetchCommand() *cli.Command {
	return &cli.Command{
		Name:  "fetch",
		Usage: "one fetch, exactly as a consumer's",
		Description: `Answers one Fetch of one partition and shows its records. --trace shows on stderr how the answer
came about: from which tier and why, the segment, the index, where the bytes were, what was moved and
thrown away; with -o json the steps are spans in the document on stdout. -o raw gives the batches of the
answer as they are: a consumer leaves out what lies below the offset, and with read_committed what the
answer's list of aborted transactions names, which -o json shows. What the read found wrong and could
do without is on stderr, and in the document of -o json.

   rsmhost fetch -t orders -p 3 --offset 1234 --trace --config rsmhost.yaml
   rsmhost fetch -t orders -p 3 --offset earliest -o raw > batches.bin`,
		Flags: withConfig(topicFlag(),
			partitionFlag("0"),
			&cli.StringFlag{Name: "offset", Value: "earliest", Usage: "`N`, earliest or latest"},
			&cli.Int64Flag{Name: "max-bytes", Value: 1 << 20, Usage: "bytes of records at most, but for a first batch that is larger"},
			isolationFlag(),
			&cli.BoolFlag{Name: "trace", Usage: "show each step of the read"},
			&cli.IntFlag{Name: "limit", Value: 20, Usage: "records that the table shows; 0: all"},
			timeoutFlag(),
			outputFlag("table", "json", "raw")),
		Action: fetchAction,
	}
}

func isolationFlag() cli.Flag {
	return &cli.StringFlag{Name: "isolation", Value: locality.ReadUncommitted.String(), Usage: "read_uncommitted or read_committed"}
}

func timeoutFlag() cli.Flag {
	return &cli.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "a fetch that takes longer fails, and so does the opening; 0: no limit"}
}

func isolation(c *cli.Context) (locality.Isolation, error) {
	for _, i := range []locality.Isolation{locality.ReadUncommitted, locality.ReadCommitted} {
		if c.String("isolation") == i.String() {
			return i, nil
		}
	}
	return 0, usage("--isolation "+c.String("isolation"), "want read_uncommitted or read_committed")
}

func fetchAction(c *cli.Context) (err error) {
	if err := oneTopic(c); err != nil {
		return err
	}
	iso, err := isolation(c)
	if err != nil {
		return err
	}
	if c.Int64("max-bytes") < 0 {
		return usage("--max-bytes", "%d is negative", c.Int64("max-bytes"))
	}
	h, conf, err := openHost(c, true)
	if err != nil {
		return err
	}
	defer closing(h, &err)
	f, err := newFetch(c, h, iso)
	if err != nil {
		return err
	}
	f.maxBytes = min(c.Int64("max-bytes"), conf.MaxBytes())
	if err := f.run(c); err != nil {
		return err
	}
	return whole(h, f.topic.Name, []int32{f.partition})
}

// fetch is one fetch of the command line.
type fetch struct {
	host      *host.Host
	topic     *host.Topic
	partition int32
	offset    int64
	maxBytes  int64
	iso       locality.Isolation
	id        string
	trace     *trace.Trace
}

func newFetch(c *cli.Context, h *host.Host, iso locality.Isolation) (*fetch, error) {
	t, err := h.Topic(c.String("topic"))
	if err != nil {
		return nil, statusOne{err}
	}
	f := &fetch{host: h, topic: t, partition: int32(c.Int("partition")), iso: iso, id: requestID()}
	if f.offset, err = f.parseOffset(c, c.String("offset")); err != nil {
		return nil, err
	}
	if c.Bool("trace") {
		f.trace = trace.New(f.id, nil)
	}
	return f, nil
}

// requestID names a request in log, trace and error.
func requestID() string {
	var b [4]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (f *fetch) parseOffset(c *cli.Context, s string) (int64, error) {
	if s != "earliest" && s != "latest" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, usage("--offset "+s, "want a number, earliest or latest")
		}
		return n, nil
	}
	p, err := f.host.Partition(c.Context, f.topic, f.partition)
	if err != nil {
		return 0, statusOne{err}
	}
	if s == "earliest" {
		return p.Offsets.LogStart, nil
	}
	return p.Offsets.Bound(locality.Request{Replica: locality.Consumer, Isolation: f.iso}), nil
}

func (f *fetch) run(c *cli.Context) error {
	ctx, cancel := withTimeout(c)
	defer cancel()
	resp := f.host.Fetch(ctx, &reader.FetchRequest{ID: f.id, ReplicaID: locality.Consumer, Isolation: f.iso, MaxBytes: f.maxBytes,
		Partitions: []reader.FetchPartition{{Topic: f.topic.Name, TopicID: f.topic.ID, Partition: f.partition, Offset: f.offset,
			CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined, MaxBytes: f.maxBytes, Trace: f.trace}}})
	defer resp.Release()
	p := &resp.Partitions[0]
	if f.trace != nil && c.String("output") != "json" {
		if err := writeTrace(c.App.ErrWriter, f.title(), f.trace); err != nil {
			return err
		}
	}
	records, _, decodeErr := host.Consume(p, f.offset, f.iso)
	if err := f.write(c, p, records); err != nil {
		return err
	}
	if p.Err != nil {
		return statusOne{fmt.Errorf("request %s: %w", f.id, p.Err)}
	}
	if decodeErr != nil {
		return statusOne{fmt.Errorf("request %s: %w", f.id, decodeErr)}
	}
	return nil
}

func (f *fetch) title() string {
	return fmt.Sprintf("%s-%d from %d, up to %s, %s   (request %s)", f.topic.Name, f.partition, f.offset, trace.Bytes(f.maxBytes), f.iso, f.id)
}

func (f *fetch) write(c *cli.Context, p *reader.PartitionData, records []format.Record) error {
	w := c.App.Writer
	switch c.String("output") {
	case "raw":
		_, err := w.Write(p.Records)
		return err
	case "json":
		return writeJSON(w, f.document(p, records))
	}
	return f.table(w, p, records, c.Int("limit"))
}

func (f *fetch) table(w io.Writer, p *reader.PartitionData, records []format.Record, limit int) error {
	if p.Code != reader.None {
		return nil // the error says it all
	}
	fmt.Fprintf(w, "%s-%d: %s, %s; log start %d, last stable offset %d, high watermark %d\n", f.topic.Name, f.partition,
		count(len(records), "record"), trace.Bytes(int64(len(p.Records))), p.LogStartOffset, p.LastStableOffset, p.HighWatermark)
	shown := records
	if limit > 0 && len(records) > limit {
		shown = records[:limit]
	}
	width := keyWidth(shown)
	for i := range shown {
		if err := writeRecordLine(w, strconv.FormatInt(shown[i].Offset, 10), &shown[i], width); err != nil {
			return err
		}
	}
	if n := len(records) - len(shown); n > 0 {
		fmt.Fprintf(w, "%8s  and %d more, up to offset %d (--limit 0 shows all)\n", "...", n, records[len(records)-1].Offset)
	}
	return nil
}

func keyWidth(records []format.Record) int {
	width := 4
	for i := range records {
		width = max(width, len([]rune(printable(records[i].Key, 24))))
	}
	return width
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
