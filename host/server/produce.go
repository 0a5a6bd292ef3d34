package server

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// producePartitions bounds how many partitions of a Produce are answered one by one.
const producePartitions = 100_000

// produceStep is what is counted at once of what is kept of a Produce, and producePart is about what is kept of a partition, with
// its answer.
const (
	produceStep = 64 << 10
	producePart = 300
)

// readProduce reads a Produce without its records: they are thrown away as they come, so that one of 100 MiB costs
// nothing. It ends behind the last partition; what follows is thrown away too. What is kept asks room for its bytes, in steps.
func readProduce(r io.Reader, req *kmsg.ProduceRequest, room func(bytes int64) bool) error {
	p := produceReader{r: r, flexible: req.IsFlexible(), room: room}
	p.text() // transactional id
	req.Acks = int16(binary.BigEndian.Uint16(p.bytes(2)))
	req.TimeoutMillis = int32(binary.BigEndian.Uint32(p.bytes(4)))
	left := producePartitions
	for range p.list(&left) {
		p.keep(producePart)
		t := kmsg.NewProduceRequestTopic()
		if req.Version >= 13 {
			copy(t.TopicID[:], p.bytes(16))
		} else {
			t.Topic = p.text()
		}
		for range p.list(&left) {
			p.keep(producePart)
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = int32(binary.BigEndian.Uint32(p.bytes(4)))
			p.skip(p.length(4))
			p.tags()
			if p.err != nil {
				return p.err
			}
			t.Partitions = append(t.Partitions, part)
		}
		p.tags()
		if p.err != nil {
			return p.err
		}
		req.Topics = append(req.Topics, t)
	}
	if p.err != nil {
		return p.err
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// produceReader reads the parts of a Produce. After an error it gives zeros.
type produceReader struct {
	r        io.Reader
	flexible bool
	err      error
	buf      [16]byte
	room     func(bytes int64) bool
	kept     int64 // since room was asked last
}

// keep counts n bytes that are kept.
func (p *produceReader) keep(n int64) {
	if p.kept += n; p.kept < produceStep || p.err != nil {
		return
	}
	if p.kept = 0; !p.room(produceStep) {
		p.err = broken("Produce: its partitions would take what other requests have of memory.max")
	}
}

// bytes gives the next n, at most 16.
func (p *produceReader) bytes(n int) []byte {
	b := p.buf[:n]
	if p.err == nil {
		_, p.err = io.ReadFull(p.r, b)
	}
	if p.err != nil {
		clear(b)
	}
	return b
}

// length reads that of what follows, which stands in width bytes or is a compact one; null is 0.
func (p *produceReader) length(width int) int64 {
	n := int64(-1)
	switch {
	case p.flexible && p.err == nil:
		var u uint32
		u, p.err = readUvarint(p.r)
		n = int64(u) - 1
	case p.flexible:
	case width == 2:
		n = int64(int16(binary.BigEndian.Uint16(p.bytes(2))))
	default:
		n = int64(int32(binary.BigEndian.Uint32(p.bytes(4))))
	}
	if p.err != nil {
		return 0
	}
	return max(n, 0)
}

func (p *produceReader) text() string {
	n := p.length(2)
	if n > math.MaxInt16 {
		p.err = broken("Produce: a name of %d bytes", n)
	}
	if p.err != nil {
		return ""
	}
	if p.keep(n); p.err != nil {
		return ""
	}
	b := make([]byte, n)
	_, p.err = io.ReadFull(p.r, b)
	return string(b)
}

// list reads the length of a list; left bounds all of them.
func (p *produceReader) list(left *int) int {
	n := p.length(4)
	if p.err == nil && n > int64(*left) {
		p.err = broken("Produce: more than %d topics and partitions", producePartitions)
	}
	if p.err != nil {
		return 0
	}
	*left -= int(n)
	return int(n)
}

func (p *produceReader) skip(n int64) {
	if p.err == nil {
		_, p.err = io.CopyN(io.Discard, p.r, n)
	}
}

func (p *produceReader) tags() {
	if p.flexible && p.err == nil {
		p.err = skipTags(p.r)
	}
}
