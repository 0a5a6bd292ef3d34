package process

import (
	"context"
	"syscall"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

// How long each step of a stop may take, when the one before it did not end the process.
const (
	quietWait = time.Second            // for Drain, where this host waits for no call
	closeWait = 250 * time.Millisecond // after its connections were closed: the SDK ends by that
	termWait  = time.Second            // after SIGTERM
	killWait  = 2 * time.Second        // after SIGKILL; more is the kernel's trouble
)

// Close ends the plugin: it lets its calls end, closes its connections, then ends its process group and, on Linux, what
// left that, by force if need be, and removes its files. ctx may hasten that: when it is done, force comes at once. Close may be called more than once.
func (p *Plugin) Close(ctx context.Context) error {
	p.closeOnce.Do(func() {
		p.drain(ctx, p.retire())
		p.child.noteDescendants()
		p.closeConns()
		p.child.dropLifeline()
		for _, step := range []struct {
			signal syscall.Signal
			wait   time.Duration
		}{{0, closeWait}, {syscall.SIGTERM, termWait}} {
			if step.signal != 0 {
				p.child.signal(step.signal)
			}
			if p.child.await(ctx, step.wait) {
				break
			}
		}
		p.closeErr = p.abandon()
	})
	return p.closeErr
}

// retire lets no further call begin, and gives what is closed when the last fetch ends.
func (p *Plugin) retire() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.closed = true
	p.mu.idle = make(chan struct{})
	if p.mu.fetches == 0 {
		close(p.mu.idle)
	}
	return p.mu.idle
}

// drain asks the plugin to take no more calls, and waits for those that run: for the plugin to have answered, and for the
// answers' readers to have them.
func (p *Plugin) drain(ctx context.Context, idle <-chan struct{}) {
	limit := p.stopTimeout
	select {
	case <-idle: // what still runs was given up: a call that hangs would hold up the end of the host
		limit = min(limit, quietWait)
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// A plugin may lack Drain, hang, or be dead: then the next steps end it.
	_, _ = abipb.NewRemoteStorageManagerClient(p.control).Drain(ctx, &abipb.DrainRequest{DeadlineMs: limit.Milliseconds()})
	select {
	case <-idle:
	case <-ctx.Done():
	case <-p.child.exited: // nothing more comes; what did is with the readers
	}
}

func (p *Plugin) closeConns() {
	if p.control != nil {
		p.control.Close()
	}
	if p.data != nil {
		p.data.Close()
	}
	p.stdio.Wait()
}

// abandon kills what is left and removes every trace. It is all there is to do for a plugin that did not start.
func (p *Plugin) abandon() error {
	p.closeConns()
	defer p.dir.remove()
	if p.child.pid() == 0 {
		return nil
	}
	p.child.dropLifeline()
	p.child.kill()
	if !p.child.await(context.Background(), killWait) {
		return abi.Errorf("stop plugin", p.name, abi.Unavailable, "the process %d is still there %v after SIGKILL", p.child.pid(), killWait)
	}
	return nil
}
