package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rsmhost/rsmhost/host/format"
)

// payload is bytes in JSON: {"b64": ...}, or null.
type payload []byte

func (p payload) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		B64 []byte `json:"b64"`
	}{p})
}

type headerDoc struct {
	Key   string  `json:"k"`
	Value payload `json:"v"`
}

// recordDoc is a record in JSON, with the field names of recorded consumers.
type recordDoc struct {
	Topic         string      `json:"topic"`
	Partition     int32       `json:"partition"`
	Offset        int64       `json:"offset"`
	Timestamp     int64       `json:"timestamp"`
	TimestampType string      `json:"timestampType"`
	Key           payload     `json:"key"`
	Value         payload     `json:"value"`
	Headers       []headerDoc `json:"headers"`
	LeaderEpoch   *int32      `json:"leaderEpoch"` // null for records of before there were any
}

func newRecordDoc(topic string, partition int32, r *format.Record) recordDoc {
	d := recordDoc{Topic: topic, Partition: partition, Offset: r.Offset, Timestamp: r.Timestamp, TimestampType: r.TimestampType.String(),
		Key: r.Key, Value: r.Value, Headers: []headerDoc{}}
	for _, h := range r.Headers {
		d.Headers = append(d.Headers, headerDoc{h.Key, h.Value})
	}
	if r.LeaderEpoch >= 0 {
		d.LeaderEpoch = &r.LeaderEpoch
	}
	return d
}

// writeRecordLine writes a record for people: its place, time, key, value, and headers where there are any.
func writeRecordLine(w io.Writer, place string, r *format.Record, keyWidth int) error {
	line := fmt.Sprintf("%8s  %s  %s  %s", place, timestamp(r.Timestamp), pad(printable(r.Key, 24), keyWidth), printable(r.Value, 72))
	for _, h := range r.Headers {
		line += fmt.Sprintf("  %s=%s", printable([]byte(h.Key), 24), printable(h.Value, 24))
	}
	_, err := io.WriteString(w, line+"\n")
	return err
}

func timestamp(ms int64) string {
	if ms < 0 {
		return pad("none", len(timestampForm))
	}
	return time.UnixMilli(ms).UTC().Format(timestampForm)
}

const timestampForm = "2006-01-02T15:04:05.000Z"
