package host

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/offsetstopic"
)

// maxLostOffsets bounds what the offsets of one partition of __consumer_offsets take in memory while they are read.
const maxLostOffsets = 64 << 20

// LostOffsets is what consumer groups committed at the broker of the log directories, as one partition of its
// __consumer_offsets has it.
type LostOffsets struct {
	Source  string // names the partition and its cluster, the same at each start
	End     int64  // exclusive: its records were read up to here
	Commits []offsetstopic.Commit
}

// EachLostOffsets calls visit with the partitions of __consumer_offsets that lie in a log directory, by number. taken gives the
// end up to which a source was read before: records below it are not given again, and a partition without others is passed
// over. What can't be read of a partition is a finding, which Findings has from then on. An error is visit's, or that of ctx.
func (h *Host) EachLostOffsets(ctx context.Context, taken func(source string) int64, visit func(*LostOffsets) error) error {
	t, _, err := h.catalog.Load().topic(offsetstopic.Name, abi.UUID{})
	if err != nil {
		return nil // there is none
	}
	for _, p := range t.Partitions {
		if p.Local == nil {
			continue
		}
		one := &LostOffsets{Source: h.sourceOf(p.Local), End: p.Local.LogEnd}
		from := taken(one.Source)
		if from >= one.End {
			continue
		}
		if one.Commits, err = h.readLostOffsets(ctx, p.Local, from); err != nil {
			return err
		}
		h.tellBeyond(one.Commits)
		if err := visit(one); err != nil {
			return err
		}
	}
	return nil
}

// tellBeyond says which offsets lie behind the end of their logs: records that were there once are not here. Their groups begin
// where their clients' auto.offset.reset says, as at a broker.
func (h *Host) tellBeyond(all []offsetstopic.Commit) {
	c := h.catalog.Load()
	for i := range all {
		o := &all[i]
		t, _, err := c.topic(o.Topic, o.TopicID)
		if err != nil || !t.Visible() {
			continue
		}
		if p := t.find(o.Partition); p != nil && o.Offset > p.Offsets.LogEnd {
			h.foundByRead(finding.Of(p.ID, p.Offsets.LogEnd, "the log ends here, and group %q had committed offset %d: it begins where its client's auto.offset.reset says", o.Group, o.Offset))
		}
	}
}

// sourceOf names a partition of a cluster's topic; where nothing tells the cluster, or the topic's id, by its directory.
func (h *Host) sourceOf(l *locallog.Log) string {
	cluster := h.ClusterID()
	if cluster == "" {
		cluster = filepath.Dir(l.Path)
	}
	return fmt.Sprintf("%s/%s-%d", cluster, l.ID.Topic, l.ID.Partition)
}

// readLostOffsets reads a partition's log, as far as it can be read.
func (h *Host) readLostOffsets(ctx context.Context, l *locallog.Log, from int64) ([]offsetstopic.Commit, error) {
	s := offsetstopic.New(maxLostOffsets)
	tell := func(offset int64, format string, args ...any) {
		f := finding.Of(l.ID, offset, format, args...)
		f.Path = l.Path
		h.foundByRead(f)
	}
	for _, segment := range l.Segments() {
		next := segment.Base
		err := segment.Visit(segment.Base, func(b *locallog.Batch) (stop bool, err error) {
			if err := ctx.Err(); err != nil {
				return true, err
			}
			bytes, err := b.Bytes()
			if err == nil {
				err = s.Batch(&b.BatchHeader, bytes)
			}
			if err != nil {
				tell(next, "a batch of committed offsets can't be read and is left out, older ones may stand in their place: %v", err)
			}
			next = b.LastOffset + 1
			return false, nil
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			tell(next, "committed offsets can't be read from here to the end of %s, older ones may stand in their place: %v", filepath.Base(segment.Path()), err)
		}
	}
	if n := s.Strange(); n > 0 {
		tell(finding.Unknown, "%d records are of no kind that is known here: what they say about committed offsets is left out", n)
	}
	if s.Full() {
		tell(finding.Unknown, "there are more committed offsets than %d bytes: some are left out", maxLostOffsets)
	}
	return s.Commits(from), nil
}
