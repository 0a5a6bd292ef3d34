package format

import (
	"fmt"
	"strconv"
	"strings"
)

// segmentDigits is how many digits a base offset has in a file's name.
const segmentDigits = 20

// maxTopicName is Kafka's limit on the length of a topic's name.
const maxTopicName = 249

// ParsePartitionDir reads the name of a partition's directory in a log dir, "<topic>-<partition>". The partition is
// read from the right, for a topic's name may hold dashes and digits. ok is false for anything else, also for the
// directories that Kafka marked: those that end in -delete, -future or -stray.
func ParsePartitionDir(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || !ValidTopic(name[:i]) {
		return "", 0, false
	}
	digits := name[i+1:]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || strconv.FormatInt(n, 10) != digits { // no sign, no leading zeros: one directory, one name
		return "", 0, false
	}
	return name[:i], int32(n), true
}

// ValidTopic is Kafka's rule for the names of topics (its Topic class).
func ValidTopic(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > maxTopicName {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// ParseSegmentFile reads the name of a segment's file, such as "00000000000000000123.log": the base offset in 20
// digits, then ext, all that follows from the dot on, so that one in ".log.deleted" is not taken for a log. The number
// of a .snapshot is the offset after the last that it covers.
func ParseSegmentFile(name string) (base int64, ext string, ok bool) {
	if len(name) < segmentDigits+2 || name[segmentDigits] != '.' {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:segmentDigits], 10, 63) // unsigned: takes no sign
	if err != nil {
		return 0, "", false
	}
	return int64(n), name[segmentDigits:], true
}

// SegmentFileName is the inverse of ParseSegmentFile; ext has the dot.
func SegmentFileName(base int64, ext string) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, base, ext)
}
