package wasm

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// Why a call was stopped, as context.Cause tells.
var (
	errTimeout   = errors.New("the call ran for too long")
	errAbandoned = errors.New("the reader has gone")
	errLingers   = errors.New("the module does not return after the end of its stream")
	errClosing   = errors.New("the plugin is being closed")
)

// leash bounds a call whose context has no deadline of its own, and any call that has nothing left to do. While the guest waits
// for its reader the bound does not count: a slow consumer is no fault of the guest.
type leash struct {
	cancel context.CancelCauseFunc
	bound  time.Duration // 0: the context has a deadline, which does it

	mu      sync.Mutex
	timer   *time.Timer
	lasting bool
	over    bool
}

// run starts the bound anew.
func (l *leash) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bound > 0 && !l.lasting {
		l.setLocked(l.bound, errTimeout)
	}
}

// hold stops the bound.
func (l *leash) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && !l.lasting {
		l.timer.Stop()
	}
}

// last gives the call a last d, whatever comes.
func (l *leash) last(d time.Duration, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lasting {
		l.setLocked(d, why)
		l.lasting = true
	}
}

func (l *leash) setLocked(d time.Duration, why error) {
	if l.over {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(d, func() { l.cancel(why) })
}

// end is called when the call has ended.
func (l *leash) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(nil)
}

// interruption is the kind of error for a call whose context is done, by the context's cause.
func interruption(cause error) abi.Kind {
	switch {
	case errors.Is(cause, errTimeout), errors.Is(cause, context.DeadlineExceeded):
		return abi.Deadline
	case errors.Is(cause, errClosing):
		return abi.Unavailable
	}
	return abi.Cancelled
}
