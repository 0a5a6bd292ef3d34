package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// specials are the timestamps of ListOffsets that are no times, by the names that Kafka's tools give them.
var specials = []struct {
	name string
	ts   int64
}{
	{"earliest", reader.Earliest}, {"earliest-local", reader.EarliestLocal}, {"latest-tiered", reader.LatestTiered},
	{"earliest-pending-upload", reader.EarliestPendingUpload}, {"latest", reader.Latest}, {"max-timestamp", reader.MaxTimestamp},
}

func offsetsCommand() *cli.Command {
	return &cli.Command{
		Name:  "offsets",
		Usage: "the offsets that ListOffsets names: specials, by time, and where leader epochs end",
		Description: `   rsmhost offsets -t orders                               all special offsets of all partitions
   rsmhost offsets -t orders --time 2026-01-31T08:00:00Z   the first record at or after a time, in either tier
   rsmhost offsets -t orders --epochs                      the leader epochs and where each ends`,
		Flags: withConfig(topicFlag(),
			partitionFlag("all"),
			&cli.StringFlag{Name: "time", Usage: "a time as milliseconds or RFC 3339, or one of " + strings.Join(specialNames(), ", ")},
			&cli.BoolFlag{Name: "epochs", Usage: "leader epochs in place of offsets"},
			isolationFlag(), timeoutFlag(), outputFlag("table", "json")),
		Action: offsetsAction,
	}
}

func specialNames() []string {
	var out []string
	for _, s := range specials {
		out = append(out, s.name)
	}
	return out
}

type offsetDoc struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	What        string `json:"what"`
	Offset      int64  `json:"offset"`
	Timestamp   int64  `json:"timestamp"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	ErrorCode   int16  `json:"errorCode"`
	Error       string `json:"error,omitempty"`
}

func offsetsAction(c *cli.Context) error {
	iso, err := isolation(c)
	if err != nil {
		return err
	}
	if c.Bool("epochs") {
		for _, flag := range []string{"time", "isolation"} {
			if c.IsSet(flag) {
				return usage("offsets --epochs", "where leader epochs end does not depend on --%s", flag)
			}
		}
	}
	asked, err := askedTimes(c.String("time"))
	if err != nil {
		return err
	}
	return onTopic(c, true, func(h *host.Host, t *host.Topic, numbers []int32) error {
		ctx, cancel := withTimeout(c)
		defer cancel()
		if c.Bool("epochs") {
			return writeEpochs(ctx, c, h, t, numbers)
		}
		var docs []offsetDoc
		for _, n := range numbers {
			for _, what := range asked {
				docs = append(docs, offsetOf(ctx, h, t, n, iso, what.name, what.ts))
			}
		}
		return writeOffsets(c, docs)
	})
}

// askedTimes gives what is asked for: one time, or all the special ones.
func askedTimes(s string) ([]struct {
	name string
	ts   int64
}, error) {
	if s == "" {
		return specials, nil
	}
	if i := slices.Index(specialNames(), s); i >= 0 {
		return specials[i : i+1], nil
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	if err != nil || ms < 0 {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return nil, usage("--time "+s, "want milliseconds, a time such as 2026-01-31T08:00:00Z, or one of %s", strings.Join(specialNames(), ", "))
		}
		ms = at.UnixMilli()
	}
	one := slices.Clone(specials[:1])
	one[0].name, one[0].ts = s, ms
	return one, nil
}

func offsetOf(ctx context.Context, h *host.Host, t *host.Topic, partition int32, iso locality.Isolation, what string, ts int64) offsetDoc {
	d := h.ListOffsets(ctx, &reader.ListOffsetsRequest{ID: requestID(), Version: 11, ReplicaID: locality.Consumer, Isolation: iso,
		Partitions: []reader.ListOffsetsPartition{{Topic: t.Name, TopicID: t.ID, Partition: partition, Timestamp: ts, CurrentLeaderEpoch: epoch.Undefined}}})[0]
	doc := offsetDoc{Topic: t.Name, Partition: partition, What: what, Offset: d.Offset, Timestamp: d.Timestamp, LeaderEpoch: d.LeaderEpoch, ErrorCode: int16(d.Code)}
	if d.Err != nil {
		doc.Error = d.Err.Error()
	}
	return doc
}

func writeOffsets(c *cli.Context, docs []offsetDoc) error {
	var failed error
	rows := [][]string{}
	for _, d := range docs {
		if d.Error != "" && failed == nil {
			failed = fmt.Errorf("%s-%d %s: %s", d.Topic, d.Partition, d.What, d.Error)
		}
		rows = append(rows, []string{fmt.Sprintf("%s-%d", d.Topic, d.Partition), d.What, orDash(d.Offset), timeOrDash(d.Timestamp), orDash(int64(d.LeaderEpoch))})
	}
	var err error
	if c.String("output") == "json" {
		err = writeJSON(c.App.Writer, docs)
	} else {
		err = writeTable(c.App.Writer, []string{"PARTITION", "WHAT", "OFFSET", "TIMESTAMP", "LEADER EPOCH"}, rows)
	}
	if err == nil && failed != nil {
		return statusOne{failed}
	}
	return err
}

func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func timeOrDash(ms int64) string {
	if ms < 0 {
		return "-"
	}
	return timestamp(ms)
}

type epochEndDoc struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	StartOffset int64  `json:"startOffset"`
	EndOffset   int64  `json:"endOffset"` // exclusive
}

func writeEpochs(ctx context.Context, c *cli.Context, h *host.Host, t *host.Topic, numbers []int32) error {
	docs, rows := []epochEndDoc{}, [][]string{}
	for _, n := range numbers {
		p, err := h.Partition(ctx, t, n)
		if err != nil {
			return statusOne{err}
		}
		for _, e := range p.Lineage.Entries() {
			end := h.OffsetForLeaderEpoch(ctx, &reader.EpochRequest{Topic: t.Name, TopicID: t.ID, Partition: n, LeaderEpoch: e.Epoch, CurrentLeaderEpoch: epoch.Undefined})
			if end.Err != nil {
				return statusOne{end.Err}
			}
			docs = append(docs, epochEndDoc{t.Name, n, e.Epoch, e.StartOffset, end.EndOffset})
			rows = append(rows, []string{fmt.Sprintf("%s-%d", t.Name, n), fmt.Sprint(e.Epoch), offsetRange(e.StartOffset, end.EndOffset)})
		}
	}
	if c.String("output") == "json" {
		return writeJSON(c.App.Writer, docs)
	}
	return writeTable(c.App.Writer, []string{"PARTITION", "LEADER EPOCH", "OFFSETS"}, rows)
}
