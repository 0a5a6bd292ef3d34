package wasm

import (
	"context"
	"hash/crc32"
	"sync"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// abandonGrace is how long a guest may take to return after its reader has gone, or after the end of its stream.
const abandonGrace = time.Second

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stream is the pipe from a guest's out_write to the reader of the Source. There is no buffer in it: the reader offers
// its own, and the guest's side copies into that, from the guest's memory, while the guest stands in out_write.
type stream struct {
	call *call

	want   chan []byte   // the reader's buffer, waiting to be filled
	got    chan int      // how many bytes were put into it; has room for the one answer
	closed chan struct{} // closed by Close: nobody reads any more
	once   sync.Once
	ended  chan struct{} // closed by finish: no more bytes will come, and err says why
	err    error         // io.EOF after a verified end

	// The guest's side; only the goroutine that runs the guest touches it.
	sent     int64
	sum      uint32
	whole    bool // out_end came, and agrees with what was sent
	finished bool
}

func newStream(c *call) *stream {
	return &stream{call: c, want: make(chan []byte), got: make(chan int, 1), closed: make(chan struct{}), ended: make(chan struct{})}
}

// Read implements io.Reader. It is the reader's goroutine that waits here, and only one may.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	select {
	case <-s.closed:
		return 0, errClosedStream
	default:
	}
	select {
	case s.want <- p:
		return <-s.got, nil // comes at once: nothing blocks between the two in write
	case <-s.ended:
		return 0, s.err
	case <-s.closed:
		return 0, errClosedStream
	case <-s.call.done:
		return 0, s.interrupted()
	}
}

// interrupted ends a Read whose context is done. The guest mostly says why in a moment; one that hangs does not keep its
// reader. A call that ends well ends the stream before its context.
func (s *stream) interrupted() error {
	grace := time.NewTimer(unwindGrace)
	defer grace.Stop()
	select {
	case <-s.ended:
		return s.err
	case <-grace.C:
		c := s.call
		return abi.Errorf(c.op, c.name, interruption(c.cause()), "the stream stands still: %w", c.cause())
	}
}

var errClosedStream = abi.E("read", "", abi.Cancelled, abi.Text("the stream is closed"))

// Close tells the guest that nobody reads any more, and does not wait for it: a guest that does not return within
// abandonGrace is stopped, and Plugin.Close waits for that.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.call.leash.last(s.call.grace, errAbandoned)
	})
	return nil
}

// write gives b to the reader, however many reads that takes. The kind is 0 when all of it is taken.
func (s *stream) write(ctx context.Context, b []byte) abi.Kind {
	for rest := b; len(rest) > 0; {
		select {
		case <-s.closed:
			return abi.Cancelled
		case <-ctx.Done():
			return interruption(context.Cause(ctx))
		case p := <-s.want:
			n := copy(p, rest)
			rest = rest[n:]
			s.got <- n
		}
	}
	s.sent += int64(len(b))
	s.sum = crc32.Update(s.sum, castagnoli, b)
	return 0
}

// finish ends the stream for its reader, with io.EOF or with what went wrong. Only the first end counts.
func (s *stream) finish(err error) {
	if !s.finished {
		s.finished = true
		s.err = err
		close(s.ended)
	}
}

// begin makes the call's stream, and hands the Source to whoever waits for it. It is nil where the call cannot have one;
// then the call has failed.
func (c *call) begin() *stream {
	if c.stream != nil || c.lie != nil {
		return c.stream
	}
	switch src, err := abiwasm.DecodeSource(c.reply); {
	case !c.fetch:
		c.lies("it sends a stream, which %s has none of", c.op)
	case err != nil:
		c.lies("it sends a stream after a reply that is no Source: %v", err)
	case src.Location != nil:
		c.lies("it sends a stream after a location")
	default:
		c.stream = newStream(c)
		src.Stream = c.stream
		c.onStream()
		c.answer <- answer{src: src}
	}
	return c.stream
}

func hostOutWrite(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 0)
	if !in {
		return fail(abi.Invalid)
	}
	s := c.begin()
	if s == nil || s.whole || s.finished {
		c.lies("it sends more after the end of its stream")
		return fail(abi.Phase)
	}
	c.leash.hold()
	defer c.leash.run()
	if kind := s.write(ctx, b); kind != 0 {
		return fail(kind)
	}
	return ok(len(b), 0)
}

func hostOutEnd(_ context.Context, c *call, _ api.Memory, args []uint64) uint64 {
	s := c.begin()
	if s == nil || s.whole || s.finished {
		c.lies("it ends its stream twice")
		return fail(abi.Phase)
	}
	bytes, sum := int64(args[0]), uint32(args[1])
	if bytes != s.sent || sum != s.sum {
		c.lies("it sent %d bytes with CRC32C %08x, and says that it were %d with %08x", s.sent, s.sum, bytes, sum)
		s.finish(c.host(abi.Corrupt, "the stream is not what the module says it sent: %v", c.lie))
		return fail(abi.Corrupt)
	}
	// The reader learns of it when the guest has returned: then its next call finds the instance free.
	s.whole = true
	c.leash.last(c.grace, errLingers)
	return ok(0, 0)
}

func hostCRC32C(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 1)
	if !in {
		return fail(abi.Invalid)
	}
	return ok(int(crc32.Update(uint32(args[0]), castagnoli, b)), 0)
}
