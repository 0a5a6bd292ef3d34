package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

const fetchLine = `{"request":{"version":17,"isolation":1,"maxBytes":100,"partitions":[{"topic":"a","partition":0,"fetchOffset":5,"partitionMaxBytes":100}]},` +
	`"response":{"errorCode":0,"partitions":[{"topic":"a","partition":0,"errorCode":0,"highWatermark":20,"lastStableOffset":20,"logStartOffset":0,"recordsLength":0}]}}`

// TestScanner reads the three kinds of cases, told apart by their fields, over empty lines and without a last line feed.
func TestScanner(t *testing.T) {
	const file = "\n" + fetchLine + "\n  \n" +
		`{"note":"n","request":{"topic":"a","partition":0,"timestamp":-1},"response":{"offset":5}}` + "\r\n" +
		`{"request":{"topic":"a","partition":0,"leaderEpoch":2},"response":{"endOffset":7}}`
	s := NewScanner("x.jsonl", strings.NewReader(file))
	var got []string
	for {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %v %v %v", c.Name(), c.Fetch != nil, c.Offsets != nil, c.Epoch != nil))
	}
	want := []string{"x.jsonl:2 true false false", "x.jsonl:4 (n) false true false", "x.jsonl:5 false false true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestScannerErrors: a line that is no case is named, with what is wrong with it.
func TestScannerErrors(t *testing.T) {
	for line, tt := range map[string]struct {
		kind  abi.Kind
		words string
	}{
		"{":                                 {abi.Invalid, "not a JSON object"},
		"[]":                                {abi.Invalid, "not a JSON object"},
		"{}":                                {abi.Invalid, "request and response"},
		`{"request":{"partitions":[]}}`:     {abi.Invalid, "request and response"},
		`{"request":{},"response":{}}`:      {abi.Unsupported, "not a Fetch"},
		`{"request":{"x":1},"response":{}}`: {abi.Unsupported, "not a Fetch"},
		`{"request":{"partitions":[{}]},"response":{}}`:                                        {abi.Invalid, "1 partitions are asked for and 0 answered"},
		`{"request":{"partitions":[{"topic":"a"}]},"response":{"partitions":[{"topic":"b"}]}}`: {abi.Invalid, "a-0 is asked for and b-0 answered"},
		`{"request":{"partitions":7},"response":{}}`:                                           {abi.Invalid, "partitions"},
		`{"request":{"timestamp":"soon"},"response":{}}`:                                       {abi.Invalid, "timestamp"},
		`{"request":{"leaderEpoch":1},"response":{"endOffset":"x"}}`:                           {abi.Invalid, "endOffset"},
	} {
		s := NewScanner("x.jsonl", strings.NewReader(fetchLine+"\n\n"+line+"\n"))
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
		c, err := s.Next()
		if c != nil || abi.KindOf(err) != tt.kind || !strings.Contains(err.Error(), "x.jsonl:3") || !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%s: %v, want %v, the line and %q", line, err, tt.kind, tt.words)
		}
	}
	c := Case{Fetch: &FetchCase{Request: Request{Partitions: []RequestPartition{{TopicID: "no id"}}}}}
	if _, err := Run(context.Background(), &fake{}, &c, Exact); abi.KindOf(err) != abi.Invalid {
		t.Errorf("a topic id that is none: %v", err)
	}
}

// fake is a Host that answers what it is told to.
type fake struct {
	fetch   []reader.PartitionData // by place in the request
	alone   *reader.PartitionData  // for a request of one partition
	offset  reader.OffsetData
	epoch   reader.EpochEnd
	fetched *reader.FetchRequest
}

func (f *fake) Fetch(_ context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	f.fetched = req
	if len(req.Partitions) == 1 && f.alone != nil {
		return &reader.FetchResponse{Partitions: []reader.PartitionData{*f.alone}}
	}
	return &reader.FetchResponse{Partitions: slices.Clone(f.fetch)}
}

func (f *fake) ListOffsets(context.Context, *reader.ListOffsetsRequest) []reader.OffsetData {
	return []reader.OffsetData{f.offset}
}

func (f *fake) OffsetForLeaderEpoch(context.Context, *reader.EpochRequest) reader.EpochEnd {
	return f.epoch
}

// records are whole batches of ten offsets.
func records(t testing.TB, bases ...int64) (out []byte) {
	t.Helper()
	for _, b := range bases {
		out = append(out, kafkabytes.Batch{Base: b, Last: b + 9, Size: 100}.Bytes(t)...)
	}
	return out
}

// good is an answer with records 10 to 29, and what else an answer can have.
func good(t testing.TB) reader.PartitionData {
	return reader.PartitionData{Topic: "a", HighWatermark: 100, LastStableOffset: 90, LogStartOffset: 5,
		Aborted: []reader.AbortedTransaction{{ProducerID: 7, FirstOffset: 12}, {ProducerID: 8, FirstOffset: 15}}, Records: records(t, 10, 20)}
}

// recordedCase is a case with these answers, for requests of offset 12 on.
func recordedCase(parts ...reader.PartitionData) *Case {
	c := &Case{File: "x", Line: 1, Fetch: &FetchCase{Request: Request{Version: 17, Isolation: locality.ReadCommitted, MaxBytes: 1 << 20}}}
	for _, p := range parts {
		c.Fetch.Request.Partitions = append(c.Fetch.Request.Partitions, RequestPartition{Topic: p.Topic, Partition: p.Partition, FetchOffset: 12, PartitionMaxBytes: 1 << 20})
		c.Fetch.Response.Partitions = append(c.Fetch.Response.Partitions, recorded(&p))
	}
	return c
}

// failed lists the fields that differ.
func failed(t testing.TB, f *fake, c *Case, mode Mode) string {
	t.Helper()
	fails, err := Run(context.Background(), f, c, mode)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range fails {
		names = append(names, f.Field)
	}
	return strings.Join(names, " ")
}

// TestSameAnswer: what was recorded passes in both modes, also where the list of aborted transactions has another order.
func TestSameAnswer(t *testing.T) {
	fenced := reader.PartitionData{Topic: "a", Code: reader.FencedLeaderEpoch, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1,
		Leader: &reader.Leader{ID: 1, Epoch: 3}}
	diverging := reader.PartitionData{Topic: "a", HighWatermark: 100, Diverging: &abi.LeaderEpoch{Epoch: 2, StartOffset: 8}}
	turned := good(t)
	turned.Aborted = []reader.AbortedTransaction{turned.Aborted[1], turned.Aborted[0]}
	for name, p := range map[string]reader.PartitionData{"data": good(t), "fenced": fenced, "diverging": diverging, "turned": turned} {
		got := p
		if name == "turned" {
			got = good(t)
		}
		for mode := Better; mode <= Exact; mode++ {
			if got := failed(t, &fake{fetch: []reader.PartitionData{got}}, recordedCase(p), mode); got != "" {
				t.Errorf("%s, mode %d: %s differ", name, mode, got)
			}
		}
	}
}

// TestEveryFieldCounts: an answer that differs in any one field from the record fails in exact mode, by the field's name.
// The list of fields is that of the recorded form, so that none is forgotten.
func TestEveryFieldCounts(t *testing.T) {
	changes := map[string]func(p *ResponsePartition){
		"Topic":                func(p *ResponsePartition) { p.Topic = "b" },
		"Partition":            func(p *ResponsePartition) { p.Partition = 1 },
		"ErrorCode":            func(p *ResponsePartition) { p.ErrorCode = 9 },
		"HighWatermark":        func(p *ResponsePartition) { p.HighWatermark++ },
		"LastStableOffset":     func(p *ResponsePartition) { p.LastStableOffset++ },
		"LogStartOffset":       func(p *ResponsePartition) { p.LogStartOffset++ },
		"AbortedTransactions":  func(p *ResponsePartition) { p.AbortedTransactions = p.AbortedTransactions[:1] },
		"DivergingEpoch":       func(p *ResponsePartition) { p.DivergingEpoch = &EpochEnd{1, 2} },
		"CurrentLeader":        func(p *ResponsePartition) { p.CurrentLeader = &Leader{1, 2} },
		"RecordsLength":        func(p *ResponsePartition) { p.RecordsLength++ },
		"RecordsSha256":        func(p *ResponsePartition) { p.RecordsSha256 = "00" },
		"FirstBatchBaseOffset": func(p *ResponsePartition) { p.FirstBatchBaseOffset = new(int64) },
		"LastBatchLastOffset":  func(p *ResponsePartition) { p.LastBatchLastOffset = nil },
		"CompleteBatches":      func(p *ResponsePartition) { *p.CompleteBatches++ },
		"TrailingBytes":        func(p *ResponsePartition) { *p.TrailingBytes++ },
	}
	for f := range reflect.TypeFor[ResponsePartition]().Fields() {
		change, ok := changes[f.Name]
		if !ok {
			t.Errorf("no change of %s is tried", f.Name)
			continue
		}
		c := recordedCase(good(t))
		change(&c.Fetch.Response.Partitions[0])
		want := strings.ToLower(f.Name[:1]) + f.Name[1:]
		if got := failed(t, &fake{fetch: []reader.PartitionData{good(t)}}, c, Exact); got != want {
			t.Errorf("%s: the fields %q differ", want, got)
		}
		if got := failed(t, &fake{fetch: []reader.PartitionData{good(t)}}, c, Better); !tolerated(want) && got != want {
			t.Errorf("%s: better: the fields %q differ", want, got)
		}
	}
	for _, f := range fields {
		if _, ok := changes[strings.ToUpper(f.name[:1])+f.name[1:]]; !ok {
			t.Errorf("the field %s is compared and not tried", f.name)
		}
	}
}

// TestCodeOfTheWholeAnswer: the error code of a Fetch answer is compared in every mode, and with one there are no partitions.
func TestCodeOfTheWholeAnswer(t *testing.T) {
	refused := good(t)
	refused.Code, refused.Err = reader.UnknownServerError, refusal(71)
	for name, tt := range map[string]struct {
		recorded int16
		got      reader.PartitionData
		fails    string
	}{
		"none":                {0, good(t), ""},
		"one that was":        {71, refused, ""},
		"one that was not":    {0, refused, "response.errorCode"},
		"none, but there was": {71, good(t), "response.errorCode"},
		"another than was":    {70, refused, "response.errorCode"},
	} {
		c := recordedCase(good(t))
		if c.Fetch.Response.ErrorCode = tt.recorded; tt.recorded != 0 {
			c.Fetch.Response.Partitions = nil
		}
		for mode := Better; mode <= AsRecorded; mode++ {
			if got := failed(t, &fake{fetch: []reader.PartitionData{tt.got}}, c, mode); got != tt.fails {
				t.Errorf("%s, mode %d: %q, want %q", name, mode, got, tt.fails)
			}
		}
	}
}

// TestBetterBeginsWithTheSameBytes: what an answer has more than was recorded comes behind the same bytes, also where the last batch
// was cut.
func TestBetterBeginsWithTheSameBytes(t *testing.T) {
	more, damaged := good(t), good(t)
	more.Records = append(slices.Clone(more.Records), records(t, 30)...)
	damaged.Records = slices.Clone(more.Records)
	damaged.Records[70] ^= 1
	cut := good(t)
	cut.Records = more.Records[:len(more.Records)-7]
	for name, tt := range map[string]struct {
		recorded, got reader.PartitionData
		fails         string
	}{
		"more":               {good(t), more, ""},
		"more than a cut":    {cut, more, ""},
		"damaged":            {good(t), damaged, "recordsSha256"},
		"damaged before cut": {cut, damaged, "recordsSha256"},
	} {
		if got := failed(t, &fake{fetch: []reader.PartitionData{tt.got}}, recordedCase(tt.recorded), Better); got != tt.fails {
			t.Errorf("%s: %q, want %q", name, got, tt.fails)
		}
	}
}

// TestAsRecorded: an answer of a broker, which cuts its last batch, passes as it was recorded, and a better one does; one that is neither
// fails as it does beside the better.
func TestAsRecorded(t *testing.T) {
	cut, worse := good(t), good(t)
	cut.Records = append(slices.Clone(cut.Records), cut.Records[:7]...)
	worse.HighWatermark++
	for name, tt := range map[string]struct {
		recorded, got     reader.PartitionData
		better, asRecords string
	}{
		"as it was recorded": {cut, cut, "trailingBytes", ""},
		"better":             {cut, good(t), "", ""},
		"cut elsewhere":      {good(t), cut, "trailingBytes", "trailingBytes"},
		"another":            {good(t), worse, "highWatermark", "highWatermark"},
	} {
		f := &fake{fetch: []reader.PartitionData{tt.got}}
		if got := failed(t, f, recordedCase(tt.recorded), Better); got != tt.better {
			t.Errorf("%s: better: %q, want %q", name, got, tt.better)
		}
		if got := failed(t, f, recordedCase(tt.recorded), AsRecorded); got != tt.asRecords {
			t.Errorf("%s: as recorded: %q, want %q", name, got, tt.asRecords)
		}
	}
}

// TestNullAndEmpty: an empty list of aborted transactions and null are two answers in exact mode, and one in better mode.
func TestNullAndEmpty(t *testing.T) {
	null, empty := good(t), good(t)
	null.Aborted, empty.Aborted = nil, []reader.AbortedTransaction{}
	if got := failed(t, &fake{fetch: []reader.PartitionData{empty}}, recordedCase(null), Exact); got != "abortedTransactions" {
		t.Errorf("exact: %q", got)
	}
	if got := failed(t, &fake{fetch: []reader.PartitionData{empty}}, recordedCase(null), Better); got != "" {
		t.Errorf("better: %q", got)
	}
}

// example is a recorded answer and one that was got for it.
type example struct {
	name  string
	want  func(p *reader.PartitionData) // changes good
	got   func(p *reader.PartitionData)
	ask   func(r *Request)
	fails string // "": it passes
}

func same(*reader.PartitionData) {}

func holding(t testing.TB, bases ...int64) func(*reader.PartitionData) {
	return func(p *reader.PartitionData) { p.Records = records(t, bases...) }
}

func aborting(producers ...int64) func(*reader.PartitionData) {
	return func(p *reader.PartitionData) {
		p.Aborted = nil
		for _, id := range producers {
			p.Aborted = append(p.Aborted, reader.AbortedTransaction{ProducerID: id, FirstOffset: id})
		}
	}
}

func coded(c reader.Code) func(*reader.PartitionData) {
	return func(p *reader.PartitionData) {
		*p = reader.PartitionData{Topic: "a", Code: c, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}
	}
}

func cut(t testing.TB) func(*reader.PartitionData) {
	return func(p *reader.PartitionData) { p.Records = records(t, 10, 20)[:150] }
}

// tolerances has examples for each of Tolerances, by a word of its Why.
func tolerances(t testing.TB) map[string][]example {
	return map[string][]example{
		"estimate": {
			{"one less, behind the end", aborting(11, 40), aborting(11), nil, ""},
			{"one less, in what was returned", aborting(11, 29), aborting(11), nil, "abortedTransactions"},
			{"one more", aborting(11), aborting(11, 13), nil, ""},
			{"none, and no records", aborting(11), func(p *reader.PartitionData) { p.Records, p.Aborted = nil, nil }, nil, "firstBatchBaseOffset lastBatchLastOffset"},
		},
		"KAFKA-16088": {
			{"data where a broker has none", holding(t), holding(t, 20), nil, ""},
			{"none where a broker has none", holding(t), holding(t), nil, "firstBatchBaseOffset"},
			{"data that ends too early", holding(t), holding(t, 0), nil, "firstBatchBaseOffset"},
			{"another first batch", holding(t, 10), holding(t, 20), nil, "firstBatchBaseOffset"},
			{"data at the bound", holding(t), holding(t, 20), func(r *Request) { r.Partitions[0].FetchOffset = 90 }, "firstBatchBaseOffset"},
			{"none at the bound", holding(t), holding(t), func(r *Request) { r.Partitions[0].FetchOffset = 90 }, ""},
			{"none, committed no further", holding(t), holding(t), func(r *Request) { r.Partitions[0].FetchOffset = 95 }, ""},
			{"none, uncommitted further", holding(t), holding(t), func(r *Request) { r.Partitions[0].FetchOffset, r.Isolation = 95, 0 }, "firstBatchBaseOffset"},
			{"data for a budget of nothing", holding(t), holding(t, 10), func(r *Request) { r.MaxBytes = 0 }, "firstBatchBaseOffset"},
			{"none for a budget of nothing", holding(t), holding(t), func(r *Request) { r.Partitions[0].PartitionMaxBytes = 0 }, ""},
		},
		"whole batches": {
			{"more batches", holding(t, 10), holding(t, 10, 20, 30), nil, ""},
			{"fewer batches", holding(t, 10, 20), holding(t, 10), nil, "lastBatchLastOffset"},
			{"not the cut one", cut(t), holding(t, 10), nil, ""},
			{"a cut one", holding(t, 10, 20), cut(t), nil, "trailingBytes"},
		},
		"index objects": {
			{"a telling code", coded(reader.UnknownServerError), coded(reader.CorruptMessage), nil, ""},
			{"a storage error", coded(reader.UnknownServerError), coded(reader.KafkaStorageError), nil, ""},
			{"the same", coded(reader.UnknownServerError), coded(reader.UnknownServerError), nil, ""},
			{"the data", coded(reader.UnknownServerError), holding(t, 10, 20), nil, ""},
			{"none, as if there were none", coded(reader.UnknownServerError), holding(t), nil, "firstBatchBaseOffset"},
			{"data that ends too early", coded(reader.UnknownServerError), holding(t, 0), nil, "firstBatchBaseOffset"},
			{"a cut batch", coded(reader.UnknownServerError), cut(t), nil, "trailingBytes"},
			{"gone", coded(reader.UnknownServerError), coded(reader.OffsetOutOfRange), nil, "errorCode"},
			{"for a follower", coded(reader.UnknownServerError), coded(reader.OffsetMovedToTiered), nil, "errorCode"},
			{"another code for another", coded(reader.OffsetOutOfRange), coded(reader.KafkaStorageError), nil, "errorCode"},
			{"data for another", coded(reader.OffsetOutOfRange), same, nil, "errorCode highWatermark lastStableOffset logStartOffset"},
		},
	}
}

// TestTolerances: each way to differ has examples that pass and that fail, and in exact mode only an equal answer passes.
func TestTolerances(t *testing.T) {
	examples := tolerances(t)
	for word := range examples {
		n := 0
		for _, tol := range Tolerances {
			if strings.Contains(tol.Why, word) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d tolerances speak of %q", n, word)
		}
	}
	if len(examples) != len(Tolerances) {
		t.Errorf("%d of %d tolerances have examples", len(examples), len(Tolerances))
	}
	for word, list := range examples {
		passing, failing := 0, 0
		for _, e := range list {
			want, got := good(t), good(t)
			e.want(&want)
			e.got(&got)
			c := recordedCase(want)
			if e.ask != nil {
				e.ask(&c.Fetch.Request)
			}
			f := &fake{fetch: []reader.PartitionData{got}}
			if fails := failed(t, f, c, Better); fails != e.fails {
				t.Errorf("%s: %s: the fields %q differ, want %q", word, e.name, fails, e.fails)
			}
			equal := reflect.DeepEqual(recorded(&want), recorded(&got))
			if exact := failed(t, f, c, Exact); (exact == "") != equal {
				t.Errorf("%s: %s: exact: %q differ, and equal is %v", word, e.name, exact, equal)
			}
			if e.fails == "" {
				passing++
			} else {
				failing++
			}
		}
		if passing == 0 || failing == 0 {
			t.Errorf("%s: %d examples pass and %d fail", word, passing, failing)
		}
	}
}

// TestLaterPartition: one that is not the first may have nothing, since the budget may be gone, or begin as it does alone.
// Its fields are named with it.
func TestLaterPartition(t *testing.T) {
	first, second := good(t), good(t)
	second.Topic, second.Records = "b", nil
	for name, tt := range map[string]struct {
		got, alone []int64
		fails      string
	}{
		"none":             {nil, []int64{10}, ""},
		"as alone":         {[]int64{10, 20}, []int64{10}, ""},
		"not as alone":     {[]int64{20}, []int64{10}, "b-0.firstBatchBaseOffset"},
		"alone it is none": {[]int64{20}, nil, "b-0.firstBatchBaseOffset"},
	} {
		got, alone := second, second
		got.Records, alone.Records = records(t, tt.got...), records(t, tt.alone...)
		f := &fake{fetch: []reader.PartitionData{first, got}, alone: &alone}
		if fails := failed(t, f, recordedCase(first, second), Better); fails != tt.fails {
			t.Errorf("%s: the fields %q differ, want %q", name, fails, tt.fails)
		}
	}
}

// TestRequest: what was recorded of a request is what is asked.
func TestRequest(t *testing.T) {
	c := recordedCase(good(t))
	two, three := int32(2), int32(3)
	c.Fetch.Request.ReplicaID = &two
	p := &c.Fetch.Request.Partitions[0]
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.TopicID = &two, &three, kafkabytes.ID(9).String()
	f := &fake{fetch: []reader.PartitionData{good(t)}}
	failed(t, f, c, Exact)
	want := &reader.FetchRequest{Version: 17, ReplicaID: 2, Isolation: locality.ReadCommitted, MaxBytes: 1 << 20, Partitions: []reader.FetchPartition{
		{Topic: "a", TopicID: kafkabytes.ID(9), Offset: 12, CurrentLeaderEpoch: 2, LastFetchedEpoch: 3, MaxBytes: 1 << 20}}}
	if !reflect.DeepEqual(f.fetched, want) {
		t.Errorf("asked %+v, want %+v", f.fetched, want)
	}
	c.Fetch.Request.ReplicaID = nil
	if failed(t, f, c, Exact); f.fetched.ReplicaID != locality.Consumer {
		t.Errorf("replica %d, want a consumer", f.fetched.ReplicaID)
	}
}

// TestOffsetsCases: each field counts, but for what OffsetsTolerances allow in better mode.
func TestOffsetsCases(t *testing.T) {
	for name, tt := range map[string]struct {
		timestamp     int64
		want          OffsetsAnswer
		got           reader.OffsetData
		exact, better string
	}{
		"equal":                  {-1, OffsetsAnswer{0, 5, -1, 2}, reader.OffsetData{Offset: 5, Timestamp: -1, LeaderEpoch: 2}, "", ""},
		"another code":           {-1, OffsetsAnswer{0, 5, -1, 2}, reader.OffsetData{Code: 6, Offset: 5, Timestamp: -1, LeaderEpoch: 2}, "errorCode", "errorCode"},
		"another offset":         {-1, OffsetsAnswer{0, 5, -1, 2}, reader.OffsetData{Offset: 6, Timestamp: -1, LeaderEpoch: 2}, "offset", "offset"},
		"another timestamp":      {-1, OffsetsAnswer{0, 5, -1, 2}, reader.OffsetData{Offset: 5, Timestamp: 1, LeaderEpoch: 2}, "timestamp", "timestamp"},
		"another epoch":          {-1, OffsetsAnswer{0, 5, -1, 2}, reader.OffsetData{Offset: 5, Timestamp: -1, LeaderEpoch: 3}, "leaderEpoch", "leaderEpoch"},
		"-3 of the other tier":   {-3, OffsetsAnswer{0, 5, 7, 2}, reader.OffsetData{Offset: 2, Timestamp: 9, LeaderEpoch: 1}, "offset timestamp leaderEpoch", ""},
		"-3 with a code":         {-3, OffsetsAnswer{0, 5, 7, 2}, reader.OffsetData{Code: 6, Offset: -1, Timestamp: -1, LeaderEpoch: -1}, "errorCode offset timestamp leaderEpoch", "errorCode offset timestamp leaderEpoch"},
		"a marker, then data":    {100, OffsetsAnswer{0, 5, 100, 2}, reader.OffsetData{Offset: 6, Timestamp: 100, LeaderEpoch: 2}, "offset", ""},
		"a marker, then none":    {100, OffsetsAnswer{0, 5, 100, 2}, reader.OffsetData{Offset: -1, Timestamp: -1, LeaderEpoch: -1}, "offset timestamp leaderEpoch", ""},
		"by time, an earlier":    {100, OffsetsAnswer{0, 5, 100, 2}, reader.OffsetData{Offset: 4, Timestamp: 100, LeaderEpoch: 2}, "offset", "offset"},
		"by time, too old a one": {100, OffsetsAnswer{0, 5, 100, 2}, reader.OffsetData{Offset: 6, Timestamp: 99, LeaderEpoch: 2}, "offset timestamp", "offset timestamp"},
		"by time, one for none":  {100, OffsetsAnswer{0, -1, -1, -1}, reader.OffsetData{Offset: 6, Timestamp: 100, LeaderEpoch: 2}, "offset timestamp leaderEpoch", "offset timestamp leaderEpoch"},
	} {
		c := &Case{Offsets: &OffsetsCase{OffsetsRequest{Topic: "a", Timestamp: tt.timestamp}, tt.want}}
		f := &fake{offset: tt.got}
		if got := failed(t, f, c, Exact); got != tt.exact {
			t.Errorf("%s: exact: %q differ, want %q", name, got, tt.exact)
		}
		if got := failed(t, f, c, Better); got != tt.better {
			t.Errorf("%s: better: %q differ, want %q", name, got, tt.better)
		}
	}
}

// TestEpochCases: each field counts in both modes.
func TestEpochCases(t *testing.T) {
	for got, want := range map[reader.EpochEnd]string{
		{LeaderEpoch: 2, EndOffset: 5}:           "",
		{Code: 74, LeaderEpoch: 2, EndOffset: 5}: "errorCode",
		{LeaderEpoch: 1, EndOffset: 5}:           "leaderEpoch",
		{LeaderEpoch: 2, EndOffset: 6}:           "endOffset",
	} {
		for mode := Better; mode <= Exact; mode++ {
			c := &Case{Epoch: &EpochCase{EpochRequest{Topic: "a", LeaderEpoch: 2}, EpochAnswer{0, 2, 5}}}
			if fails := failed(t, &fake{epoch: got}, c, mode); fails != want {
				t.Errorf("%+v, mode %d: %q differ, want %q", got, mode, fails, want)
			}
		}
	}
}

// TestDescribe: whole batches and what is left behind them.
func TestDescribe(t *testing.T) {
	b := records(t, 10)
	var p ResponsePartition
	p.describe(b[:50])
	if p.FirstBatchBaseOffset != nil || *p.CompleteBatches != 0 || *p.TrailingBytes != 50 {
		t.Errorf("a part of a batch: %+v", p)
	}
	p.describe(b)
	if *p.FirstBatchBaseOffset != 10 || *p.LastBatchLastOffset != 19 || *p.CompleteBatches != 1 || *p.TrailingBytes != 0 {
		t.Errorf("a batch: %+v", p)
	}
}
