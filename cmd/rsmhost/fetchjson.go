package main

import (
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/reader"
)

// fetchDoc is what fetch -o json prints.
type fetchDoc struct {
	RequestID string        `json:"requestId"`
	Request   fetchAsked    `json:"request"`
	Response  fetchAnswered `json:"response"`
	Records   []recordDoc   `json:"records"`
	Findings  []findingDoc  `json:"findings,omitempty"` // of this read
	Trace     *traceDoc     `json:"trace,omitempty"`
}

type fetchAsked struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topicId"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	MaxBytes  int64  `json:"maxBytes"`
	Isolation string `json:"isolation"`
}

type fetchAnswered struct {
	ErrorCode        int16        `json:"errorCode"`
	Error            string       `json:"error"`
	ErrorMessage     string       `json:"errorMessage,omitempty"`
	HighWatermark    int64        `json:"highWatermark"`
	LastStableOffset int64        `json:"lastStableOffset"`
	LogStartOffset   int64        `json:"logStartOffset"`
	Aborted          []abortedDoc `json:"abortedTransactions"`
	Batches          []batchDoc   `json:"batches"`
	RecordsLength    int          `json:"recordsLength"`
}

// findingDoc is something that is wrong or missing, and no reason to fail. Nothing is known where a field is missing.
type findingDoc struct {
	Path     string `json:"path,omitempty"`
	Offset   *int64 `json:"offset,omitempty"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"` // the answer is right all the same
}

func findingDocs(all []finding.Finding) []findingDoc {
	var out []findingDoc
	for _, f := range all {
		d := findingDoc{Path: f.Path, What: f.What, Repaired: f.Repaired}
		if f.Offset != finding.Unknown {
			d.Offset = &f.Offset
		}
		out = append(out, d)
	}
	return out
}

type abortedDoc struct {
	ProducerID  int64 `json:"producerId"`
	FirstOffset int64 `json:"firstOffset"`
}

type batchDoc struct {
	BaseOffset  int64  `json:"baseOffset"`
	LastOffset  int64  `json:"lastOffset"`
	Size        int64  `json:"size"`
	Codec       string `json:"codec"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	ProducerID  int64  `json:"producerId"`
	Txn         bool   `json:"transactional"`
	Control     bool   `json:"control"`
}

func (f *fetch) document(p *reader.PartitionData, records []format.Record) fetchDoc {
	doc := fetchDoc{RequestID: f.id, Trace: spansOf(f.trace), Records: []recordDoc{}, Findings: findingDocs(p.Findings),
		Request: fetchAsked{f.topic.Name, f.topic.ID.String(), f.partition, f.offset, f.maxBytes, f.iso.String()},
		Response: fetchAnswered{ErrorCode: int16(p.Code), Error: p.Code.String(), HighWatermark: p.HighWatermark,
			LastStableOffset: p.LastStableOffset, LogStartOffset: p.LogStartOffset, RecordsLength: len(p.Records), Batches: batchDocs(p.Records)}}
	if p.Err != nil {
		doc.Response.ErrorMessage = p.Err.Error()
	}
	if p.Aborted != nil {
		doc.Response.Aborted = []abortedDoc{}
		for _, t := range p.Aborted {
			doc.Response.Aborted = append(doc.Response.Aborted, abortedDoc{t.ProducerID, t.FirstOffset})
		}
	}
	for i := range records {
		doc.Records = append(doc.Records, newRecordDoc(f.topic.Name, f.partition, &records[i]))
	}
	return doc
}

func batchDocs(records []byte) []batchDoc {
	out := []batchDoc{}
	for w := format.Walk(records); w.Next(); {
		h := w.Header()
		out = append(out, batchDoc{h.BaseOffset, h.LastOffset, h.Size(), h.Codec().String(), h.LeaderEpoch, h.ProducerID, h.IsTransactional(), h.IsControl()})
	}
	return out
}
