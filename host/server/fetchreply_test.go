package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// inOne gives an answer's bytes. All its records lie in memory.
func (a *answer) inOne() []byte {
	var out []byte
	at := 0
	for _, c := range a.cuts {
		out = append(append(out, a.b[at:c.at]...), c.body.bytes...)
		at = c.at
	}
	return append(out, a.b[at:]...)
}

// someResponse is a Fetch answer with all that one may hold, or none of it.
func someResponse(r *rand.Rand) (*kmsg.FetchResponse, []body) {
	resp := kmsg.NewPtrFetchResponse()
	resp.ThrottleMillis, resp.ErrorCode, resp.SessionID = r.Int32(), int16(r.Int32()), r.Int32()
	for i := range r.IntN(3) {
		resp.Brokers = append(resp.Brokers, kmsg.FetchResponseBroker{NodeID: int32(i), Host: "broker.example", Port: r.Int32()})
	}
	var bodies []body
	for range r.IntN(4) {
		topic := kmsg.FetchResponseTopic{Topic: fmt.Sprint("topic-", r.IntN(1e9)), TopicID: [16]byte{byte(r.Int32()), 15: byte(r.Int32())}}
		for range r.IntN(4) {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition, p.ErrorCode, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = r.Int32(), int16(r.Int32()), r.Int64(), r.Int64(), r.Int64()
			p.PreferredReadReplica = r.Int32()
			if r.IntN(2) == 0 {
				p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = r.Int32(), r.Int64()
			}
			if r.IntN(2) == 0 {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = r.Int32(), r.Int32()
			}
			if r.IntN(2) == 0 {
				p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
				for range r.IntN(3) {
					p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: r.Int64(), FirstOffset: r.Int64()})
				}
			}
			p.RecordBatches = bytes.Repeat([]byte{byte(r.Int32())}, []int{0, 1, 127, 300, inlineMax, inlineMax + 1, 70_000}[r.IntN(7)])
			topic.Partitions = append(topic.Partitions, p)
			bodies = append(bodies, body{bytes: p.RecordBatches, size: int64(len(p.RecordBatches))})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, bodies
}

// TestFetchReply: what is written is what kmsg writes, in each version.
func TestFetchReply(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for version := int16(4); version <= kmsg.NewPtrFetchRequest().MaxVersion(); version++ {
		for range 200 {
			resp, bodies := someResponse(r)
			resp.SetVersion(version)
			a := answer{b: []byte("before")}
			(&fetchReply{resp, bodies}).appendParts(&a)
			want := resp.AppendTo([]byte("before"))
			if got := a.inOne(); !bytes.Equal(got, want) || a.size() != int64(len(want)) {
				t.Fatalf("version %d: %d bytes, want %d, of %+v", version, len(got), len(want), resp)
			}
		}
	}
}
