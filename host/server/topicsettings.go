package server

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// No file tells a topic's settings: they are in the metadata of the cluster that wrote it. What is told of them is what holds for
// what is served, and what the data shows. What copies a topic (MirrorMaker 2) gives its copy what it is told, and the defaults of
// another cluster for the rest: seven days of retention, of data that may be years old.
//
//	retention.ms, retention.bytes   -1: nothing is deleted here because it is old, or because it is much
//	remote.storage.enable           true where some partition has remote segments; it can't be copied, since the other cluster may
//	                                have no tiered storage
//	segment.bytes                   the greatest remote segment, where another one of its partition is about as large: then it was
//	                                its size that ended it. At least 1 MiB, Kafka's own least
//	cleanup.policy                  delete where some partition is tiered: Kafka tiers no other topic. compact where offsets are
//	                                missing between the first records of one that is not
//	message.timestamp.type          that of the last batch

const (
	segmentBytesLeast = 1 << 20
	// aboutAsLarge: segments that end because of their size are within a batch of each other.
	aboutAsLarge = 0.9
	// settingsTime is how long it is believed what was found in the data, settingsMax of how many topics, and settingsWait how long
	// a request waits for it all.
	settingsTime = time.Minute
	settingsMax  = 10_000
	settingsWait = 2 * time.Second
	// gapsWithin is the bytes at the begin of a partition that are looked through for offsets that are missing.
	gapsWithin = 256 << 10
)

// setting is one of a topic's.
type setting struct {
	name, value string
	kind        kmsg.ConfigType
	fixed       bool // a client must not take it for its own topic
}

// topicSettings are what was found out of topics. The zero value has none.
type topicSettings struct {
	mu sync.Mutex
	of map[topicID]found
}

type topicID struct {
	name string
	id   abi.UUID
}

type found struct {
	settings []setting
	until    time.Time
}

// settings are those of a topic that are known. ctx bounds what is read for it.
func (s *Server) settings(ctx context.Context, t *host.Topic) []setting {
	now, key := time.Now(), topicID{t.Name, t.ID}
	s.topicSettings.mu.Lock()
	known, ok := s.topicSettings.of[key]
	s.topicSettings.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.settings
	}
	out, whole := s.findSettings(ctx, t)
	if !whole {
		return out
	}
	s.topicSettings.mu.Lock()
	defer s.topicSettings.mu.Unlock()
	if s.topicSettings.of == nil || len(s.topicSettings.of) >= settingsMax {
		s.topicSettings.of = map[topicID]found{}
	}
	s.topicSettings.of[key] = found{out, now.Add(settingsTime)}
	return out
}

// findSettings finds out what is known of a topic's settings; whole: nothing failed for now.
func (s *Server) findSettings(ctx context.Context, t *host.Topic) (out []setting, whole bool) {
	tiered := slices.ContainsFunc(t.Partitions, func(p *host.TopicPartition) bool { return p.Remote != nil })
	out = []setting{
		{"remote.storage.enable", strconv.FormatBool(tiered), kmsg.ConfigTypeBoolean, true},
		{"retention.bytes", "-1", kmsg.ConfigTypeLong, false},
		{"retention.ms", "-1", kmsg.ConfigTypeLong, false},
	}
	if n := segmentBytes(t); n > 0 {
		out = append(out, setting{"segment.bytes", strconv.FormatInt(min(n, math.MaxInt32), 10), kmsg.ConfigTypeInt, false})
	}
	last, ok := s.sample(ctx, t, func(o locality.Offsets) int64 { return o.HighWatermark - 1 }, 1)
	if whole = ok; len(last) > 0 {
		if kind := last[len(last)-1].TimestampType(); kind != format.NoTimestampType {
			out = append(out, setting{"message.timestamp.type", kind.String(), kmsg.ConfigTypeString, false})
		}
	}
	if tiered {
		return append(out, setting{"cleanup.policy", "delete", kmsg.ConfigTypeList, false}), whole
	}
	first, ok := s.sample(ctx, t, func(o locality.Offsets) int64 { return o.LogStart }, gapsWithin)
	if gaps(first) {
		out = append(out, setting{"cleanup.policy", "compact", kmsg.ConfigTypeList, false})
	}
	return out, whole && ok
}

// segmentBytes is what a segment of the topic has at most, as far as its remote segments tell; 0: they don't.
func segmentBytes(t *host.Topic) int64 {
	most := int64(0)
	for _, p := range t.Partitions {
		if p.Remote == nil {
			continue
		}
		var first, second int64
		for seg := range p.Remote.All() {
			if seg.State == format.CopySegmentStarted {
				continue
			}
			if n := seg.SizeBytes; n > first {
				first, second = n, first
			} else {
				second = max(second, n)
			}
		}
		if float64(second) >= aboutAsLarge*float64(first) {
			most = max(most, first)
		}
	}
	if most == 0 {
		return 0
	}
	return max(most, segmentBytesLeast)
}

// sample reads the headers of batches from an offset of the topic's first partition that has records. ok is false where that can't
// be read for now.
func (s *Server) sample(ctx context.Context, t *host.Topic, at func(locality.Offsets) int64, bytes int64) (out []format.BatchHeader, ok bool) {
	i := slices.IndexFunc(t.Partitions, func(p *host.TopicPartition) bool { return p.Offsets.HighWatermark > p.Offsets.LogStart })
	if i < 0 {
		return nil, true
	}
	p := t.Partitions[i]
	data := s.host.Fetch(ctx, &reader.FetchRequest{ID: "settings", Version: 12, ReplicaID: locality.Consumer, MaxBytes: bytes,
		Partitions: []reader.FetchPartition{{Topic: t.Name, TopicID: t.ID, Partition: p.ID.Partition, Offset: at(p.Offsets), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, MaxBytes: bytes}}})
	defer data.Release()
	one := &data.Partitions[0]
	w := format.Walk(one.Records)
	for w.Next() {
		out = append(out, *w.Header())
	}
	return out, one.Code == reader.None && len(out) > 0
}

// gaps reports offsets without a record in batches, or between them: compaction alone leaves such.
func gaps(batches []format.BatchHeader) bool {
	for i := range batches {
		h := &batches[i]
		if h.Count >= 0 && int64(h.Count) != h.LastOffset-h.BaseOffset+1 || i > 0 && h.Magic >= 2 && h.BaseOffset != batches[i-1].LastOffset+1 {
			return true
		}
	}
	return false
}
