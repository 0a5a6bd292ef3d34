package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/budget"
)

const (
	// requestMax bounds what is kept of a request in memory. A Fetch of 60,000 partitions fits.
	requestMax = 2 << 20
	// uncountedMax: what is larger takes its bytes from MaxQueuedBytes until it is answered: each connection may send some
	// that nobody answers yet, behind a Fetch that waits an hour, for one.
	uncountedMax = 4 << 10
	// undecodedMax: what is larger takes what it is when it is decoded from its share of memory.max.
	undecodedMax = 256

	headerMin = 8 // key, version, correlation id
)

// request is one request of a client.
type request struct {
	api         *api
	key         int16
	version     int16
	correlation int32
	client      string
	id          string // in log, trace and error
	msg         kmsg.Request
	after       func() // lets go of what the answer is made of; nil: nothing
	counted     func() // gives back its share of what requests may take of memory; nil: it has none
	weight      int64  // bytes that msg takes, beside itself
	decoded     *budget.Held
	making      making // its answer

	early       bool // its client has not proved who it is
	unsupported bool // an ApiVersions of a version that is not served: it is answered as version 0
}

func (r *request) release() {
	if r.after != nil {
		r.after()
		r.after = nil
	}
}

// forget ends a request, answered or not.
func (r *request) forget() {
	if r.counted != nil {
		r.counted()
		r.counted = nil
	}
	r.decoded.Give()
	r.decoded = nil
}

func (r *request) answerVersion() int16 {
	if r.unsupported {
		return 0
	}
	return r.version
}

// protocolError is why a connection can't go on.
type protocolError struct {
	client string
	text   string
	kind   string // a constant, for the log
}

func (e *protocolError) Error() string { return e.text }

func broken(format string, args ...any) error {
	return &protocolError{text: fmt.Sprintf(format, args...), kind: format}
}

// readRequest reads one request. An error is a *protocolError, errDraining, or that of the connection.
func (c *conn) readRequest(ctx context.Context, first bool) (*request, error) {
	patience := c.s.o.IdleTimeout
	if first {
		patience = c.s.o.ReadTimeout
	}
	if err := c.waitUntil(patience); err != nil {
		return nil, err
	}
	if _, err := c.r.Peek(1); err != nil {
		return nil, c.failed(err)
	}
	if err := c.waitUntil(c.s.o.ReadTimeout); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, c.failed(err)
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	most := c.s.o.MaxRequestBytes
	if c.entering != nil {
		most = min(most, earlyMax)
	}
	if n < headerMin || int(n) > most {
		return nil, broken("a request of %d bytes: want %d to %d%s", n, headerMin, most, protocolOf(size))
	}
	if err := c.waitUntil(c.s.o.ReadTimeout + time.Duration(n>>20)*time.Second); err != nil {
		return nil, err
	}
	body := &io.LimitedReader{R: c.r, N: int64(n)}
	req, err := c.parse(ctx, body, int(n))
	if err != nil {
		req.forget()
	}
	switch ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); {
	case ended && body.N <= 0:
		early := broken("%s version %d: it ends too early", kmsg.NameForKey(req.key), req.version).(*protocolError)
		early.client = req.client
		return nil, early
	case err != nil:
		if p := (*protocolError)(nil); errors.As(err, &p) {
			p.client = req.client
		}
		return nil, c.failed(err)
	}
	return req, nil
}

// parse reads a request of n bytes. With an error the request is there as far as it was read.
func (c *conn) parse(ctx context.Context, r io.Reader, n int) (*request, error) {
	req, err := readHeader(r)
	if err != nil {
		return req, err
	}
	req.id = fmt.Sprintf("%s.%d", c.name, req.correlation)
	if req.msg = kmsg.RequestForKey(req.key); req.msg == nil {
		return req, broken("there is no api key %d", req.key)
	}
	name := kmsg.NameForKey(req.key)
	if req.api = c.s.apis[req.key]; req.api == nil {
		return req, broken("%s (%d) is not served", name, req.key)
	}
	if req.early = c.entering != nil; req.early {
		if err := checkEarly(req.key); err != nil {
			return req, err
		}
	}
	if req.version < req.api.min || req.version > req.api.max {
		if req.key != kmsg.ApiVersions.Int16() {
			return req, broken("%s version %d: versions %d to %d are served", name, req.version, req.api.min, req.api.max)
		}
		req.unsupported = true
		_, err := io.Copy(io.Discard, r)
		return req, err
	}
	req.msg.SetVersion(req.version)
	if req.msg.IsFlexible() {
		if err := skipTags(r); err != nil {
			return req, err
		}
	}
	if produce, ok := req.msg.(*kmsg.ProduceRequest); ok {
		return req, readProduce(r, produce, func(n int64) bool { return c.keepMore(req, n) })
	}
	return req, c.readBody(ctx, r, req, n)
}

