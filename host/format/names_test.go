package format

import (
	"math"
	"strings"
	"testing"
)

func TestParsePartitionDir(t *testing.T) {
	tests := []struct {
		name      string
		topic     string // empty: not ok
		partition int32
	}{
		{"clicks-0", "clicks", 0},
		{"clicks-2147483647", "clicks", math.MaxInt32},
		{"we.ird_topic-name.v1-0-1", "we.ird_topic-name.v1-0", 1},
		{"__remote_log_metadata-49", "__remote_log_metadata", 49},
		{"a-delete-3", "a-delete", 3},
		{"--1", "-", 1},
		{strings.Repeat("x", 249) + "-0", strings.Repeat("x", 249), 0},
		{strings.Repeat("x", 250) + "-0", "", 0},
		{"clicks-0.0123456789abcdef0123456789abcdef-delete", "", 0},
		{"clicks-0.0123456789abcdef0123456789abcdef-future", "", 0},
		{"clicks-0.0123456789abcdef0123456789abcdef-stray", "", 0},
		{"remote-log-index-cache", "", 0},
		{"clicks-2147483648", "", 0},
		{"clicks-00", "", 0},
		{"clicks-01", "", 0},
		{"clicks-+1", "", 0},
		{"clicks-", "", 0},
		{"-0", "", 0},
		{".-0", "", 0},
		{"..-0", "", 0},
		{"clicks", "", 0},
		{"cli cks-0", "", 0},
		{"../up-0", "", 0},
		{"", "", 0},
	}
	for _, tt := range tests {
		topic, p, ok := ParsePartitionDir(tt.name)
		if topic != tt.topic || p != tt.partition || ok != (tt.topic != "") {
			t.Errorf("%q: %q, %d, %v", tt.name, topic, p, ok)
		}
	}
}

func TestSegmentFile(t *testing.T) {
	tests := []struct {
		name string
		base int64
		ext  string // empty: not ok
	}{
		{"00000000000000000123.log", 123, ".log"},
		{"00000000000000000000.timeindex", 0, ".timeindex"},
		{"09223372036854775807.snapshot", math.MaxInt64, ".snapshot"},
		{"00000000000000000123.log.deleted", 123, ".log.deleted"},
		{"00000000000000000123.index.cleaned", 123, ".index.cleaned"},
		{"09223372036854775808.log", 0, ""},
		{"99999999999999999999.log", 0, ""},
		{"0000000000000000123.log", 0, ""},
		{"000000000000000000123.log", 0, ""},
		{"+0000000000000000123.log", 0, ""},
		{"-0000000000000000123.log", 0, ""},
		{"0000000000000000012x.log", 0, ""},
		{"00000000000000000123-adGCAPMeQoeyq59yI_POLg.log", 0, ""},
		{"00000000000000000123.", 0, ""},
		{"00000000000000000123", 0, ""},
		{"leader-epoch-checkpoint", 0, ""},
		{"", 0, ""},
	}
	for _, tt := range tests {
		base, ext, ok := ParseSegmentFile(tt.name)
		if base != tt.base || ext != tt.ext || ok != (tt.ext != "") {
			t.Errorf("%q: %d, %q, %v", tt.name, base, ext, ok)
		}
		if ok && SegmentFileName(base, ext) != tt.name {
			t.Errorf("%q comes back as %q", tt.name, SegmentFileName(base, ext))
		}
	}
}
