package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/server/fetchsession"
)

// TestSessionServed: a session over the wire.
func TestSessionServed(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	topic := v.host.Topics()[0]
	q := fetchOf(topic, topic.Partitions[0].Offsets.LogStart, 0)
	q.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](w, q, 18)
	if resp.SessionID == 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("%+v", resp)
	}
	q.Topics[0].Partitions[0].FetchOffset = topic.Partitions[0].Offsets.HighWatermark
	q.SessionID, q.SessionEpoch = resp.SessionID, 1
	if resp := ask[*kmsg.FetchResponse](v.dial(t), q, 18); resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("at the end, on another connection: %+v", resp)
	}
	if resp := ask[*kmsg.FetchResponse](w, q, 18); resp.ErrorCode != fetchsession.InvalidEpoch {
		t.Errorf("an epoch twice: %+v", resp)
	}
	q.SessionEpoch = 2
	q.Topics = []kmsg.FetchRequestTopic{{TopicID: [16]byte{7}, Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}},
		{Partitions: []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}}}
	resp = ask[*kmsg.FetchResponse](w, q, 18)
	for _, got := range resp.Topics {
		if got.Partitions[0].ErrorCode != unknownTopicID {
			t.Errorf("an unknown topic: %+v", got)
		}
	}
	if len(resp.Topics) != 2 {
		t.Errorf("%d topics", len(resp.Topics))
	}
}
