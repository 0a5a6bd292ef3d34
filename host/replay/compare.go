package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// pair is a recorded answer of one partition and the one that was got.
type pair struct {
	want, got *ResponsePartition
	prefix    string // see answered
	req       *Request
	asked     *RequestPartition
	later     bool               // another partition of the request came before
	alone     *ResponsePartition // for a later one: the answer when it is asked for by itself
}

// field is one field of an answer as both modes see it.
type field struct {
	name  string
	value func(*ResponsePartition) any
}

var fields = []field{
	{"topic", func(p *ResponsePartition) any { return p.Topic }},
	{"partition", func(p *ResponsePartition) any { return p.Partition }},
	{"errorCode", func(p *ResponsePartition) any { return p.ErrorCode }},
	{"highWatermark", func(p *ResponsePartition) any { return p.HighWatermark }},
	{"lastStableOffset", func(p *ResponsePartition) any { return p.LastStableOffset }},
	{"logStartOffset", func(p *ResponsePartition) any { return p.LogStartOffset }},
	{"divergingEpoch", func(p *ResponsePartition) any { return p.DivergingEpoch }},
	{"currentLeader", func(p *ResponsePartition) any { return p.CurrentLeader }},
	{"abortedTransactions", func(p *ResponsePartition) any { return sorted(p.AbortedTransactions) }},
	{"recordsLength", func(p *ResponsePartition) any { return p.RecordsLength }},
	{"recordsSha256", func(p *ResponsePartition) any { return p.RecordsSha256 }},
	{"firstBatchBaseOffset", func(p *ResponsePartition) any { return p.FirstBatchBaseOffset }},
	{"lastBatchLastOffset", func(p *ResponsePartition) any { return p.LastBatchLastOffset }},
	{"completeBatches", func(p *ResponsePartition) any { return p.CompleteBatches }},
	{"trailingBytes", func(p *ResponsePartition) any { return p.TrailingBytes }},
}

func sorted(txns []Aborted) []Aborted {
	out := slices.Clone(txns)
	slices.SortFunc(out, func(a, b Aborted) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset), cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return out
}

// Tolerance is one way in which a better answer may differ from a broker's.
type Tolerance struct {
	Fields []string // instead of their equality
	Why    string
	check  func(p *pair) (field, want, got string, ok bool)
}

// Tolerances are all of them: the whole difference between Exact and Better. Every other field must be equal.
var Tolerances = []Tolerance{
	{[]string{"abortedTransactions"},
		"a broker's list is an estimate that is too long, and null where a batch did not fit: each transaction that concerns the returned range must be there",
		(*pair).abortedCovers},
	{[]string{"firstBatchBaseOffset"},
		"a broker answers with nothing for ever where a tier ends in compacted offsets (KAFKA-16088), and a later partition depends on what is left of the budget",
		(*pair).beginsRight},
	{[]string{"lastBatchLastOffset", "recordsLength", "recordsSha256", "completeBatches", "trailingBytes"},
		"a broker stops at the end of a segment and cuts the last batch: the answer may go on, in whole batches, behind the same bytes",
		(*pair).endsRight},
	{nil,
		"a broker answers UNKNOWN_SERVER_ERROR (-1) to whatever it can't read, such as damaged or missing index objects: a code that " +
			"tells more, or the data, which may be good all the same. With any other recorded code errors are equal",
		(*pair).reads},
}

// dataOrCode are the fields that an answer may differ in where a broker answered UNKNOWN_SERVER_ERROR.
var dataOrCode = []string{"errorCode", "highWatermark", "lastStableOffset", "logStartOffset"}

// unread reports a recorded UNKNOWN_SERVER_ERROR.
func (p *pair) unread() bool { return p.want.ErrorCode == int16(reader.UnknownServerError) }

// reads holds an answer for what a broker could not read: data that fits the offset, or a code on which a client tries again
// or is told of the damage. That the data is gone, or elsewhere, is not known by a failed read.
func (p *pair) reads() (field, want, got string, ok bool) {
	if !p.unread() {
		return "", "", "", true
	}
	switch code := reader.Code(p.got.ErrorCode); code {
	case reader.None:
		first, last := p.got.FirstBatchBaseOffset, p.got.LastBatchLastOffset
		return "firstBatchBaseOffset", fmt.Sprintf("an error, or records that end at or after %d", p.asked.FetchOffset), text(first),
			first != nil && *last >= p.asked.FetchOffset
	case reader.UnknownServerError, reader.CorruptMessage, reader.KafkaStorageError, reader.NotLeaderOrFollower:
		return "", "", "", true
	}
	return "errorCode", "an error of the store", text(p.got.ErrorCode), false
}

