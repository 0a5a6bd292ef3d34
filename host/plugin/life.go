package plugin

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

const (
	// firstBackoff doubles with each death that follows soon on its start, up to maxBackoff.
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 2 * time.Minute
	// steady is how long an instance lives that is not in a crash loop: when it dies it is started again at once.
	steady = 10 * time.Second
	// startAgainTimeout bounds a start, whoever waits for it.
	startAgainTimeout = 20 * time.Second
)

// life is the instances of a plugin, one after another.
type life struct {
	current atomic.Pointer[instance]
	starts  atomic.Int64

	closing context.Context // ends when nothing may start, or wait for a start, any more
	ending  context.CancelFunc

	// turn holds one token: who has it may change what follows.
	turn    chan struct{}
	began   time.Time // of the current instance
	hurried int       // deaths soon after a start, and starts that failed, in a row
	next    time.Time // no start comes before
}

func newLife() life {
	closing, ending := context.WithCancel(context.Background())
	return life{closing: closing, ending: ending, turn: make(chan struct{}, 1)}
}

// now is the current instance, dead or alive.
func (l *life) now() instance { return *l.current.Load() }

// begin makes an instance the current one.
func (l *life) begin(in instance) {
	l.current.Store(&in)
	l.starts.Add(1)
	l.began = time.Now()
}

// end closes the current instance, and lets no other begin. It may be called more than once.
func (l *life) end(ctx context.Context) error {
	l.ending()
	l.turn <- struct{}{} // a start that has it ends with closing
	defer func() { <-l.turn }()
	return l.now().Close(ctx)
}

// died counts a death and says how long to wait before the next start: not at all where the instance had lived, else a
// while that grows and differs between plugins that died together.
func (l *life) died(lived time.Duration) {
	if lived >= steady {
		l.hurried = 0
		return
	}
	l.hurried++
	if l.hurried == 1 { // once may happen
		return
	}
	most := min(firstBackoff<<min(l.hurried-2, 20), maxBackoff)
	l.next = time.Now().Add(most/2 + rand.N(most/2))
}

// dead reports an instance that ended by itself. A module does not: its calls have instances of their own.
func dead(in instance) bool {
	p, ok := in.(interface{ Done() <-chan struct{} })
	if !ok {
		return false
	}
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// living gives an instance that runs: the current one, or where that died a new one, configured as it was. Calls wait for
// the start, one of them does it. An error is UNAVAILABLE where it failed or has to wait longer than ctx, PHASE after Close.
func (p *Plugin) living(ctx context.Context) (instance, error) {
	if in := p.life.now(); !dead(in) {
		return in, nil
	}
	select {
	case p.life.turn <- struct{}{}:
		defer func() { <-p.life.turn }()
	case <-ctx.Done():
		return nil, p.notYet(context.Cause(ctx))
	}
	if in := p.life.now(); !dead(in) { // another call started it
		return in, nil
	}
	return p.startAgain(ctx)
}

// startAgain starts the plugin in the place of an instance that died. The caller has the turn.
func (p *Plugin) startAgain(ctx context.Context) (instance, error) {
	if p.life.closing.Err() != nil {
		return nil, p.closed()
	}
	if !p.life.began.IsZero() { // this death is not counted yet
		lived := time.Since(p.life.began)
		p.life.died(lived)
		p.life.began = time.Time{}
		p.o.Log.Warn("the plugin died and is started again", "plugin", p.File(), "lived", lived.Round(time.Millisecond), "in", max(0, time.Until(p.life.next)).Round(time.Millisecond))
		p.life.now().Close(context.WithoutCancel(ctx)) // what is left of it: its files, and what stays of its process group
	}
	wait := time.NewTimer(time.Until(p.life.next))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return nil, p.notYet(context.Cause(ctx))
	case <-p.life.closing.Done():
		return nil, p.closed()
	}
	// A caller that goes away must not kill what others wait for. Close must: the end of the host waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startAgainTimeout)
	defer cancel()
	defer context.AfterFunc(p.life.closing, cancel)()
	in, err := p.launch(ctx)
	if err == nil {
		if err = p.configure(ctx, in); err != nil {
			in.Close(ctx)
		}
	}
	switch {
	case err != nil && p.life.closing.Err() != nil:
		return nil, p.closed()
	case err != nil:
		p.life.died(0)
		p.o.Log.Error("the plugin does not start again", "plugin", p.File(), "error", err, "next", max(0, time.Until(p.life.next)).Round(time.Millisecond))
		return nil, p.notYet(err)
	}
	p.life.begin(in)
	return in, nil
}

func (p *Plugin) closed() error {
	return abi.Errorf("call", p.File(), abi.Phase, "the plugin was closed")
}

func (p *Plugin) notYet(cause error) error {
	return abi.Errorf("call", p.File(), abi.Unavailable, "the plugin died and does not run again yet: %w", cause)
}
