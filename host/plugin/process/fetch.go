package process

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

// FetchLogSegment asks the plugin where the bytes are, or for them. ctx holds for the stream of the answer too, until it
// is closed.
func (p *Plugin) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	req := &abipb.FetchLogSegmentRequest{Segment: abipb.FromSegment(seg), Start: r.Start, End: r.End}
	return p.fetch(ctx, "fetch_log_segment", seg.Key(), func(ctx context.Context) (grpc.ClientStream, error) {
		return abipb.NewRemoteStorageManagerClient(p.data).FetchLogSegment(ctx, req)
	})
}

// FetchIndex does the same for an index.
func (p *Plugin) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	req := &abipb.FetchIndexRequest{Segment: abipb.FromSegment(seg), IndexType: int32(t)}
	return p.fetch(ctx, "fetch_index", seg.Key(), func(ctx context.Context) (grpc.ClientStream, error) {
		return abipb.NewRemoteStorageManagerClient(p.data).FetchIndex(ctx, req)
	})
}

func (p *Plugin) fetch(ctx context.Context, op, subject string, open func(context.Context) (grpc.ClientStream, error)) (*abi.Source, error) {
	if err := p.enter(op, subject); err != nil {
		return nil, err
	}
	s := &stream{p: p, op: op, subject: subject, leave: sync.OnceFunc(p.leave)}
	_, bounded := ctx.Deadline()
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if !bounded {
		s.timer = time.AfterFunc(p.callTimeout, func() { s.cancel(errWaited) })
	}
	src, err := s.begin(open)
	if err != nil {
		s.Close()
		return nil, err
	}
	if src.Location != nil {
		s.Close()
		return src, nil
	}
	src.Stream = s
	return src, nil
}

// stream is one fetch: the RPC, and the bytes that come over it. It is closed with the answer, or by the reader.
type stream struct {
	p           *Plugin
	op, subject string
	ctx         context.Context // of the call, which the stream is; the RPC's own is over with the RPC
	cancel      context.CancelCauseFunc
	rpc         grpc.ClientStream
	leave       func()      // to be called when nothing more is to come
	timer       *time.Timer // cancels the RPC when a single wait is too long; nil: the caller set a deadline

	mu    sync.Mutex // held by the Read that runs; Close first cancels, then waits for it
	frame abipb.Frame
	got   int64  // bytes read
	sum   uint32 // of them
	err   error  // what every further Read returns
}

var (
	errWaited = errors.New("no answer in time")
	errClosed = errors.New("the stream was closed")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recv waits for the next message.
func (s *stream) recv() error {
	if s.timer != nil {
		s.timer.Reset(s.p.callTimeout)
		defer s.timer.Stop()
	}
	return s.rpc.RecvMsg(&s.frame)
}

func (s *stream) fail(kind abi.Kind, format string, args ...any) error {
	return abi.Errorf(s.op, s.subject, kind, "the plugin %s "+format, append([]any{s.p.name}, args...)...)
}

// begin makes the call and takes the first reply, and the call's end where that is all.
func (s *stream) begin(open func(context.Context) (grpc.ClientStream, error)) (*abi.Source, error) {
	var err error
	if s.rpc, err = open(s.ctx); err != nil {
		return nil, s.p.callError(s.ctx, s.op, s.subject, err)
	}
	switch err := s.recv(); {
	case err == io.EOF:
		return nil, s.fail(abi.Internal, "ended the call without an answer")
	case err != nil:
		return nil, s.p.callError(s.ctx, s.op, s.subject, err)
	case s.frame.Reply.GetSource() == nil:
		return nil, s.fail(abi.Internal, "did not begin its answer with a source")
	}
	src, err := s.frame.Reply.GetSource().ToABI()
	if err != nil {
		return nil, abi.AsError(s.op, s.subject, err)
	}
	if src.Location != nil {
		return src, s.finish()
	}
	return src, nil
}

// Read gives bytes of the stream: each is moved once, from where it arrived to b. At the end it reports io.EOF only when
// the plugin said that this is the end, and all of it arrived as it was sent.
func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) == 0 {
		return 0, nil
	}
	for s.frame.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		if s.err = s.next(); s.err != nil {
			s.leave()
		}
	}
	n := s.frame.Read(b)
	s.got += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, b[:n])
	return n, nil
}

