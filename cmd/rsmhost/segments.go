package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/trace"
)

func segmentsCommand() *cli.Command {
	return &cli.Command{
		Name:  "segments",
		Usage: "a partition as it lies: remote, local, overlap, gaps, superseded uploads, epochs, states",
		Description: `Needs no plugin. Exit status 1 where offsets between the log start and the local tier lie in no
finished segment. Events of the metadata that a state does not allow are named: Kafka drops them too.`,
		Flags: withConfig(topicFlag(), partitionFlag("all"),
			outputFlag("table", "json")),
		Action: segmentsAction,
	}
}

type segmentsDoc struct {
	Topic     string       `json:"topic"`
	TopicID   string       `json:"topicId"`
	Partition int32        `json:"partition"`
	LogStart  int64        `json:"logStartOffset"`
	Local     int64        `json:"localLogStartOffset"`
	LogEnd    int64        `json:"logEndOffset"`
	Remote    []remoteDoc  `json:"remote"`
	LocalSegs []localDoc   `json:"local"`
	Gaps      []offsetsDoc `json:"gaps"`
	Overlap   *offsetsDoc  `json:"overlap"`
	Dropped   int          `json:"droppedEvents"` // of the metadata topic
	Why       []string     `json:"droppedWhy"`    // of the first few
}

type remoteDoc struct {
	SegmentID  string     `json:"segmentId"`
	Start      int64      `json:"startOffset"`
	End        int64      `json:"endOffset"`
	Size       int64      `json:"sizeInBytes"`
	State      string     `json:"state"`
	Superseded bool       `json:"superseded"`
	TxnEmpty   bool       `json:"txnIdxEmpty"`
	BrokerID   int32      `json:"brokerId"`
	EventMs    int64      `json:"eventTimestampMs"`
	Epochs     []epochDoc `json:"leaderEpochs"`
}

type epochDoc struct {
	Epoch int32 `json:"epoch"`
	Start int64 `json:"startOffset"`
}

type localDoc struct {
	Base int64 `json:"baseOffset"`
	Next int64 `json:"nextOffset"`
	Size int64 `json:"sizeInBytes"`
}

// offsetsDoc is a range of offsets, both ends inclusive.
type offsetsDoc struct {
	Start int64 `json:"startOffset"`
	End   int64 `json:"endOffset"`
}

func segmentsAction(c *cli.Context) error {
	return onTopic(c, false, func(h *host.Host, t *host.Topic, numbers []int32) error {
		docs := []segmentsDoc{}
		for _, n := range numbers {
			i := slices.IndexFunc(t.Partitions, func(p *host.TopicPartition) bool { return p.ID.Partition == n })
			if i < 0 {
				_, err := h.Partition(c.Context, t, n)
				return statusOne{err}
			}
			docs = append(docs, newSegmentsDoc(t.Partitions[i]))
		}
		return writeSegments(c, docs)
	})
}

func writeSegments(c *cli.Context, docs []segmentsDoc) error {
	if c.String("output") == "json" {
		if err := writeJSON(c.App.Writer, docs); err != nil {
			return err
		}
	}
	gaps := 0
	for i := range docs {
		gaps += len(docs[i].Gaps)
		if c.String("output") == "json" {
			continue
		}
		if err := docs[i].write(c.App.Writer); err != nil {
			return err
		}
	}
	if gaps > 0 {
		return statusOne{abi.Errorf("segments", c.String("topic"), abi.NotFound, "%s in the remote tier", count(gaps, "gap"))}
	}
	return nil
}

func newSegmentsDoc(p *host.TopicPartition) segmentsDoc {
	o := p.Offsets
	d := segmentsDoc{Topic: p.ID.Topic, TopicID: p.ID.TopicID.String(), Partition: p.ID.Partition, LogStart: o.LogStart, Local: o.LocalStart,
		LogEnd: o.LogEnd, Remote: []remoteDoc{}, LocalSegs: []localDoc{}, Gaps: []offsetsDoc{}, Why: []string{}}
	if p.Remote != nil {
		drops := p.Remote.Dropped()
		d.Dropped, d.Why = drops.Count, append([]string{}, drops.First...)
		for _, s := range p.Remote.Segments() {
			r := remoteDoc{SegmentID: s.SegmentID.String(), Start: s.StartOffset, End: s.EndOffset, Size: s.SizeBytes, State: s.State.String(),
				TxnEmpty: s.TxnIndexEmpty, BrokerID: s.BrokerID, EventMs: s.EventTimestampMs,
				Superseded: s.State == format.CopySegmentFinished && !p.Remote.Reachable(s)}
			for _, e := range s.LeaderEpochs {
				r.Epochs = append(r.Epochs, epochDoc{e.Epoch, e.StartOffset})
			}
			d.Remote = append(d.Remote, r)
		}
	}
	if p.Local != nil {
		segs := p.Local.Segments()
		for i, s := range segs {
			next := p.Local.LogEnd
			if i+1 < len(segs) {
				next = segs[i+1].Base
			}
			d.LocalSegs = append(d.LocalSegs, localDoc{s.Base, next, s.Size})
		}
	}
	d.findGaps(o)
	return d
}

