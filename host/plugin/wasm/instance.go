package wasm

import (
	"context"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// instance is one instance of the module, with its own memory. Whoever leases it has it alone.
type instance struct {
	mod  api.Module
	mem  *memory
	born time.Time
	used time.Time // when it last came back to the pool
	log  *guestLog

	exports    map[string]api.Function // made once: each has a stack of its own
	configured bool
	initial    uint32 // bytes of memory after it was made
	highWater  uint32 // bytes of memory from which on it is replaced, unless it began there

	stack [1]uint64
	reply []byte // a buffer that calls use one after the other
}

// instantiate makes an instance of the compiled module. Errors are *abi.Error.
func (p *Plugin) instantiate(ctx context.Context) (*instance, *abi.Error) {
	i := &instance{mem: new(memory), born: time.Now(), log: &guestLog{to: p.log}, highWater: p.highWater}
	c := &call{op: "instantiate", name: p.name, inst: i, start: i.born}
	ctx = context.WithValue(experimental.WithMemoryAllocator(ctx, i.mem), callKey{}, c)
	mod, err := p.runtime.InstantiateModule(ctx, p.compiled, wazero.NewModuleConfig().
		WithName(""). // instances do not collide, and cannot import from each other
		WithStartFunctions(abiwasm.Initialize))
	i.log.end(ctx)
	if err != nil {
		i.mem.Free()
		if ctx.Err() != nil {
			return nil, c.interrupted(ctx)
		}
		return nil, c.host(abi.Internal, "the module cannot be instantiated: %s", firstLine(err))
	}
	i.mod, i.initial = mod, mod.Memory().Size()
	i.exports = make(map[string]api.Function, 5)
	for _, name := range append(abiwasm.RequiredExports(), abiwasm.Probe) {
		i.exports[name] = mod.ExportedFunction(name)
	}
	return i, nil
}

func (i *instance) size() uint32 { return i.mod.Memory().Size() }

// full reports whether the instance is so large that it is not used again. Its memory never shrinks.
func (i *instance) full() bool { return i.size() > i.highWater && i.size() > i.initial }

// close frees the instance. No call may run in it.
func (i *instance) close(ctx context.Context, log *slog.Logger) {
	if err := i.mod.Close(ctx); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "closing an instance", slog.Any("err", err))
	}
	// A context that ended in the wrong moment leaves a module that counts as closed and has its memory still.
	i.mem.Free()
}