// readBody reads and parses what is kept in memory.
func (c *conn) readBody(ctx context.Context, r io.Reader, req *request, n int) error {
	if n > requestMax {
		return broken("%s of %d bytes: at most %d are read", kmsg.NameForKey(req.key), n, requestMax)
	}
	if n > uncountedMax && !req.early {
		if err := c.count(ctx, req, n); err != nil {
			return err
		}
	}
	var body bytes.Buffer // it grows as bytes come, not by what the client promises
	if _, err := body.ReadFrom(r); err != nil {
		return err
	}
	if n > undecodedMax && !req.early {
		if err := c.countDecoded(ctx, req, n); err != nil {
			return err
		}
	}
	if err := req.msg.ReadFrom(body.Bytes()); err != nil {
		return broken("%s version %d: it can't be parsed: %v", kmsg.NameForKey(req.key), req.version, err)
	}
	req.weight = weigh(req.msg)
	req.decoded.Keep(req.weight)
	return nil
}

// countDecoded takes what a request may be when it is decoded. It has arrived by then: nobody holds it up.
func (c *conn) countDecoded(ctx context.Context, req *request, n int) error {
	waiting, cancel := context.WithTimeout(ctx, c.s.o.ReadTimeout)
	defer cancel()
	var err error
	if req.decoded, err = c.s.take(waiting, c.s.memory.decoded, int64(n)*decodeFactor); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return broken("%s of %d bytes: other requests take all that requests may take of memory.max, %d bytes", kmsg.NameForKey(req.key), n,
			c.s.memory.decoded.Size())
	}
	return nil
}

// keepMore takes n bytes more for a request that is decoded as it comes, and does not wait for them: it may come slowly.
func (c *conn) keepMore(req *request, n int64) bool {
	more := c.s.memory.decoded.Try(n)
	if more == nil {
		return false
	}
	req.decoded = req.decoded.With(more)
	return true
}

// count takes a large request's share of what requests may take of memory, and waits where there is none left.
func (c *conn) count(ctx context.Context, req *request, n int) error {
	waiting, cancel := context.WithTimeout(ctx, c.s.o.ReadTimeout)
	defer cancel()
	if err := c.s.queued.Acquire(waiting, int64(n)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return broken("%s of %d bytes: other requests take all of queued.max.request.bytes, %d", kmsg.NameForKey(req.key), n, c.s.o.MaxQueuedBytes)
	}
	req.counted = func() { c.s.queued.Release(int64(n)) }
	return c.waitUntil(c.s.o.ReadTimeout + time.Duration(n>>20)*time.Second)
}

// protocolOf says which protocol a size that can't be looks like.
func protocolOf(size [4]byte) string {
	switch {
	case size[0] == 0x16 && size[1] == 3:
		return "; it looks like TLS, which is not spoken here"
	case string(size[:]) == "GET " || string(size[:]) == "POST":
		return "; it looks like HTTP"
	}
	return ""
}

// readHeader reads what stands before the tags of a request's header.
func readHeader(r io.Reader) (*request, error) {
	req := &request{}
	var h [headerMin]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return req, err
	}
	req.key, req.version = int16(binary.BigEndian.Uint16(h[:])), int16(binary.BigEndian.Uint16(h[2:]))
	req.correlation = int32(binary.BigEndian.Uint32(h[4:]))
	var err error
	req.client, err = readString(r)
	return req, err
}

// readString reads a nullable string; null is empty.
func readString(r io.Reader) (string, error) {
	var b [2]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", err
	}
	n := int16(binary.BigEndian.Uint16(b[:]))
	if n < 0 {
		return "", nil
	}
	s := make([]byte, n)
	_, err := io.ReadFull(r, s)
	return string(s), err
}

// skipTags passes over tagged fields.
func skipTags(r io.Reader) error {
	count, err := readUvarint(r)
	for ; err == nil && count > 0; count-- {
		if _, err = readUvarint(r); err != nil {
			break
		}
		var n uint32
		if n, err = readUvarint(r); err == nil {
			_, err = io.CopyN(io.Discard, r, int64(n))
		}
	}
	return err
}

func readUvarint(r io.Reader) (uint32, error) {
	var v uint64
	var b [1]byte
	for shift := 0; shift < 35; shift += 7 {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return 0, err
		}
		v |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			break
		}
	}
	if v > math.MaxUint32 || b[0] >= 0x80 {
		return 0, broken("a number of more than 32 bits")
	}
	return uint32(v), nil
}
