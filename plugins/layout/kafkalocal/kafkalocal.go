// Package kafkalocal knows the names under which Kafka's LocalTieredStorage keeps tiered objects:
//
//	kafka-tiered-storage/<topic>-<partition>-<topic id>/<start, 20 digits>-<segment id><suffix>
//
// It is pure: no I/O, no state. Both directions are strict, so that parsing what was formatted, and formatting what was
// parsed, give the same thing back.
//
// # Errors
//
// A topic that could lead out of its directory is DENIED; any other name that is not of this layout is INVALID.
package kafkalocal

import (
	"strconv"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
)

// Folder is the directory that LocalTieredStorage makes below the one it was configured with.
const Folder = "kafka-tiered-storage"

// maxTopic is Kafka's own limit of a topic's name.
const maxTopic = 249

// uuidLen is the length of an id's text.
const uuidLen = 22

// LogSuffix ends the name of a segment's log.
const LogSuffix = ".log"

var indexSuffixes = [...]string{
	abi.OffsetIndex:      ".index",
	abi.TimeIndex:        ".timeindex",
	abi.ProducerSnapshot: ".snapshot",
	abi.TransactionIndex: ".txnindex",
	abi.LeaderEpochIndex: ".leader_epoch_checkpoint",
}

// IndexSuffix ends the name of an index of this type. It reports false for a type that the layout does not have.
func IndexSuffix(t abi.IndexType) (string, bool) {
	if t <= 0 || int(t) >= len(indexSuffixes) {
		return "", false
	}
	return indexSuffixes[t], true
}

// Dir names a partition's directory.
func Dir(p abi.TopicIDPartition) (string, error) {
	if err := checkTopic(p.Topic); err != nil {
		return "", err
	}
	if p.Partition < 0 {
		return "", abi.Errorf("name", p.String(), abi.Invalid, "the partition %d is negative", p.Partition)
	}
	return p.Topic + "-" + strconv.Itoa(int(p.Partition)) + "-" + p.TopicID.String(), nil
}

// ParseDir reads a partition's directory. A topic may hold '-': the id and the partition are read from the right.
func ParseDir(name string) (abi.TopicIDPartition, error) {
	var p abi.TopicIDPartition
	rest, id, ok := cutRight(name, uuidLen)
	if !ok {
		return p, notOurs(name, "a partition's directory")
	}
	dash := strings.LastIndexByte(rest, '-')
	if dash < 0 {
		return p, notOurs(name, "a partition's directory")
	}
	partition, err := strconv.ParseInt(rest[dash+1:], 10, 32)
	if err != nil {
		return p, notOurs(name, "a partition's directory")
	}
	topicID, err := abi.ParseUUID(id)
	if err != nil {
		return p, notOurs(name, "a partition's directory")
	}
	p = abi.TopicIDPartition{Topic: rest[:dash], TopicID: topicID, Partition: int32(partition)}
	canonical, err := Dir(p)
	switch {
	case err != nil:
		return abi.TopicIDPartition{}, err
	case canonical != name: // "007", "+7", or stray bits in the id's last character
		return abi.TopicIDPartition{}, notOurs(name, "a partition's directory")
	}
	return p, nil
}

// File is one tiered object's name in its partition's directory.
type File struct {
	Start     int64 // the segment's first offset
	SegmentID abi.UUID
	Suffix    string // LogSuffix, or what IndexSuffix gives
}

// Index is the type of index that f names. It reports false for the log.
func (f File) Index() (abi.IndexType, bool) {
	for _, t := range abi.IndexTypes() {
		if indexSuffixes[t] == f.Suffix {
			return t, true
		}
	}
	return 0, false
}

// String is the file's name. Only a File with a Start that is not negative has one.
func (f File) String() string {
	digits := strconv.FormatInt(f.Start, 10)
	return strings.Repeat("0", max(0, 20-len(digits))) + digits + "-" + f.SegmentID.String() + f.Suffix
}

// ParseFile reads the name of a tiered object.
func ParseFile(name string) (File, error) {
	stem, suffix := name, ""
	if dot := strings.IndexByte(name, '.'); dot >= 0 {
		stem, suffix = name[:dot], name[dot:]
	}
	digits, id, ok := cutRight(stem, uuidLen)
	if !ok {
		return File{}, notOurs(name, "a tiered object")
	}
	start, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return File{}, notOurs(name, "a tiered object")
	}
	segmentID, err := abi.ParseUUID(id)
	if err != nil {
		return File{}, notOurs(name, "a tiered object")
	}
	f := File{Start: start, SegmentID: segmentID, Suffix: suffix}
	if _, isIndex := f.Index(); !isIndex && suffix != LogSuffix || start < 0 || f.String() != name {
		return File{}, notOurs(name, "a tiered object")
	}
	return f, nil
}

// LogPath is the path of a segment's log, relative to the tiered storage folder.
func LogPath(seg *abi.SegmentMetadata) (string, error) { return path(seg, LogSuffix) }

// IndexPath is the path of one of a segment's indexes, relative to the tiered storage folder. An error is UNSUPPORTED for
// a type that the layout does not have.
func IndexPath(seg *abi.SegmentMetadata, t abi.IndexType) (string, error) {
	suffix, ok := IndexSuffix(t)
	if !ok {
		return "", abi.Errorf("name", seg.Key(), abi.Unsupported, "the layout kafkalocal has no index of type %v", t)
	}
	return path(seg, suffix)
}

func path(seg *abi.SegmentMetadata, suffix string) (string, error) {
	dir, err := Dir(seg.TopicIDPartition)
	if err != nil {
		return "", err
	}
	if seg.StartOffset < 0 {
		return "", abi.Errorf("name", seg.Key(), abi.Invalid, "the start offset %d is negative", seg.StartOffset)
	}
	return dir + "/" + File{seg.StartOffset, seg.SegmentID, suffix}.String(), nil
}

// checkTopic refuses what would make a path of a topic's name. Kafka allows none of it: names come from its metadata, but
// metadata is data too.
func checkTopic(topic string) error {
	why := ""
	switch {
	case topic == "":
		why = "is empty"
	case len(topic) > maxTopic:
		why = "is longer than 249 bytes"
	case topic == "." || topic == "..":
		why = "is a relative path"
	case strings.ContainsAny(topic, "/\x00"):
		why = "holds a slash or a NUL"
	default:
		return nil
	}
	return abi.Errorf("name", strconv.Quote(topic), abi.Denied, "the topic's name %s", why)
}

// cutRight splits "left-right" where right has n bytes.
func cutRight(s string, n int) (left, right string, ok bool) {
	at := len(s) - n - 1
	if at < 0 || s[at] != '-' {
		return "", "", false
	}
	return s[:at], s[at+1:], true
}

func notOurs(name, what string) error {
	return abi.Errorf("parse", strconv.Quote(name), abi.Invalid, "not the name of %s in the layout kafkalocal", what)
}
