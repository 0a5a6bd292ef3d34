package main

import "testing"

// TestTopicNotes: offsets that are there and not shown are told of.
func TestTopicNotes(t *testing.T) {
	for _, tt := range []struct {
		topic     string
		mark, end int64
		want      string
	}{
		{"", 10, 10, ""},
		{"deleted", 10, 10, "deleted"},
		{"", 10, 11, "1 offset behind the high watermark"},
		{"an older incarnation", 10, 193, "an older incarnation; 183 offsets behind the high watermark"},
	} {
		p := topicPartitionDoc{HighWatermark: tt.mark, LogEndOffset: tt.end}
		if got := p.note(tt.topic); got != tt.want {
			t.Errorf("%q, %d of %d: %q, want %q", tt.topic, tt.mark, tt.end, got, tt.want)
		}
	}
}
