package locallog

import (
	"cmp"
	"slices"
)

// Checkpointed is a partition of which a directory's checkpoint knows the high watermark.
type Checkpointed struct {
	Topic         string
	Partition     int32
	HighWatermark int64 // exclusive
}

// Checkpointed gives the partitions that the checkpoint of high watermarks knows, those without a log too, by topic and number.
func (d *Dir) Checkpointed() []Checkpointed {
	var all []Checkpointed
	for key, end := range d.highWatermark {
		all = append(all, Checkpointed{key.Topic, key.Partition, end})
	}
	slices.SortFunc(all, func(a, b Checkpointed) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}
