package server

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/reader"
)

// TestEachCode: codes are found on each level of an answer, and nothing else is taken for one.
func TestEachCode(t *testing.T) {
	m := kmsg.NewPtrMetadataResponse()
	m.ErrorCode = 1
	m.Topics = []kmsg.MetadataResponseTopic{{ErrorCode: 2, Partitions: []kmsg.MetadataResponseTopicPartition{{Leader: 9, ErrorCode: 3}, {Partition: 7}}}, {}}
	lo := kmsg.NewPtrListOffsetsResponse()
	lo.Topics = []kmsg.ListOffsetsResponseTopic{{Partitions: []kmsg.ListOffsetsResponseTopicPartition{{ErrorCode: 4, Offset: 8, OldStyleOffsets: []int64{5}}}}}
	var got []int16
	for _, resp := range []kmsg.Response{m, lo, kmsg.NewPtrHeartbeatResponse()} {
		eachCode(reflect.ValueOf(resp), func(c int16) { got = append(got, c) })
	}
	slices.Sort(got)
	if !slices.Equal(got, []int16{1, 2, 3, 4}) {
		t.Errorf("got %v", got)
	}
}

// TestCodeNames: the protocol's names, and numbers of what it does not have.
func TestCodeNames(t *testing.T) {
	for code, want := range map[int16]string{-1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 109: "OFFSET_MOVED_TO_TIERED_STORAGE", 30000: "CODE(30000)"} {
		if got := codeName(code); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
	}
}

// TestIdleClients: where there is no room, those that asked nothing for an hour make some.
func TestIdleClients(t *testing.T) {
	c, now := newCounts(map[int16]*api{}), time.Unix(1_000_000, 0)
	c.ended(&request{client: "old"}, now.Add(-2*clientIdle))
	c.ended(&request{client: "new"}, now)
	c.fetched(&request{client: "new"}, &reader.FetchResponse{Partitions: []reader.PartitionData{{Remote: true, Records: make([]byte, 7)}, {Records: make([]byte, 9)}}})
	c.forgetIdle(now)
	got := map[string]int64{}
	c.clients.Each(func(id string, n *clientCounts) { got[id] = n.remoteBytes.Load() })
	if len(got) != 1 || got["new"] != 7 {
		t.Errorf("left are %v", got)
	}
}

// TestAdjust: a bound that is changed holds for connections that come, and those that are refused are counted.
func TestAdjust(t *testing.T) {
	v := serve(t, local, Options{})
	first := v.dial(t)
	ask[*kmsg.ApiVersionsResponse](first, kmsg.NewPtrApiVersionsRequest(), 3)
	v.Adjust(Live{MaxConnectionsPerIP: 1})
	if _, err := v.dial(t).nc.Read(make([]byte, 1)); err == nil {
		t.Error("a second connection of one address was taken")
	}
	v.Adjust(Live{MaxConnections: 2})
	ask[*kmsg.ApiVersionsResponse](v.dial(t), kmsg.NewPtrApiVersionsRequest(), 3)
	if s := v.Stats(); s.Accepted != 3 || s.Refused != 1 || s.Connections != 2 {
		t.Errorf("%d came, %d were refused, %d are open", s.Accepted, s.Refused, s.Connections)
	}
	if v.Draining() {
		t.Error("it drains")
	}
	v.stop()
	if !v.Draining() {
		t.Error("it does not drain")
	}
}
