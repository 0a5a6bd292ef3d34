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

// text is a record for people. What is long is shown from where it begins to differ from other's; other may be nil.
func (r *item) text(other *item) string {
	if other == nil {
		other = r
	}
	kind := "offset"
	if r.control {
		kind = "marker at offset"
	}
	text := fmt.Sprintf("%s %d, %s %s, leader epoch %d, key %s, value %s", kind, r.Offset, r.TimestampType, timeText(r.Timestamp), r.LeaderEpoch,
		shown(r.Key, other.Key), shown(r.Value, other.Value))
	for i, h := range r.Headers {
		beside := h
		if i < len(other.Headers) {
			beside = other.Headers[i]
		}
		text += fmt.Sprintf(", header %s=%s", shown([]byte(h.Key), []byte(beside.Key)), shown(h.Value, beside.Value))
	}
	if r.producer >= 0 {
		text += fmt.Sprintf(", producer %d", r.producer)
	}
	if r.transactional {
		text += ", transactional"
	}
	return text
}

const (
	shownMost   = 64 // bytes of a key, a value or a header
	shownBefore = 16 // of them: equal ones, before the first that differs
)

// shown is bytes for people, bounded. Where they differ from other's is among what is shown, else a difference far behind
// would read as two equal lines.
func shown(b, other []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) <= shownMost:
		return quoted(b)
	}
	from := 0
	if at := firstDifference(b, other); at >= shownMost {
		from = min(at-shownBefore, len(b)-shownMost)
		for i := 1; i < utf8.UTFMax && !utf8.RuneStart(b[from]); i++ { // a text is not cut within a character
			from++
		}
	}
	part := b[from:min(from+shownMost, len(b))]
	if whole := wholeRunes(part); utf8.Valid(whole) {
		part = whole
	}
	switch {
	case from == 0:
		return fmt.Sprintf("%s... (%d bytes)", quoted(part), len(b))
	case from+len(part) == len(b):
		return fmt.Sprintf("...%s (%d bytes, from byte %d)", quoted(part), len(b), from)
	}
	return fmt.Sprintf("...%s... (%d bytes, from byte %d)", quoted(part), len(b), from)
}

// firstDifference is where a and b begin to differ, which may be the end of the shorter; -1: nowhere.
func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}

// wholeRunes is b without a character at its end that is cut.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

func quoted(b []byte) string {
	if utf8.Valid(b) {
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
