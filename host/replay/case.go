package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// Case is one recorded request with its answer. Exactly one of Fetch, Offsets and Epoch is set.
type Case struct {
	File    string
	Line    int
	Note    string
	Fetch   *FetchCase
	Offsets *OffsetsCase
	Epoch   *EpochCase
}

// FetchCase is a recorded Fetch.
type FetchCase struct {
	Request  Request  `json:"request"`
	Response Response `json:"response"`
}

// Name names the case for people.
func (c *Case) Name() string {
	if c.Note == "" {
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	return fmt.Sprintf("%s:%d (%s)", c.File, c.Line, c.Note)
}

// Request is a recorded Fetch request.
type Request struct {
	Version    int16              `json:"version"`
	Isolation  locality.Isolation `json:"isolation"`
	MaxBytes   int64              `json:"maxBytes"`
	MinBytes   int64              `json:"minBytes"`
	MaxWait    int64              `json:"maxWait"` // ms
	ReplicaID  *int32             `json:"replicaId,omitempty"`
	Partitions []RequestPartition `json:"partitions"`
}

// RequestPartition is a partition of a Request.
type RequestPartition struct {
	Topic              string `json:"topic"`
	TopicID            string `json:"topicId,omitempty"` // a wrong one, sent on purpose
	Partition          int32  `json:"partition"`
	FetchOffset        int64  `json:"fetchOffset"`
	CurrentLeaderEpoch *int32 `json:"currentLeaderEpoch,omitempty"`
	LastFetchedEpoch   *int32 `json:"lastFetchedEpoch,omitempty"`
	PartitionMaxBytes  int64  `json:"partitionMaxBytes"`
}

// Response is a recorded answer.
type Response struct {
	ErrorCode  int16               `json:"errorCode"`
	Partitions []ResponsePartition `json:"partitions"`
}

// ResponsePartition is a partition of a Response.
type ResponsePartition struct {
	Topic                string    `json:"topic"`
	Partition            int32     `json:"partition"`
	ErrorCode            int16     `json:"errorCode"`
	HighWatermark        int64     `json:"highWatermark"`
	LastStableOffset     int64     `json:"lastStableOffset"`
	LogStartOffset       int64     `json:"logStartOffset"`
	AbortedTransactions  []Aborted `json:"abortedTransactions"`
	DivergingEpoch       *EpochEnd `json:"divergingEpoch"`
	CurrentLeader        *Leader   `json:"currentLeader,omitempty"`
	RecordsLength        int64     `json:"recordsLength"`
	RecordsSha256        string    `json:"recordsSha256,omitempty"`
	FirstBatchBaseOffset *int64    `json:"firstBatchBaseOffset,omitempty"`
	LastBatchLastOffset  *int64    `json:"lastBatchLastOffset,omitempty"`
	CompleteBatches      *int64    `json:"completeBatches,omitempty"`
	TrailingBytes        *int64    `json:"trailingBytes,omitempty"`
}

// Aborted is an aborted transaction of an answer.
type Aborted struct {
	ProducerID  int64 `json:"producerId"`
	FirstOffset int64 `json:"firstOffset"`
}

// EpochEnd is a diverging epoch.
type EpochEnd struct {
	Epoch     int32 `json:"epoch"`
	EndOffset int64 `json:"endOffset"`
}

// Leader is who leads, for a fenced client.
type Leader struct {
	LeaderID    int32 `json:"leaderId"`
	LeaderEpoch int32 `json:"leaderEpoch"`
}

// Scanner reads the cases of one file.
type Scanner struct {
	file string
	r    *bufio.Reader
	line int
}

// NewScanner reads cases from r; file names it in errors and cases.
func NewScanner(file string, r io.Reader) *Scanner {
	return &Scanner{file: file, r: bufio.NewReaderSize(r, 1<<20)}
}

// Next gives the next case, and io.EOF after the last.
func (s *Scanner) Next() (*Case, error) {
	for {
		line, err := s.r.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return nil, err
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, abi.E("read", s.file, abi.FileKind(err), err)
		}
		s.line++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return s.parse(line)
		}
	}
}

func (s *Scanner) parse(line []byte) (*Case, error) {
	subject := fmt.Sprintf("%s:%d", s.file, s.line)
	var head struct {
		Note     string
		Request  map[string]json.RawMessage
		Response map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, abi.Errorf("read case", subject, abi.Invalid, "not a JSON object with a request and a response: %w", err)
	}
	if head.Request == nil || head.Response == nil {
		return nil, abi.Errorf("read case", subject, abi.Invalid, "a case has the fields request and response")
	}
	c := &Case{File: s.file, Line: s.line, Note: head.Note}
	var body any
	switch {
	case head.Request["partitions"] != nil:
		c.Fetch = &FetchCase{}
		body = c.Fetch
	case head.Request["timestamp"] != nil:
		c.Offsets = &OffsetsCase{}
		body = c.Offsets
	case head.Request["leaderEpoch"] != nil:
		c.Epoch = &EpochCase{}
		body = c.Epoch
	default:
		return nil, abi.Errorf("read case", subject, abi.Unsupported,
			"not a Fetch (partitions), ListOffsets (timestamp) or OffsetForLeaderEpoch (leaderEpoch) case")
	}
	if err := json.Unmarshal(line, body); err != nil {
		return nil, abi.Errorf("read case", subject, abi.Invalid, "%w", err)
	}
	if f := c.Fetch; f != nil && len(f.Request.Partitions) == 0 {
		return nil, abi.Errorf("read case", subject, abi.Invalid, "the request asks for no partition: nothing would be compared")
	}
	if f := c.Fetch; f != nil && f.Response.ErrorCode == 0 { // else nothing is answered of partitions
		if err := f.answersAll(); err != nil {
			return nil, abi.E("read case", subject, abi.Invalid, err)
		}
	}
	return c, nil
}

// answersAll holds the answered partitions against those that are asked for, in order.
func (f *FetchCase) answersAll() error {
	asked, answered := f.Request.Partitions, f.Response.Partitions
	if len(asked) != len(answered) {
		return fmt.Errorf("%d partitions are asked for and %d answered", len(asked), len(answered))
	}
	for i := range asked {
		if a, b := &asked[i], &answered[i]; a.Topic != b.Topic || a.Partition != b.Partition {
			return fmt.Errorf("%s-%d is asked for and %s-%d answered", a.Topic, a.Partition, b.Topic, b.Partition)
		}
	}
	return nil
}

// request turns a recorded request into one for the reader.
func (r *Request) request() (*reader.FetchRequest, error) {
	out := &reader.FetchRequest{Version: r.Version, ReplicaID: locality.Consumer, Isolation: r.Isolation, MaxBytes: r.MaxBytes}
	if r.ReplicaID != nil {
		out.ReplicaID = *r.ReplicaID
	}
	for _, p := range r.Partitions {
		fp := reader.FetchPartition{Topic: p.Topic, Partition: p.Partition, Offset: p.FetchOffset, MaxBytes: p.PartitionMaxBytes,
			CurrentLeaderEpoch: or(p.CurrentLeaderEpoch, epoch.Undefined), LastFetchedEpoch: or(p.LastFetchedEpoch, epoch.Undefined)}
		if p.TopicID != "" {
			id, err := abi.ParseUUID(p.TopicID)
			if err != nil {
				return nil, err
			}
			fp.TopicID = id
		}
		out.Partitions = append(out.Partitions, fp)
	}
	return out, nil
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}
