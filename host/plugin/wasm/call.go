package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/host/grant"
)

// call is one call of an export. Host functions find it in their context; only the goroutine that runs the guest touches
// it, but for the leash and the answer.
type call struct {
	op    string // the operation, for errors and for a refusal to stream
	name  string // of the plugin
	fetch bool   // answers with a Source, which may be a stream
	start time.Time
	inst  *instance
	roots *grant.Roots // nil: nothing is granted yet
	leash *leash
	grace time.Duration // abandonGrace

	request []byte
	reply   []byte // begins in the instance's buffer
	files   []openFile

	failed *abi.Error // what the guest told with "fail"
	trap   bool       // it did not return
	lie    error      // the first thing that it told and that is not so

	stream   *stream
	onStream func() // frees the call's place among those that do not stream
	done     <-chan struct{}
	cause    func() error // why done is closed
	answer   chan answer  // has room for the one answer of a fetch
}

// answer is what a fetch is waiting for.
type answer struct {
	src *abi.Source
	err error
}

// age is for messages.
func (c *call) age() time.Duration { return time.Since(c.start).Round(time.Millisecond) }

// now reads one of the contract's clocks.
func (c *call) now(clock uint32) (ns int64, has bool) {
	switch clock {
	case abiwasm.WallClock:
		return time.Now().UnixNano(), true
	case abiwasm.MonotonicClock:
		return int64(time.Since(c.inst.born)) + 1, true // never 0: some guests take that for "not set"
	}
	return 0, false
}

// lies notes that the guest does not keep to the contract. Such an instance is not used again: what else is wrong in it
// nobody knows.
func (c *call) lies(format string, args ...any) {
	if c.lie == nil {
		c.lie = fmt.Errorf(format, args...)
	}
}

// host makes an error that the host says about the module, with the module's last words.
func (c *call) host(kind abi.Kind, format string, args ...any) *abi.Error {
	e := abi.Errorf(c.op, c.name, kind, format, args...)
	if words := c.inst.log.words(); words != "" {
		e.Err = fmt.Errorf("%w%s", e.Err, words)
	}
	return e
}

// run calls an export and gives what came of it: nil, what the guest failed with, or what the host has to say about the
// guest. The instance must not be used again where spoiled is set.
func (c *call) run(ctx context.Context, f api.Function) (err *abi.Error, spoiled bool) {
	ctx = context.WithValue(ctx, callKey{}, c)
	c.inst.log.begin()
	stack := c.inst.stack[:]
	stack[0] = uint64(uint32(len(c.request)))
	trap := f.CallWithStack(ctx, stack)
	c.closeFiles()
	c.inst.log.end(ctx)
	if trap != nil {
		c.trap = true
		return c.trapped(ctx, trap), true
	}
	if err := c.judge(abiwasm.Result(stack[0])); err != nil {
		return err, c.lie != nil || ctx.Err() != nil
	}
	// The call was good, and yet its context may have marked the instance as closed in the same moment.
	return nil, ctx.Err() != nil
}

// judge compares what the guest returned with what it did.
func (c *call) judge(word abiwasm.Result) *abi.Error {
	switch {
	case c.lie != nil:
	case !word.Valid():
		c.lies("it returned %#x, which is no result", uint64(word))
	case word.Kind() != 0 && c.failed == nil:
		c.failed = abi.E(c.op, c.name, word.Kind(), abi.Text("the module gives no reason"))
	case c.failed != nil && word.Kind() != c.failed.Kind:
		c.lies("it failed with %v and returned %v", c.failed.Kind, word.Kind())
	case word.Kind() == 0 && int(word.Value()) != len(c.reply):
		c.lies("it returned a reply of %d bytes and made one of %d", word.Value(), len(c.reply))
	}
	if c.lie != nil {
		return c.host(abi.Internal, "the module does not keep to the contract: %w", c.lie)
	}
	return c.failed
}

// trapped says why a call ended without returning.
func (c *call) trapped(ctx context.Context, trap error) *abi.Error {
	exit := (*sys.ExitError)(nil)
	exited := errors.As(trap, &exit)
	if ctx.Err() != nil {
		return c.interrupted(ctx)
	}
	c.inst.log.to.LogAttrs(ctx, slog.LevelWarn, "the plugin's instance ends and is replaced", slog.String("op", c.op), slog.Any("err", trap))
	switch {
	case c.inst.full():
		return c.host(abi.Exhausted, "the module used up its memory, %d MiB (%s)", c.inst.size()>>20, firstLine(trap))
	case exited:
		return c.host(abi.Internal, "the module ended itself with status %d", exit.ExitCode())
	}
	return c.host(abi.Internal, "the module trapped: %s", firstLine(trap))
}

// interrupted says why a call was stopped.
func (c *call) interrupted(ctx context.Context) *abi.Error {
	cause := context.Cause(ctx)
	return c.host(interruption(cause), "stopped after %v: %w", c.age(), cause)
}

// firstLine leaves a guest's stack trace out of an error.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
