package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/access"
)

// BenchmarkTransport is a Fetch of a local log over plain TCP, by sendfile, and over TLS, with the client in the same process.
func BenchmarkTransport(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "TLS"}[encrypted], func(b *testing.B) {
			k, o := newKeep(b), access.Options{}
			if encrypted {
				k.tls(&o)
			}
			v := k.serve(o, Options{})
			nc, err := net.Dial("tcp", v.address)
			if err != nil {
				b.Fatal(err)
			}
			if encrypted {
				nc = tls.Client(nc, k.client(pkix.Name{}))
			}
			defer nc.Close()
			q, topic := kmsg.NewPtrFetchRequest(), v.host.Topics()[0]
			q.MaxBytes, q.SessionEpoch, q.Version = 1<<20, -1, 11
			part := kmsg.NewFetchRequestTopicPartition()
			part.PartitionMaxBytes, part.FetchOffset = 1<<20, topic.Partitions[0].Offsets.LogStart
			q.Topics = []kmsg.FetchRequestTopic{{Topic: topic.Name, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
			ask := frame(q, 1)
			var size [4]byte
			for b.Loop() {
				if _, err := nc.Write(ask); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(nc, size[:]); err != nil {
					b.Fatal(err)
				}
				n := int64(size[0])<<24 | int64(size[1])<<16 | int64(size[2])<<8 | int64(size[3])
				if _, err := io.CopyN(io.Discard, nc, n); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
		})
	}
}
