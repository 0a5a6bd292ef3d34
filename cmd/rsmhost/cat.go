package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

func catCommand() *cli.Command {
	return &cli.Command{
		Name:  "cat",
		Usage: "stream a topic's records, partition after partition, to its end",
		Description: `   rsmhost cat -t orders                          offset, time, key and value of each record
   rsmhost cat -t orders -p 3 --from 100 --to 200   offsets 100 to 199 of one partition
   rsmhost cat -t orders -o json | jq .value        one JSON object a record
   rsmhost cat -t orders -o raw > batches.bin       record batches as they lie, to be decoded elsewhere

-o raw gives whole batches: the first may begin before --from, and the last is the one that holds the
offset before --to, so that it may end behind that. Batches of markers come too; those of aborted
transactions do not with read_committed.`,
		Flags: withConfig(topicFlag(),
			partitionFlag("all, one after another"),
			&cli.Int64Flag{Name: "from", Value: -1, Usage: "first offset", DefaultText: "the log start"},
			&cli.Int64Flag{Name: "to", Value: math.MaxInt64, Usage: "offset to stop before", DefaultText: "the end"},
			isolationFlag(), timeoutFlag(), outputFlag("table", "json", "raw")),
		Action: catAction,
	}
}

func catAction(c *cli.Context) error {
	iso, err := isolation(c)
	if err != nil {
		return err
	}
	if from, to := c.Int64("from"), c.Int64("to"); to < max(from, 0) {
		return usage("cat --to", "it is the offset to stop before, and %d lies before offset %d", to, max(from, 0))
	}
	return onTopic(c, true, func(h *host.Host, t *host.Topic, numbers []int32) error {
		out := bufio.NewWriterSize(c.App.Writer, 1<<16)
		for _, n := range numbers {
			s := &stream{host: h, topic: t, partition: n, iso: iso, to: c.Int64("to"), form: c.String("output"), out: out}
			if err := s.run(c, c.Int64("from")); err != nil {
				out.Flush() // what was read before the error is good
				return err
			}
		}
		return out.Flush()
	})
}

// stream is a consumer of one partition.
type stream struct {
	host      *host.Host
	topic     *host.Topic
	partition int32
	iso       locality.Isolation
	to        int64 // exclusive
	form      string
	late      bool // the last fetch was answered before it was ready
	out       *bufio.Writer
}

func (s *stream) run(c *cli.Context, from int64) error {
	p, err := s.host.Partition(c.Context, s.topic, s.partition)
	if err != nil {
		return statusOne{err}
	}
	if from < 0 {
		from = p.Offsets.LogStart
	}
	end := min(s.to, p.Offsets.Bound(locality.Request{Replica: locality.Consumer, Isolation: s.iso}))
	if from == end || from > end && s.to < from {
		return nil
	}
	for from < end || from > p.Offsets.LogEnd {
		if c.Context.Err() != nil { // a local read asks nobody, and would not notice
			return context.Cause(c.Context)
		}
		next, err := s.fetch(c, from)
		if h, ok := p.HoleAt(from); err != nil && ok && errors.Is(err, abi.Unavailable) { // the findings tell of it
			from = h.To
			continue
		}
		if err != nil {
			return err
		}
		if s.late { // the read goes on, and the next fetch of this offset is answered from it
			continue
		}
		if next <= from { // never an endless loop: a broker's consumer would hang here
			return s.nothing(c, from, end)
		}
		from = next
	}
	return nil
}

// nothing is what it means that a fetch below the end gave neither records nor an error: all offsets up to the end were
// compacted away. With --kafka-exact it may as well be Kafka's hole behind the last tiered segment (KAFKA-16088).
func (s *stream) nothing(c *cli.Context, from, end int64) error {
	if !c.Bool("kafka-exact") {
		return nil
	}
	return statusOne{abi.Errorf("cat", fmt.Sprintf("%s-%d", s.topic.Name, s.partition), abi.Internal,
		"no record and no error at offset %d, below the end at %d: a consumer of Kafka's would hang here (KAFKA-16088)", from, end)}
}

func (s *stream) fetch(c *cli.Context, from int64) (next int64, err error) {
	ctx, cancel := withTimeout(c)
	defer cancel()
	id := requestID()
	resp := s.host.Fetch(ctx, &reader.FetchRequest{ID: id, ReplicaID: locality.Consumer, Isolation: s.iso, MaxBytes: catBytes,
		Partitions: []reader.FetchPartition{{Topic: s.topic.Name, TopicID: s.topic.ID, Partition: s.partition, Offset: from,
			CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined, MaxBytes: catBytes}}})
	defer resp.Release()
	p := &resp.Partitions[0]
	if p.MissingUntil > from { // a finding: it is told, and the status is 1 in the end
		s.late = false
		return p.MissingUntil, nil
	}
	if p.Err != nil {
		return 0, statusOne{fmt.Errorf("request %s: %w", id, p.Err)}
	}
	records, next, err := host.Consume(p, from, s.iso)
	if werr := s.write(p, records); werr != nil {
		return 0, werr
	}
	if err != nil {
		return 0, statusOne{fmt.Errorf("request %s: %w", id, err)}
	}
	s.late = p.Late
	return next, nil
}

// catBytes is what one fetch of cat asks for: enough to make a fetch cheap, little enough to begin at once.
const catBytes = 4 << 20

func (s *stream) write(p *reader.PartitionData, records []format.Record) error {
	if s.form == "raw" {
		return s.writeBatches(p)
	}
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	width := keyWidth(records)
	for i := range records {
		if records[i].Offset >= s.to {
			break
		}
		var err error
		if s.form == "json" {
			err = enc.Encode(newRecordDoc(s.topic.Name, s.partition, &records[i]))
		} else {
			err = writeRecordLine(s.out, fmt.Sprintf("%d:%d", s.partition, records[i].Offset), &records[i], width)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeBatches writes the batches that begin before the end, as they lie. With read_committed those of aborted transactions are left
// out: who reads the batches has no list of them.
func (s *stream) writeBatches(p *reader.PartitionData) error {
	delivery := host.NewDelivery(p.Aborted, s.iso)
	w := format.Walk(p.Records)
	for w.Next() {
		h := w.Header()
		if h.BaseOffset >= s.to {
			return nil
		}
		delivers, err := delivery.Delivers(h, w.Bytes())
		if err != nil {
			return nil // Consume says it, of the same batch
		}
		if !delivers && !h.IsControl() {
			continue
		}
		if _, err := s.out.Write(w.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
