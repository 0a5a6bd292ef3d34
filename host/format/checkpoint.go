package format

import (
	"math"
	"strconv"
	"strings"
)

// CheckpointKey names a partition in an offset checkpoint, which knows no topic ids.
type CheckpointKey struct {
	Topic     string
	Partition int32
}

// ParseOffsetCheckpoint reads the files that keep an offset for each partition of a log dir (Kafka's
// OffsetCheckpointFile): replication-offset-checkpoint (the high watermarks), log-start-offset-checkpoint and
// recovery-point-offset-checkpoint. An empty file has no entries.
// A version other than 0 is UNSUPPORTED; anything malformed, a wrong count or two entries for a partition included, is CORRUPT.
func ParseOffsetCheckpoint(b []byte) (map[CheckpointKey]int64, error) {
	const what = "offset checkpoint"
	m := make(map[CheckpointKey]int64)
	err := parseCheckpoint(what, b, func(line int, f []string) error {
		if len(f) != 3 {
			return corrupt(what, "line %d has %d fields, not topic, partition and offset", line, len(f))
		}
		p, ok := parseNumber(f[1], math.MaxInt32)
		o, ok2 := parseNumber(f[2], math.MaxInt64)
		if !ok || !ok2 {
			return corrupt(what, "line %d: %q %q are no partition and offset", line, f[1], f[2])
		}
		key := CheckpointKey{f[0], int32(p)}
		if _, twice := m[key]; twice {
			return corrupt(what, "line %d: %s-%d is in it twice", line, f[0], p)
		}
		m[key] = o
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// parseCheckpoint reads the form that Kafka's CheckpointFile gives all of them, and hands on the fields of each entry:
//
//	0            version
//	2            number of entries
//	0 100        entries, one a line
//	3 250
func parseCheckpoint(what string, b []byte, entry func(line int, fields []string) error) error {
	if len(b) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if err := checkVersion(what, strings.TrimSpace(lines[0])); err != nil {
		return err
	}
	if len(lines) < 2 {
		return corrupt(what, "it ends after the version")
	}
	n, ok := parseNumber(strings.TrimSpace(lines[1]), math.MaxInt32)
	if !ok {
		return corrupt(what, "line 2: %q is no number of entries", lines[1])
	}
	if got := int64(len(lines) - 2); got != n {
		return corrupt(what, "line 2 announces %d entries, there are %d", n, got)
	}
	for i, l := range lines[2:] {
		if err := entry(i+3, strings.Fields(l)); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion demands version 0.
func checkVersion(what, s string) error {
	switch v, err := strconv.ParseInt(s, 10, 32); {
	case err != nil:
		return corrupt(what, "line 1: %q is no version", s)
	case v != 0:
		return unsupported(what, "it has version %d, only 0 is known", v)
	}
	return nil
}

// parseNumber reads a decimal from 0 to limit.
func parseNumber(s string, limit int64) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && v >= 0 && v <= limit
}
