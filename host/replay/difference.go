package replay

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/reader"
)

// differs names the first field in which two records differ.
func (r *item) differs(o *item) string {
	for _, f := range []struct {
		name  string
		equal bool
	}{
		{"offset", r.Offset == o.Offset},
		{"value", alike(r.Value, o.Value)},
		{"key", alike(r.Key, o.Key)},
		{"headers", slices.EqualFunc(r.Headers, o.Headers, func(a, b format.Header) bool { return a.Key == b.Key && alike(a.Value, b.Value) })},
		{"timestamp", r.Timestamp == o.Timestamp},
		{"timestamp type", r.TimestampType == o.TimestampType},
		{"leader epoch", r.LeaderEpoch == o.LeaderEpoch},
		{"producer id", r.producer == o.producer},
		{"transaction", r.transactional == o.transactional && r.control == o.control},
	} {
		if !f.equal {
			return f.name
		}
	}
	return ""
}

// alike holds null apart from nothing.
func alike(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func (r *item) text() string {
	kind := "offset"
	if r.control {
		kind = "marker at offset"
	}
	text := fmt.Sprintf("%s %d, %s %s, leader epoch %d, key %s, value %s", kind, r.Offset, r.TimestampType, timeText(r.Timestamp), r.LeaderEpoch, shown(r.Key), shown(r.Value))
	for _, h := range r.Headers {
		text += fmt.Sprintf(", header %s=%s", shown([]byte(h.Key)), shown(h.Value))
	}
	if r.producer >= 0 {
		text += fmt.Sprintf(", producer %d", r.producer)
	}
	if r.transactional {
		text += ", transactional"
	}
	return text
}

// shown is bytes for people, bounded.
func shown(b []byte) string {
	const most = 64
	switch {
	case b == nil:
		return "null"
	case len(b) > most:
		return fmt.Sprintf("%s... (%d bytes)", shown(b[:most]), len(b))
	case utf8.Valid(b):
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("0x%x", b)
}

func timeText(ms int64) string {
	if ms < 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func offsetText(a OffsetsAnswer) string {
	if a.ErrorCode != 0 {
		return fmt.Sprintf("%s (%d)", reader.Code(a.ErrorCode), a.ErrorCode)
	}
	text := fmt.Sprintf("offset %d, leader epoch %d", a.Offset, a.LeaderEpoch)
	if a.Timestamp >= 0 {
		text += ", " + timeText(a.Timestamp)
	}
	return text
}

func epochText(e reader.EpochEnd) string {
	if e.Code != reader.None {
		return fmt.Sprintf("%s (%d)", e.Code, e.Code)
	}
	return fmt.Sprintf("leader epoch %d, up to %d", e.LeaderEpoch, e.EndOffset)
}
