package wasm

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// unwindGrace is how long a caller whose context is done waits for its guest to unwind, which takes microseconds at the
// next loop: the error can then quote the guest. A guest that does not unwind is left behind with its goroutine.
const unwindGrace = 50 * time.Millisecond

// enter begins a call in the state that it needs: it is counted, and bounded. The error is PHASE. The caller owes a leave.
func (p *Plugin) enter(ctx context.Context, op string, needs state) (context.Context, *call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != needs {
		return nil, nil, p.phaseLocked(op)
	}
	l := new(leash)
	if _, has := ctx.Deadline(); !has {
		l.bound = p.callTimeout
	}
	ctx, l.cancel = context.WithCancelCause(ctx)
	p.running[l] = struct{}{}
	l.run()
	return ctx, &call{op: op, name: p.name, start: time.Now(), roots: p.roots, leash: l, grace: p.grace, answer: make(chan answer, 1)}, nil
}

// leave ends a call. Nothing of it may touch an instance any more.
func (p *Plugin) leave(c *call) {
	c.leash.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, c.leash)
	if p.idle != nil && len(p.running) == 0 {
		close(p.idle)
	}
}

// fetch runs one of the fetches.
func (p *Plugin) fetch(ctx context.Context, export, op string, encode func([]byte) []byte) (*abi.Source, error) {
	ctx, c, err := p.enter(ctx, op, configured)
	if err != nil {
		return nil, err
	}
	c.fetch = true
	c.request = encode(make([]byte, 0, 256))
	a := p.await(ctx, c, export)
	return a.src, a.err
}

// simple runs an operation that answers with a document or with nothing, and gives the call with its reply.
func (p *Plugin) simple(ctx context.Context, export, op string, needs state) (*call, error) {
	ctx, c, err := p.enter(ctx, op, needs)
	if err != nil {
		return nil, err
	}
	return c, p.await(ctx, c, export).err
}

// await runs a call in a goroutine of its own, for as long as its guest runs: a stream goes on after the answer, and a
// guest may outlast the caller's patience.
func (p *Plugin) await(ctx context.Context, c *call, export string) answer {
	go p.serve(ctx, c, export) // ends with p.leave, which Close waits for; l.cancel stops it
	select {
	case a := <-c.answer:
		return a
	case <-ctx.Done():
	}
	grace := time.NewTimer(unwindGrace)
	defer grace.Stop()
	select {
	case a := <-c.answer:
		return a
	case <-grace.C: // whatever it still answers, nobody reads: its context is done
		cause := context.Cause(ctx)
		return answer{err: abi.Errorf(c.op, c.name, interruption(cause), "no answer after %v: %w", c.age(), cause)}
	}
}

// serve leases an instance, runs the export in it, answers, and gives the instance back.
func (p *Plugin) serve(ctx context.Context, c *call, export string) {
	defer p.leave(c)
	at, err := p.lease(ctx, c)
	if err != nil {
		c.answer <- answer{err: err}
		return
	}
	defer at.leave()
	if export == "" { // an instance is all that was asked for
		p.giveBack(ctx, c, false)
		c.answer <- answer{}
		return
	}
	c.onStream = func() { p.pool.toStream(at) }
	c.done, c.cause = ctx.Done(), func() error { return context.Cause(ctx) }
	c.reply = c.inst.reply
	failure, spoiled := c.run(ctx, c.inst.exports[export])
	if c.trap {
		p.stats.traps.Add(1)
	}
	a := c.conclude(failure)
	spoiled = spoiled || c.lie != nil
	if spoiled { // closing it takes longer than the caller needs to wait
		c.deliver(a)
		p.giveBack(ctx, c, true)
		return
	}
	p.giveBack(ctx, c, false)
	c.deliver(a)
}

// conclude makes the answer of a call that has ended, or the end of its stream.
func (c *call) conclude(failure *abi.Error) answer {
	if failure != nil {
		return answer{err: failure}
	}
	if !c.fetch {
		return answer{}
	}
	if c.stream == nil {
		src, err := abiwasm.DecodeSource(c.reply)
		switch {
		case err != nil:
			c.lies("its reply is no Source: %v", err)
			return answer{err: c.host(abi.Internal, "the module does not keep to the contract: %w", c.lie)}
		case src.Location != nil:
			return answer{src: src}
		}
	}
	if c.stream == nil || !c.stream.whole {
		c.lies("it did not end its stream")
		return answer{err: c.host(abi.Corrupt, "truncated: the module answered with a stream and did not end it")}
	}
	return answer{}
}

// deliver hands the answer to who waits for it: the caller, or the reader of the stream.
func (c *call) deliver(a answer) {
	switch {
	case c.stream == nil:
		c.answer <- a
	case c.stream.whole: // all bytes are there and verified: what came after is no matter of the reader's
		c.stream.finish(io.EOF)
	default:
		c.stream.finish(a.err)
	}
}

// lease waits for a place and gives the call an instance that is configured, where the plugin is. Errors are *abi.Error.
func (p *Plugin) lease(ctx context.Context, c *call) (*place, error) {
	at, err := p.pool.enter(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, abi.Errorf(c.op, c.name, interruption(err), "waited %v for an instance: %w", c.age(), err)
		}
		return nil, abi.E(c.op, c.name, abi.KindOf(err), errors.Unwrap(err))
	}
	if c.inst = p.pool.take(); c.inst == nil {
		inst, err := p.instantiate(ctx)
		if err != nil {
			at.leave()
			return nil, err
		}
		c.inst = inst
		p.stats.instances.Add(1)
		p.stats.created.Add(1)
	}
	if err := p.configure(ctx, c); err != nil {
		p.giveBack(ctx, c, true)
		at.leave()
		return nil, err
	}
	return at, nil
}

// configure gives an instance the plugin's settings, if it lacks them and there are any.
func (p *Plugin) configure(ctx context.Context, c *call) error {
	p.mu.Lock()
	values := p.values
	p.mu.Unlock()
	if c.inst.configured || values == nil {
		return nil
	}
	in := &call{op: "configure", name: p.name, start: time.Now(), inst: c.inst, roots: c.roots, leash: c.leash}
	in.request = abiwasm.AppendConfigure(nil, &abiwasm.ConfigureRequest{
		ABIVersion: abi.Version, HostVersion: p.hostVersion, Values: values,
	})
	err, _ := in.run(ctx, c.inst.exports[abiwasm.Configure])
	if in.trap {
		p.stats.traps.Add(1)
	}
	if err != nil {
		return err
	}
	c.inst.configured = true
	return nil
}

// warm proves the settings on one instance.
func (p *Plugin) warm(ctx context.Context) error {
	_, err := p.simple(ctx, "", "configure", configuring)
	return err
}

// keptReply is how large a buffer for replies an instance keeps.
const keptReply = 64 << 10

// giveBack ends the lease of the call's instance: it is closed where it is spoiled or too large.
func (p *Plugin) giveBack(ctx context.Context, c *call, spoiled bool) {
	if cap(c.reply) <= keptReply {
		c.inst.reply = c.reply[:0]
	}
	if spoiled || c.inst.full() {
		p.stats.replaced.Add(1)
		p.discard(ctx, c.inst)
		return
	}
	for _, i := range p.pool.put(c.inst, time.Now()) {
		p.discard(ctx, i)
	}
}

func (p *Plugin) discard(ctx context.Context, i *instance) {
	i.close(context.WithoutCancel(ctx), p.log)
	p.stats.instances.Add(-1)
}
