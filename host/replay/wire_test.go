package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/reader"
)

// TestSilence: a server that takes a connection and says nothing is given up, however far it came; one that is slow is not; and
// who does not want to wait any more does not.
func TestSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		serve func(nc net.Conn)
		wait  int32         // of the fetch, in ms
		gone  time.Duration // the caller is, then; 0: it stays
		kind  abi.Kind
		took  time.Duration
	}{
		"takes nothing":      {func(net.Conn) {}, 0, 0, abi.Deadline, silence},
		"says nothing":       {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 0, 0, abi.Deadline, silence},
		"may wait":           {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 5000, 0, abi.Deadline, silence + 5*time.Second},
		"stops half-way":     {func(nc net.Conn) { takeRequest(nc); nc.Write([]byte{0, 0, 0}) }, 0, 0, abi.Deadline, silence},
		"is slow":            {slowly, 0, 0, 0, 3 * (silence - 1)},
		"the caller is gone": {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 0, time.Second, abi.Unavailable, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				done := make(chan struct{})
				go func() { tt.serve(far); close(done) }() // ends when near is closed, below
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				gone := errors.New("no more")
				if tt.gone > 0 {
					time.AfterFunc(tt.gone, func() { cancel(gone) })
				}
				q, began := kmsg.NewPtrFetchRequest(), time.Now()
				q.Version, q.MaxWaitMillis = 11, tt.wait
				err := (&wire{address: "broker:9092", nc: near}).ask(ctx, q, kmsg.NewPtrFetchResponse())
				if took := time.Since(began); abi.KindOf(err) != tt.kind || took != tt.took || tt.gone > 0 && !errors.Is(err, gone) {
					t.Errorf("%v after %v; want %v after %v", err, took, tt.kind, tt.took)
				}
				near.Close()
				<-done
			})
		})
	}
}

func takeRequest(nc net.Conn) {
	var n [4]byte
	io.ReadFull(nc, n[:])
	io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(n[:])))
}

// slowly answers in three parts, none of which is too late.
func slowly(nc net.Conn) {
	takeRequest(nc)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	body := resp.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	for _, part := range [][]byte{body[:3], body[3:12], body[12:]} {
		time.Sleep(silence - 1)
		nc.Write(part)
	}
}

// answering is a client whose broker gives these answers, one after another.
func answering(t *testing.T, answers ...kmsg.Response) *Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() { // ends with the last answer, or when near is closed, below
		defer close(done)
		for i, a := range answers {
			takeRequest(far)
			b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(i+1))
			if a.IsFlexible() {
				b = append(b, 0)
			}
			b = a.AppendTo(b)
			binary.BigEndian.PutUint32(b, uint32(len(b)-4))
			far.Write(b)
		}
	}()
	t.Cleanup(func() {
		near.Close()
		<-done
	})
	return &Client{seed: &wire{address: "broker:9092", nc: near}}
}

// TestAnswerIsOfWhatWasAsked: an answer as a whole that is an error, one of another topic or partition, and one with a partition too
// many are no answers to a request; a code is an error with a sentence.
func TestAnswerIsOfWhatWasAsked(t *testing.T) {
	fetched := func(code int16, partitions ...int32) *kmsg.FetchResponse {
		r := kmsg.NewPtrFetchResponse()
		r.Version, r.ErrorCode = 11, code
		topic := kmsg.FetchResponseTopic{Topic: "a"}
		for _, n := range partitions {
			p := kmsg.NewFetchResponseTopicPartition()
			p.Partition = n
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
		return r
	}
	for name, tt := range map[string]struct {
		answer *kmsg.FetchResponse
		want   string
	}{
		"it":                 {fetched(0, 0), ""},
		"an error":           {fetched(71), "the answer as a whole is"},
		"another partition":  {fetched(0, 1), "1 partitions that were not asked for"},
		"one more":           {fetched(0, 0, 1), "1 partitions that were not asked for"},
		"the same one twice": {fetched(0, 0, 0), "1 partitions that were not asked for"},
		"none":               {fetched(0), "does not have this partition"},
	} {
		t.Run("fetch/"+name, func(t *testing.T) {
			got := answering(t, tt.answer).fetch(t.Context(), &reader.FetchRequest{Version: 11, Partitions: []reader.FetchPartition{{Topic: "a"}}})
			if err := got.Partitions[0].Err; (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for name, tt := range map[string]struct {
		topic     string
		partition int32
		code      int16
		want      string
	}{
		"it":                {"a", 0, 0, ""},
		"a code":            {"a", 0, 6, "NOT_LEADER_OR_FOLLOWER"},
		"another topic":     {"b", 0, 0, "not of the one partition"},
		"another partition": {"a", 1, 0, "not of the one partition"},
	} {
		check := func(t *testing.T, err error) {
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		}
		t.Run("offsets/"+name, func(t *testing.T) {
			r := kmsg.NewPtrListOffsetsResponse()
			p := kmsg.NewListOffsetsResponseTopicPartition()
			r.Version, p.Partition, p.ErrorCode = 5, tt.partition, tt.code
			r.Topics = []kmsg.ListOffsetsResponseTopic{{Topic: tt.topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}
			check(t, answering(t, r).ListOffsets(t.Context(), &reader.ListOffsetsRequest{Version: 5, Partitions: []reader.ListOffsetsPartition{{Topic: "a"}}})[0].Err)
		})
		t.Run("epoch/"+name, func(t *testing.T) {
			r := kmsg.NewPtrOffsetForLeaderEpochResponse()
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			r.Version, p.Partition, p.ErrorCode = 4, tt.partition, tt.code
			r.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{{Topic: tt.topic, Partitions: []kmsg.OffsetForLeaderEpochResponseTopicPartition{p}}}
			check(t, answering(t, r).OffsetForLeaderEpoch(t.Context(), &reader.EpochRequest{Topic: "a"}).Err)
		})
	}
}