// findGaps finds the offsets below the local tier that no finished segment covers, and those that both tiers have.
func (d *segmentsDoc) findGaps(o locality.Offsets) {
	at := o.LogStart
	for _, r := range d.Remote { // by start offset
		if r.State != format.CopySegmentFinished.String() || r.Superseded {
			continue
		}
		if r.Start > at {
			d.gap(at, min(r.Start, o.LocalStart))
		}
		at = max(at, r.End+1)
	}
	if o.Remote {
		d.gap(at, o.LocalStart)
	}
	if o.LocalBase >= 0 && at > o.LocalBase {
		d.Overlap = &offsetsDoc{max(o.LocalBase, o.LogStart), at - 1}
	}
}

func (d *segmentsDoc) gap(from, to int64) {
	if from < to {
		d.Gaps = append(d.Gaps, offsetsDoc{from, to - 1})
	}
}

func (d *segmentsDoc) write(w io.Writer) error {
	fmt.Fprintf(w, "%s-%d   topic id %s, %s\n\n", d.Topic, d.Partition, d.TopicID, d.offsets())
	d.picture(w)
	var rows [][]string
	for _, r := range d.Remote {
		rows = append(rows, []string{"  remote", fmt.Sprintf("%d-%d", r.Start, r.End), trace.Bytes(r.Size), r.note(), epochsText(r.Epochs), r.SegmentID})
	}
	for i, l := range d.LocalSegs {
		note := ""
		if i == len(d.LocalSegs)-1 {
			note = "active"
		}
		rows = append(rows, []string{"  local", offsetRange(l.Base, l.Next), trace.Bytes(l.Size), note, "", format.SegmentFileName(l.Base, ".log")})
	}
	if err := writeTable(w, []string{"  TIER", "OFFSETS", "SIZE", "STATE", "EPOCHS", "ID OR FILE"}, rows); err != nil {
		return err
	}
	for _, g := range d.Gaps {
		fmt.Fprintf(w, "  gap: offsets %d-%d lie in no finished segment\n", g.Start, g.End)
	}
	if d.Overlap != nil {
		fmt.Fprintf(w, "  overlap: offsets %d-%d lie in both tiers, and are read locally\n", d.Overlap.Start, d.Overlap.End)
	}
	for i, why := range d.Why {
		fmt.Fprintf(w, "  dropped: %s%s\n", why, more(i, len(d.Why), d.Dropped))
	}
	_, err := fmt.Fprintln(w)
	return err
}

// more says behind the last of n that are shown how many there are besides.
func more(i, n, all int) string {
	if i+1 < n || n == all {
		return ""
	}
	return fmt.Sprintf(", and %d more", all-n)
}

func (d *segmentsDoc) offsets() string {
	if d.LogStart >= d.LogEnd {
		return fmt.Sprintf("empty, begins at %d", d.LogStart)
	}
	return "offsets " + offsetRange(d.LogStart, d.LogEnd)
}

func (r *remoteDoc) note() string {
	switch {
	case r.Superseded:
		return "superseded"
	case r.State == format.CopySegmentFinished.String():
		return "finished"
	}
	return r.State
}

func epochsText(epochs []epochDoc) string {
	var out []string
	for _, e := range epochs {
		out = append(out, fmt.Sprintf("%d from %d", e.Epoch, e.Start))
	}
	return strings.Join(out, ", ")
}

// pictureWidth is how many cells the picture has for the partition's offsets.
const pictureWidth = 72

// picture draws which offsets lie where, a cell a stretch of offsets:
//
//	remote  ████████████████████████
//	local                 ██████████
func (d *segmentsDoc) picture(w io.Writer) {
	if d.LogEnd <= d.LogStart {
		return
	}
	remote, unusable, local := d.row(), d.row(), d.row()
	for _, r := range d.Remote {
		if r.State == format.CopySegmentFinished.String() && !r.Superseded {
			d.fill(remote, r.Start, r.End, '█')
		} else {
			d.fill(unusable, r.Start, r.End, '░')
		}
	}
	for _, l := range d.LocalSegs {
		d.fill(local, l.Base, l.Next-1, '█')
	}
	for _, g := range d.Gaps {
		d.fill(remote, g.Start, g.End, '×')
	}
	fmt.Fprintf(w, "          %-*d%*d\n", pictureWidth/2, d.LogStart, pictureWidth/2, d.LogEnd-1)
	for _, line := range []struct {
		name  string
		cells []rune
	}{{"remote", remote}, {"unusable", unusable}, {"local", local}} {
		if text := strings.TrimRight(string(line.cells), " "); text != "" {
			fmt.Fprintf(w, "  %-8s%s\n", line.name, text)
		}
	}
	fmt.Fprintln(w)
}

func (d *segmentsDoc) row() []rune { return []rune(strings.Repeat(" ", pictureWidth)) }

// fill marks the cells of offsets from to to, inclusive, as far as they lie in the log.
func (d *segmentsDoc) fill(cells []rune, from, to int64, mark rune) {
	from, to = max(from, d.LogStart), min(to, d.LogEnd-1)
	if from > to {
		return
	}
	span := d.LogEnd - d.LogStart
	for i := (from - d.LogStart) * pictureWidth / span; i <= (to-d.LogStart)*pictureWidth/span; i++ {
		cells[i] = mark
	}
}
