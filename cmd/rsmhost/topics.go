package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/trace"
)

func topicsCommand() *cli.Command {
	return &cli.Command{
		Name:  "topics",
		Usage: "what can be read: topics, partitions, offsets, and in which tier",
		Description: `Needs no plugin. A name that was deleted and created again stands for its newest incarnation; the
others are shown as NAME@ID, and are read under that name.`,
		Flags:  withConfig(outputFlag("table", "json")),
		Action: topicsAction,
	}
}

type topicDoc struct {
	Topic      string              `json:"topic"`
	TopicID    string              `json:"topicId"`
	Newest     bool                `json:"newest"`
	Deleted    bool                `json:"deleted"`
	Partitions []topicPartitionDoc `json:"partitions"`
}

type topicPartitionDoc struct {
	Partition      int32 `json:"partition"`
	LogStartOffset int64 `json:"logStartOffset"`
	LocalLogStart  int64 `json:"localLogStartOffset"`
	LastStable     int64 `json:"lastStableOffset"`
	HighWatermark  int64 `json:"highWatermark"`
	LogEndOffset   int64 `json:"logEndOffset"`
	Local          bool  `json:"local"`
	RemoteSegments int   `json:"remoteSegments"`
	RemoteBytes    int64 `json:"remoteBytes"`
	LocalSegments  int   `json:"localSegments"`
	LocalBytes     int64 `json:"localBytes"`
}

func topicsAction(c *cli.Context) (err error) {
	if err := noArgs(c); err != nil {
		return err
	}
	h, _, err := openHost(c, false)
	if err != nil {
		return err
	}
	defer closing(h, &err)
	docs := []topicDoc{}
	for _, t := range h.Topics() {
		d := topicDoc{Topic: t.Name, TopicID: t.ID.String(), Newest: t.Newest, Deleted: t.Deleted}
		for _, p := range t.Partitions {
			d.Partitions = append(d.Partitions, newTopicPartitionDoc(p))
		}
		docs = append(docs, d)
	}
	if c.String("output") == "json" {
		err = writeJSON(c.App.Writer, docs)
	} else {
		err = writeTable(c.App.Writer, []string{"PARTITION", "OFFSETS", "HIGH WATERMARK", "LOCAL FROM", "REMOTE", "LOCAL", "NOTE"}, topicRows(docs))
	}
	if err != nil {
		return err
	}
	return wholeHost(h)
}

func newTopicPartitionDoc(p *host.TopicPartition) topicPartitionDoc {
	o := p.Offsets
	d := topicPartitionDoc{Partition: p.ID.Partition, LogStartOffset: o.LogStart, LocalLogStart: o.LocalStart, LastStable: o.LastStableOffset,
		HighWatermark: o.HighWatermark, LogEndOffset: o.LogEnd, Local: p.Local != nil}
	if p.Remote != nil {
		for _, s := range p.Remote.Segments() {
			if s.State == format.CopySegmentFinished {
				d.RemoteSegments++
				d.RemoteBytes += s.SizeBytes
			}
		}
	}
	if p.Local != nil {
		for _, s := range p.Local.Segments() {
			d.LocalSegments++
			d.LocalBytes += s.Size
		}
	}
	return d
}

func topicRows(docs []topicDoc) [][]string {
	var rows [][]string
	for _, t := range docs {
		name, note := t.Topic, ""
		if !t.Newest {
			name, note = t.Topic+"@"+t.TopicID, "an older incarnation"
		}
		if t.Deleted {
			note = "deleted"
		}
		for _, p := range t.Partitions {
			local := "-"
			if p.Local {
				local = fmt.Sprint(p.LocalLogStart)
			}
			rows = append(rows, []string{fmt.Sprintf("%s-%d", name, p.Partition), offsetRange(p.LogStartOffset, p.HighWatermark), fmt.Sprint(p.HighWatermark), local,
				tier(p.RemoteSegments, p.RemoteBytes), tier(p.LocalSegments, p.LocalBytes), p.note(note)})
		}
	}
	return rows
}

// note adds to what is said of the topic what is not shown: a broker that was killed leaves records behind the high watermark that it wrote
// last, and whether its replicas had them is not in its directory.
func (p *topicPartitionDoc) note(topic string) string {
	hidden := p.LogEndOffset - p.HighWatermark
	if hidden <= 0 {
		return topic
	}
	return strings.TrimPrefix(fmt.Sprintf("%s; %s behind the high watermark", topic, count(int(hidden), "offset")), "; ")
}

// offsetRange is the offsets from start to before end, or "empty".
func offsetRange(start, end int64) string {
	if start >= end {
		return "empty"
	}
	return fmt.Sprintf("%d-%d", start, end-1)
}

func tier(segments int, bytes int64) string {
	if segments == 0 {
		return "-"
	}
	return fmt.Sprintf("%s, %s", count(segments, "segment"), trace.Bytes(bytes))
}