func (p *pair) compare(mode Mode, named bool) []Failure {
	if mode == AsRecorded {
		if len(p.compare(Exact, named)) == 0 {
			return nil
		}
		mode = Better
	}
	var fails []Failure
	fail := func(field, want, got string) {
		if named {
			field = fmt.Sprintf("%s-%d.%s", p.asked.Topic, p.asked.Partition, field)
		}
		fails = append(fails, Failure{field, want, got})
	}
	for _, f := range fields {
		if mode == Better && (tolerated(f.name) || p.unread() && slices.Contains(dataOrCode, f.name)) {
			continue
		}
		if want, got := f.value(p.want), f.value(p.got); !reflect.DeepEqual(want, got) {
			fail(f.name, text(want), text(got))
		}
	}
	if mode == Better && len(fails) == 0 { // an answer of another kind has no records to compare
		for _, t := range Tolerances {
			if field, want, got, ok := t.check(p); !ok {
				fail(field, want, got)
			}
		}
	}
	return fails
}

func tolerated(name string) bool {
	return slices.ContainsFunc(Tolerances, func(t Tolerance) bool { return slices.Contains(t.Fields, name) })
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (p *pair) abortedCovers() (field, want, got string, ok bool) {
	if p.got.LastBatchLastOffset == nil {
		return "", "", "", true
	}
	for _, t := range p.want.AbortedTransactions {
		if t.FirstOffset <= *p.got.LastBatchLastOffset && !slices.Contains(p.got.AbortedTransactions, t) {
			return "abortedTransactions", "with " + text(t), text(p.got.AbortedTransactions), false
		}
	}
	return "", "", "", true
}

// beginsRight holds the first batch against the record. Where the record has none, it must stay so at or above the bound
// of the isolation, with a budget of nothing, and with an error; a later partition may begin as it does alone; else there
// must be data.
func (p *pair) beginsRight() (field, want, got string, ok bool) {
	const name = "firstBatchBaseOffset"
	first := p.got.FirstBatchBaseOffset
	if p.want.FirstBatchBaseOffset != nil {
		return name, text(p.want.FirstBatchBaseOffset), text(first), reflect.DeepEqual(p.want.FirstBatchBaseOffset, first)
	}
	switch {
	case p.unread():
		return "", "", "", true // see reads
	case p.want.ErrorCode != 0 || p.want.DivergingEpoch != nil || p.asked.FetchOffset >= p.bound():
		return name, "no records", text(first), first == nil
	case p.asked.PartitionMaxBytes <= 0 || p.req.MaxBytes <= 0:
		return name, "no records: the budget is 0", text(first), first == nil
	case p.later:
		return name, "none or " + text(p.alone.FirstBatchBaseOffset), text(first), first == nil || reflect.DeepEqual(first, p.alone.FirstBatchBaseOffset)
	}
	return name, fmt.Sprintf("records that end at or after %d", p.asked.FetchOffset), text(p.got.LastBatchLastOffset),
		first != nil && *p.got.LastBatchLastOffset >= p.asked.FetchOffset
}

func (p *pair) bound() int64 {
	if p.req.Isolation == locality.ReadCommitted {
		return p.want.LastStableOffset
	}
	return p.want.HighWatermark
}

func (p *pair) endsRight() (field, want, got string, ok bool) {
	if p.got.TrailingBytes != nil && *p.got.TrailingBytes != 0 {
		return "trailingBytes", "0", text(p.got.TrailingBytes), false
	}
	if p.want.LastBatchLastOffset == nil {
		return "", "", "", true
	}
	if sameBegin := reflect.DeepEqual(p.want.FirstBatchBaseOffset, p.got.FirstBatchBaseOffset); sameBegin && p.prefix != "" && p.prefix != p.want.RecordsSha256 {
		return "recordsSha256", fmt.Sprintf("%s of the first %d bytes", p.want.RecordsSha256, p.want.RecordsLength), p.prefix, false
	}
	last := p.got.LastBatchLastOffset
	return "lastBatchLastOffset", fmt.Sprintf("%d or more", *p.want.LastBatchLastOffset), text(last), last != nil && *last >= *p.want.LastBatchLastOffset
}
