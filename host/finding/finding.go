// Package finding is what a part of the program knows to be wrong or missing in what it reads, where that is no reason to
// fail: a list that people see on stderr, in `rsmhost topics` and in an exit status, instead of a wrong answer in silence.
//
// # Concurrency
//
// A Finding is a value. A List is safe for concurrent use.
package finding

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
)

// Unknown is the Partition and the Offset of a finding that concerns no single one.
const Unknown = -1

// Finding is one thing that is wrong or missing. It is comparable: the same finding that is met twice is equal to itself.
type Finding struct {
	Topic     string // empty: not one topic's
	Partition int32  // Unknown: not one partition's
	Path      string // the file or directory; empty: none
	Offset    int64  // the first offset that is concerned; Unknown: none is known
	What      string // one sentence, for the person who must act
	// Repaired: what is read is right all the same, such as an index that was rebuilt from the data. It is told, and no
	// command ends with another status because of it.
	Repaired bool
}

// At is a finding about a file or directory.
func At(path, format string, args ...any) Finding {
	return Finding{Partition: Unknown, Path: path, Offset: Unknown, What: fmt.Sprintf(format, args...)}
}

// Of is a finding about a partition.
func Of(id abi.TopicIDPartition, offset int64, format string, args ...any) Finding {
	return Finding{Topic: id.Topic, Partition: id.Partition, Offset: offset, What: fmt.Sprintf(format, args...)}
}

// Concerns reports whether the finding is about this partition, or about nothing that is narrower: metadata of which a
// part is lost may have been about any.
func (f Finding) Concerns(topic string, partition int32) bool {
	return (f.Topic == "" || f.Topic == topic) && (f.Partition == Unknown || f.Partition == partition)
}

// String is the finding with what it is about, on one line.
func (f Finding) String() string {
	var about []string
	switch {
	case f.Topic != "" && f.Partition != Unknown:
		about = append(about, fmt.Sprintf("%s-%d", f.Topic, f.Partition))
	case f.Topic != "":
		about = append(about, f.Topic)
	}
	if f.Offset != Unknown {
		about = append(about, fmt.Sprintf("offset %d", f.Offset))
	}
	if f.Path != "" {
		about = append(about, f.Path)
	}
	if len(about) == 0 {
		return f.What
	}
	return strings.Join(about, ", ") + ": " + f.What
}

// maxList bounds a List.
const maxList = 1000

// List is findings that come while the program runs, each once. The zero value is empty. More than a thousand are counted
// and not kept.
type List struct {
	mu    sync.Mutex
	known map[Finding]bool
	all   []Finding
	more  int
}

// Add keeps a finding and reports whether it is new.
func (l *List) Add(f Finding) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[f] {
		return false
	}
	if len(l.all) >= maxList {
		l.more++
		return false
	}
	if l.known == nil {
		l.known = map[Finding]bool{}
	}
	l.known[f] = true
	l.all = append(l.all, f)
	return true
}

// All gives the findings in the order in which they came, and how many were not kept.
func (l *List) All() (kept []Finding, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Finding(nil), l.all...), l.more
}