// next takes a reply after the first: data, or the end.
func (s *stream) next() error {
	switch err := s.recv(); {
	case err == io.EOF:
		return s.fail(abi.Corrupt, "sent %d bytes and then no end: they are truncated", s.got)
	case err != nil:
		return s.p.callError(s.ctx, s.op, s.subject, err)
	case s.frame.Len() > abipb.MaxFrame:
		n := s.frame.Len()
		s.frame.Free()
		return s.fail(abi.Internal, "sent %d bytes in one reply; the most is %d", n, abipb.MaxFrame)
	case s.frame.Reply == nil || s.frame.Reply.Reply == nil: // data, or something from a newer contract
		return nil
	}
	end := s.frame.Reply.GetEnd()
	switch {
	case end == nil:
		return s.fail(abi.Internal, "sent a second source")
	case end.GetBytesSent() != s.got:
		return s.fail(abi.Corrupt, "says that it sent %d bytes, and %d arrived", end.GetBytesSent(), s.got)
	case end.GetCrc32C() != s.sum:
		return s.fail(abi.Corrupt, "sent %d bytes with the checksum %08x, and what arrived has %08x", s.got, end.GetCrc32C(), s.sum)
	}
	if err := s.finish(); err != nil {
		return err
	}
	return io.EOF
}

// finishWait is how long a plugin may take to end a call after its last reply. The answer is complete by then.
const finishWait = time.Second

// finish takes the end of the call, which costs nothing where it comes with the last reply; cancelling instead would make
// the plugin see every call fail.
func (s *stream) finish() error {
	timer := time.AfterFunc(finishWait, func() { s.cancel(errWaited) })
	defer timer.Stop()
	switch err := s.rpc.RecvMsg(&s.frame); {
	case err == io.EOF:
		return nil
	case err == nil:
		s.frame.Free()
		return s.fail(abi.Internal, "went on after the end of its answer")
	case context.Cause(s.ctx) == errWaited:
		return nil
	default:
		return s.p.callError(s.ctx, s.op, s.subject, err)
	}
}

// Close ends the call, also under a Read that waits, which then reports CANCELLED.
func (s *stream) Close() error {
	s.cancel(errClosed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.leave()
	s.frame.Free()
	s.err = abi.E(s.op, s.subject, abi.Cancelled, errClosed)
	return nil
}

// usable reports why the plugin cannot be called.
func (p *Plugin) usable(op, subject string) error {
	if p.isClosed() {
		return p.errClosed(op, subject)
	}
	select {
	case <-p.child.exited:
		return p.gone(op, subject, nil)
	default:
		return nil
	}
}

func (p *Plugin) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.closed
}

func (p *Plugin) errClosed(op, subject string) error {
	return abi.Errorf(op, subject, abi.Phase, "the plugin %s was stopped", p.name)
}

// enter begins a fetch, which Close waits for. Without an error the caller owes a leave.
func (p *Plugin) enter(op, subject string) error {
	if err := p.usable(op, subject); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return p.errClosed(op, subject)
	}
	p.mu.fetches++
	return nil
}

func (p *Plugin) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.fetches--; p.mu.fetches == 0 && p.mu.closed {
		close(p.mu.idle)
	}
}

// callError gives the error of a call that failed: the plugin's own as it is, and else what is known about the plugin.
func (p *Plugin) callError(ctx context.Context, op, subject string, err error) error {
	e, bare := abipb.FromStatus(op, subject, err)
	if e == nil {
		return nil
	}
	if !bare {
		return e
	}
	cause := context.Cause(ctx)
	switch {
	case cause == errWaited:
		return abi.Errorf(op, subject, abi.Deadline, "the plugin %s said nothing for %v", p.name, p.callTimeout)
	case cause != nil:
		return abi.Errorf(op, subject, abi.KindOf(ctx.Err()), "waiting for the plugin %s: %w", p.name, cause)
	case p.isClosed():
		return abi.Errorf(op, subject, abi.Unavailable, "the plugin %s was stopped during the call", p.name)
	case tooLarge(err):
		return abi.Errorf(op, subject, abi.Internal, "the plugin %s sent more than %d bytes in one message", p.name, maxMessage)
	case e.Kind == abi.Unavailable:
		return p.gone(op, subject, e.Err)
	}
	return e
}

// tooLarge recognizes gRPC's refusal of a message, which has the code of a store that asks to slow down.
func tooLarge(err error) bool {
	st, ok := status.FromError(err)
	return ok && st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: received message larger than max")
}

// gone is the error for a plugin that cannot be reached. Its process may need a moment to be seen dead.
func (p *Plugin) gone(op, subject string, words error) error {
	if p.child.await(context.Background(), pipeWait) {
		return abi.Errorf(op, subject, abi.Unavailable, "the plugin %s has ended (%s)%s", p.name, p.child.exitText(), p.child.out.quoteTail())
	}
	return abi.Errorf(op, subject, abi.Unavailable, "the plugin %s does not take calls, though its process %d runs: %w", p.name, p.child.pid(), words)
}
