package server

import (
	"encoding/binary"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// sized puts a length before what is sent.
func sized(b ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// header is the header of a request by "c".
func header(key, version int16, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return sized(append(append(b, 0, 0, 0, 9, 0, 1, 'c'), body...)...)
}

// TestBroken: each ends its own connection with a line in the log, after what was asked before it is answered.
func TestBroken(t *testing.T) {
	v := serve(t, local, Options{MaxRequestBytes: 8 << 20})
	for name, tt := range map[string]struct {
		send []byte
		log  string
	}{
		"a size above the bound":         {[]byte{0, 0x80, 0, 1}, "a request of 8388609 bytes: want 8 to 8388608"},
		"a negative size":                {[]byte{0xff, 0xff, 0xff, 0xff}, "a request of -1 bytes"},
		"the greatest size":              {[]byte{0x7f, 0xff, 0xff, 0xff}, "a request of 2147483647 bytes"},
		"too small a size":               {sized(0, 18, 0), "a request of 3 bytes"},
		"no client id":                   {sized(0, 18, 0, 0, 0, 0, 0, 0), "ApiVersions version 0: it ends too early"},
		"a cut client id":                {sized(0, 18, 0, 0, 0, 0, 0, 0, 0, 9, 'x'), "ApiVersions version 0: it ends too early"},
		"an unknown key":                 {header(9999, 0), "there is no api key 9999"},
		"a negative key":                 {header(-1, 0), "there is no api key -1"},
		"a key that is not served":       {header(4, 0), "LeaderAndISR (4) is not served"},
		"an old version":                 {header(1, 3), "Fetch version 3: versions 4 to 18 are served"},
		"a new version":                  {header(1, 99), "Fetch version 99"},
		"a negative version":             {header(3, -1), "Metadata version -1"},
		"a body that is cut":             {header(1, 11, 0, 0, 0), "Fetch version 11: it can't be parsed"},
		"no tags":                        {header(3, 12), "Metadata version 12: it ends too early"},
		"a list that lies":               {header(3, 8, 0x7f, 0xff, 0xff, 0xff), "Metadata version 8: it can't be parsed"},
		"more than is kept":              {header(3, 8, make([]byte, requestMax)...), "at most 2097152 are read"},
		"a produce that is cut":          {header(0, 3, 0xff, 0xff, 0, 1), "Produce version 3: it ends too early"},
		"a produce with a lie":           {header(0, 3, 0xff, 0xff, 0, 1, 0, 0, 0, 9, 0x7f, 0xff, 0xff, 0xff), "Produce: more than 100000"},
		"a produce that wants no answer": {header(0, 3, 0xff, 0xff, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0), "without acknowledgement"},
		"another protocol":               {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "a request of 1195725856 bytes"},
	} {
		w := v.dial(t)
		before := frame(kmsg.NewPtrApiVersionsRequest(), 5)
		go w.nc.Write(append(before, tt.send...)) // the server may close before it took all
		if got := w.receive(kmsg.NewPtrApiVersionsResponse()); got != 5 {
			t.Errorf("%s: an answer to %d", name, got)
		}
		w.closed()
		if !strings.Contains(v.log.String(), tt.log) {
			t.Errorf("%s: the log does not say %q", name, tt.log)
		}
	}
	ask[*kmsg.ApiVersionsResponse](v.dial(t), kmsg.NewPtrApiVersionsRequest(), 4)
}

// TestHalfOpen: a client that sends nothing, a part of a request or a byte now and then is let go of.
func TestHalfOpen(t *testing.T) {
	v := serve(t, local, Options{ReadTimeout: 50 * time.Millisecond, IdleTimeout: 100 * time.Millisecond})
	whole := frame(kmsg.NewPtrApiVersionsRequest(), 1)
	for _, send := range [][]byte{nil, whole[:2], whole[:4], whole[:len(whole)-1], whole} {
		w := v.dial(t)
		if send != nil {
			w.send(send)
		}
		w.closed()
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 0 })
}

// TestPromises: a client that promises much and sends little costs little.
func TestPromises(t *testing.T) {
	v := serve(t, local, Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		v.dial(t).send(append([]byte{0x06, 0x40, 0, 0}, header(0, 3)[4:]...))
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 100 })
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("100 promises of 100 MiB cost %d bytes", grown)
	}
}

// TestSlowReader: a client that asks and does not read is let go of.
func TestSlowReader(t *testing.T) {
	v := serve(t, local, Options{WriteTimeout: 100 * time.Millisecond})
	w := v.dial(t)
	w.nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	topic := v.host.Topics()[0]
	one := frame(fetchOf(topic, topic.Partitions[0].Offsets.LogStart, 0), 1)
	go func() {
		for {
			if _, err := w.nc.Write(one); err != nil { // until the server closes
				return
			}
		}
	}()
	hammer.Eventually(t, 20*time.Second, func() bool { return strings.Contains(v.log.String(), "the answer could not be sent") })
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 0 })
}

// TestLargeProduce: one of many MiB is refused partition by partition, and its records are not kept.
func TestLargeProduce(t *testing.T) {
	v := serve(t, local, Options{})
	w := v.dial(t)
	for version := int16(3); version <= 13; version++ {
		q := kmsg.NewPtrProduceRequest()
		q.Acks = -1
		q.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", TopicID: [16]byte{1}, Partitions: []kmsg.ProduceRequestTopicPartition{
			{Partition: 3, Records: make([]byte, 8<<20)}, {Partition: 5}}}}
		resp := ask[*kmsg.ProduceResponse](w, q, version)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
			t.Fatalf("version %d: %+v", version, resp)
		}
		for i, want := range []int32{3, 5} {
			p := resp.Topics[0].Partitions[i]
			if p.Partition != want || p.ErrorCode != topicAuthorizationFailed || version >= 8 && *p.ErrorMessage != readOnly {
				t.Errorf("version %d: %+v", version, p)
			}
		}
	}
}

// TestSlowReadersShareMemory: where a fetch waits for memory, the client that takes nothing for the longest time loses its
// connection, and the fetch is answered. Local records take none.
func TestSlowReadersShareMemory(t *testing.T) {
	seg := kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 9, Size: 12 << 20})
	store := memrsm.New(memrsm.Inline, seg)
	meta := t.TempDir()
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(seg)...)
	v := serveHost(t, host.Config{RSM: store, Metadata: "dir:" + meta, MemoryBytes: 32 << 20}, Options{})
	q := frame(fetchOf(v.host.Topics()[0], 0, 0), 1)
	for i := range 2 {
		ours, theirs := net.Pipe() // the kernel would take megabytes of an answer that nobody reads
		t.Cleanup(func() { ours.Close() })
		v.welcome(theirs)
		(&wire{t, ours}).send(q)
		hammer.Eventually(t, 10*time.Second, func() bool { return v.unsent.count() == i+1 })
	}
	resp := ask[*kmsg.FetchResponse](v.dial(t), fetchOf(v.host.Topics()[0], 0, 0), 18)
	if n := len(resp.Topics[0].Partitions[0].RecordBatches); n < 12<<20 {
		t.Errorf("%d bytes", n)
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return strings.Contains(v.log.String(), "others need the memory") })
}
