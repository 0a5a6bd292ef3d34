package wasm

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

func TestFullQueueIsExhausted(t *testing.T) {
	p := ready(t, Options{Instances: 1, MaxQueued: 1}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	hammer.Eventually(t, long, func() bool { return len(p.pool.places) == 0 }) // what configured it is done
	calls.Go(func() { ask(ctx, p, "loop") })
	hammer.Eventually(t, long, func() bool { return len(p.pool.places) == 1 })
	calls.Go(func() {
		if _, err := ask(ctx, p, "calls"); !errors.Is(err, abi.Cancelled) {
			t.Errorf("a call that waited: %v", err)
		}
	})
	hammer.Eventually(t, long, func() bool { return p.pool.queued.Load() == 1 })
	if _, err := ask(ctx, p, "calls"); !errors.Is(err, abi.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	cancel()
	calls.Wait()
	inline(t, p, "calls")
}

// An instance has one call at a time; the race detector would see two, and the guest's own runtime would not survive them.
func TestInstancesAreLeasedExclusively(t *testing.T) {
	p := ready(t, Options{Instances: 3}, nil)
	const P, N = 8, 30
	hammer.Run(t, P, N, func(_, n int) {
		switch n % 3 {
		case 0:
			src, err := ask(context.Background(), p, "stream")
			if err != nil {
				t.Errorf("stream: %v", err)
				return
			}
			defer src.Close()
			if n%2 == 0 {
				if got, err := io.Copy(io.Discard, src.Stream); err != nil || got != 3<<20 {
					t.Errorf("stream: %d, %v", got, err)
				}
			}
		default:
			src, err := ask(context.Background(), p, "calls")
			if err != nil {
				t.Errorf("location: %v", err)
				return
			}
			if _, err := strconv.Atoi(string(src.Location.Parts[0].Inline)); err != nil {
				t.Error(err)
			}
		}
	})
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	s := p.Stats()
	if s.Created > 3+3*streamsPerInstance || s.Traps != 0 {
		t.Errorf("%+v", s)
	}
}

func TestHammeringABadGuestLeavesAGoodPlugin(t *testing.T) {
	p := ready(t, Options{Instances: 2}, nil)
	topics := []string{"calls", "panic", "stream-panic", "exit", "loop", "stream-loop", "stream"}
	hammer.Run(t, 4, 2*len(topics), func(q, n int) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+10*q)*time.Millisecond)
		defer cancel()
		src, err := ask(ctx, p, topics[(n+q)%len(topics)])
		if err != nil {
			return // any error is right; what counts is that the process lives
		}
		if src.Stream != nil {
			io.Copy(io.Discard, src.Stream)
		}
		src.Close()
	})
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	for range 3 {
		inline(t, p, "calls")
	}
}

func TestCloseWaitsForCallsAndStopsThem(t *testing.T) {
	p := ready(t, Options{}, nil)
	src := open(t, t.Context(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	var looped error
	var call sync.WaitGroup
	call.Go(func() { _, looped = ask(context.Background(), p, "loop") })
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 2 })
	if err := p.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	call.Wait()
	if !errors.Is(looped, abi.Unavailable) && !errors.Is(looped, abi.Phase) { // PHASE where it had not begun
		t.Errorf("a call that Close stopped: %v", looped)
	}
	if _, err := io.Copy(io.Discard, src.Stream); !errors.Is(err, abi.Unavailable) {
		t.Errorf("a stream that Close stopped: %v", err)
	}
}

func TestCloseLetsACallFinish(t *testing.T) {
	p := ready(t, Options{}, nil)
	src := open(t, t.Context(), p, "stream", abi.Range{Start: 0, End: abi.ToEnd})
	defer src.Close()
	done := make(chan error)
	go func() { done <- p.Close(context.Background()) }() // awaited below
	hammer.Eventually(t, long, func() bool {
		_, err := ask(t.Context(), p, "calls")
		return errors.Is(err, abi.Phase)
	})
	if n, err := io.Copy(io.Discard, src.Stream); err != nil || n != 3<<20 {
		t.Errorf("the stream that ran: %d, %v", n, err)
	}
	if err := <-done; err != nil {
		t.Errorf("close: %v", err)
	}
}

// Freeing a module under a call that does not end would take the process with it.
func TestCloseDoesNotFreeWhatStillRuns(t *testing.T) {
	p := ready(t, Options{}, nil)
	p.grace = 10 * time.Millisecond
	_, stuck, err := p.enter(t.Context(), "stuck", configured)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := p.Close(ctx); !errors.Is(err, abi.Unavailable) || p.Stats().Instances != 1 {
			t.Errorf("close: %v, %+v", err, p.Stats())
		}
	}
	p.leave(stuck)
	if err := p.Close(ctx); err != nil || p.Stats().Instances != 0 {
		t.Errorf("close: %v, %+v", err, p.Stats())
	}
}

// A module is swapped by closing it while calls run in it: none may see freed memory.
func TestCloseUnderLoad(t *testing.T) {
	for range 5 {
		p := ready(t, Options{Instances: 2}, nil)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for {
					src, err := ask(context.Background(), p, "stream")
					if err != nil {
						if !errors.Is(err, abi.Phase) && !errors.Is(err, abi.Unavailable) {
							t.Error(err)
						}
						return
					}
					io.Copy(io.Discard, io.LimitReader(src.Stream, 1<<20))
					src.Close()
				}
			})
		}
		hammer.Eventually(t, long, func() bool { return p.Stats().Running >= 2 })
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		calls.Wait()
	}
}

func TestSpareInstancesGoWithTime(t *testing.T) {
	p := newPool(1, 1)
	now := time.Unix(1700000000, 0)
	var burst []*instance
	for range 3 {
		burst = append(burst, new(instance))
		if spare := p.put(burst[len(burst)-1], now); spare != nil {
			t.Error("a fresh instance is spare")
		}
	}
	warm := p.take()
	if warm != burst[2] {
		t.Error("the warmest instance is not the first to be taken")
	}
	now = now.Add(spareAge + 1)
	for i := range 3 {
		spare := p.put(warm, now)
		if want := i < 2; (len(spare) == 1) != want || want && spare[0] != burst[i] {
			t.Errorf("call %d: %d spare", i, len(spare))
		}
		warm = p.take()
	}
}
