package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawClient is a connection on which one Fetch follows another: what a real client costs must not hide what a server does.
type rawClient struct {
	nc  net.Conn
	buf []byte
}

func dialRaw(address string) (*rawClient, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &rawClient{nc: nc}, nil
}

// ask sends a request and gives its answer. What the answer holds is good until the next one.
func (c *rawClient) ask(q kmsg.Request) (kmsg.Response, error) {
	c.nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, q, 1)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, err
	}
	if n := int(binary.BigEndian.Uint32(size[:])); n > cap(c.buf) {
		c.buf = make([]byte, n)
	} else {
		c.buf = c.buf[:n]
	}
	if _, err := io.ReadFull(c.nc, c.buf); err != nil {
		return nil, err
	}
	resp := q.ResponseKind()
	resp.SetVersion(q.GetVersion())
	head := 4
	if resp.IsFlexible() {
		head++
	}
	return resp, resp.ReadFrom(c.buf[head:])
}

// fetch is a Fetch of partitions of a topic by name, from offset 0 on.
func fetchByName(topic string, partitionMax int32, partitions ...int32) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.Version, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = 12, 500, 1, 50<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for _, n := range partitions {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = n, partitionMax
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = []kmsg.FetchRequestTopic{t}
	return q
}

// errStillRead is REPLICA_NOT_AVAILABLE: the server still reads what tells of a partition, and a client asks again.
var errStillRead = errors.New("not all of this partition is known yet")

// received counts the bytes of records of an answer, each of whose partitions must be good.
func received(resp kmsg.Response) (bytes int64, err error) {
	for _, t := range resp.(*kmsg.FetchResponse).Topics {
		for _, p := range t.Partitions {
			switch p.ErrorCode {
			case 0:
			case 9:
				err = errStillRead
			default:
				return bytes, fmt.Errorf("%s-%d: error %d", t.Topic, p.Partition, p.ErrorCode)
			}
			bytes += int64(len(p.RecordBatches))
		}
	}
	return bytes, err
}
