package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/config"
	"github.com/rsmhost/rsmhost/host/coordinator"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/offsetstopic"
	"github.com/rsmhost/rsmhost/host/server"
)

func groupsCommand() *cli.Command {
	return &cli.Command{
		Name:  "groups",
		Usage: "what consumer groups committed: offsets, and how far behind the log's end they are",
		Description: `Shows the offsets of the state directory, and those of __consumer_offsets in the log directories that
serve will take up when it starts: each partition of it once, and nothing in place of a commit at serve.
Needs no plugin, changes nothing, and may run beside serve.

   rsmhost groups --config rsmhost.yaml
   rsmhost groups -g checkout -o json --config rsmhost.yaml`,
		Flags: withConfig(&cli.StringFlag{Name: "group", Aliases: []string{"g"}, Usage: "the `NAME` of one group (default: all)"},
			outputFlag("table", "json")),
		Action: groupsAction,
	}
}

type groupDoc struct {
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	TopicID     string `json:"topicId,omitempty"` // empty: not known
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	LogEnd      *int64 `json:"logEndOffset"` // null: the partition is not served
	Lag         *int64 `json:"lag"`
	Metadata    string `json:"metadata"`
	CommittedMs int64  `json:"committedMs"`
	TakenUp     bool   `json:"takenUp"` // false: serve will take it up when it starts
	Note        string `json:"note,omitempty"`
	here        bool   // a client committed it at serve
}

func groupsAction(c *cli.Context) (err error) {
	if err := noArgs(c); err != nil {
		return err
	}
	state := ""
	h, _, err := openAdjusted(c, func(cfg *host.Config, _ *config.Config) {
		cfg.RefreshInterval, cfg.Plugin = 0, ""
		state, cfg.StateDir = cfg.StateDir, "" // serve may have it
	})
	if err != nil {
		return err
	}
	defer closing(h, &err)
	all, damage, err := committedOffsets(c.Context, h, state)
	if err != nil {
		return err
	}
	docs := []groupDoc{}
	for _, d := range all {
		if name := c.String("group"); name == "" || d.Group == name {
			d.place(h)
			docs = append(docs, d)
		}
	}
	if c.String("output") == "json" {
		err = writeJSON(c.App.Writer, docs)
	} else {
		err = writeTable(c.App.Writer, []string{"GROUP", "PARTITION", "OFFSET", "LOG END", "LAG", "NOTE"}, groupRows(docs))
	}
	switch {
	case err != nil:
		return err
	case damage != "":
		return statusOne{fmt.Errorf("what was read is not whole: %s", damage)}
	}
	return findingsError(h.Findings(), func(f finding.Finding) bool {
		return f.Topic == offsetstopic.Name || slices.ContainsFunc(docs, func(d groupDoc) bool { return f.Concerns(d.Topic, d.Partition) })
	})
}

// committedOffsets is what a state directory holds, and what will be taken up into it, by group, topic and partition.
func committedOffsets(ctx context.Context, h *host.Host, state string) (docs []groupDoc, damage string, err error) {
	kept := &coordinator.Kept{}
	if state != "" {
		if kept, err = coordinator.ReadKept(filepath.Join(state, groupsName)); err != nil {
			return nil, "", err
		}
	}
	for _, o := range kept.Each {
		docs = append(docs, newGroupDoc(&o, true))
	}
	err = h.EachLostOffsets(ctx, func(source string) int64 { return kept.Sources[source] }, func(l *host.LostOffsets) error {
		for _, o := range server.LostOffsets(l).Each {
			docs = append(docs, newGroupDoc(&o, false))
		}
		return nil
	})
	slices.SortStableFunc(docs, func(a, b groupDoc) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), first(a.here, b.here), cmp.Compare(b.CommittedMs, a.CommittedMs))
	})
	return slices.CompactFunc(docs, superseded), kept.Damage, err
}

// first orders what is before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// superseded reports an offset of the partition of the one before it, which takes its place.
func superseded(stands, other groupDoc) bool {
	return stands.Group == other.Group && stands.Topic == other.Topic && stands.Partition == other.Partition &&
		(stands.TopicID == other.TopicID || stands.TopicID == "" || other.TopicID == "")
}

func newGroupDoc(o *coordinator.Offset, takenUp bool) groupDoc {
	d := groupDoc{Group: o.Group, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
		CommittedMs: o.At, TakenUp: takenUp, here: o.Here}
	if !o.TopicID.IsZero() {
		d.TopicID = o.TopicID.String()
	}
	return d
}

// place finds the partition of an offset, and says what will become of a member that begins there.
func (d *groupDoc) place(h *host.Host) {
	var notes []string
	if !d.TakenUp {
		notes = append(notes, "not taken up yet")
	}
	switch p, note := d.partition(h); {
	case p == nil:
		notes = append(notes, note)
	default:
		end := p.Offsets.HighWatermark
		lag := end - d.Offset
		d.LogEnd, d.Lag = &end, &lag
		switch {
		case d.Offset > p.Offsets.LogEnd:
			notes = append(notes, "beyond the log's end: clients do what auto.offset.reset says")
		case d.Offset < p.Offsets.LogStart:
			notes = append(notes, fmt.Sprintf("before the log's start at %d: clients do what auto.offset.reset says", p.Offsets.LogStart))
		}
	}
	d.Note = strings.Join(notes, "; ")
}

// partition is that of an offset; nil: it is not served, and the note says why.
func (d *groupDoc) partition(h *host.Host) (p *host.TopicPartition, note string) {
	t, err := h.Topic(d.Topic)
	switch {
	case err != nil || !t.Visible():
		return nil, "the topic is not served"
	case d.TopicID != "" && d.TopicID != t.ID.String():
		return nil, "of another topic of this name, which is not served"
	}
	for _, p := range t.Partitions {
		if p.ID.Partition == d.Partition {
			return p, ""
		}
	}
	return nil, "the partition is not served"
}

func groupRows(docs []groupDoc) [][]string {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	var rows [][]string
	for _, d := range docs {
		rows = append(rows, []string{named(d.Group), fmt.Sprintf("%s-%d", named(d.Topic), d.Partition), fmt.Sprint(d.Offset), number(d.LogEnd), number(d.Lag), d.Note})
	}
	return rows
}

// named is a name as it stands, or quoted where it would do something to a terminal: clients choose it.
func named(name string) string {
	if quoted := fmt.Sprintf("%q", name); quoted != `"`+name+`"` || name == "" {
		return quoted
	}
	return name
}
