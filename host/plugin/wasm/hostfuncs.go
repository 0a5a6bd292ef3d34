package wasm

import (
	"context"
	"crypto/rand"
	"io"
	"math"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// hostFunc is a function that a module imports: it gets its arguments and gives its result, a result word of the
// contract, a plain number or an errno. mem is good for the length of the call: the guest, which alone can grow it, stands
// still.
type hostFunc func(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64

var hostFuncs = map[string]hostFunc{
	"request":      hostRequest,
	"reply":        hostReply,
	"fail":         hostFail,
	"remaining_ms": hostRemaining,
	"log":          hostLog,
	"now":          hostNow,
	"random":       hostRandom,
	"file_size":    hostFileSize,
	"file_read":    hostFileRead,
	"out_write":    hostOutWrite,
	"out_end":      hostOutEnd,
	"crc32c":       hostCRC32C,
}

// callKey finds the call at hand in the context of a host function. Nothing of a call lies where another could see it.
type callKey struct{}

// linkHost makes the host's modules, with the functions that the module imports and no others.
func linkHost(ctx context.Context, rt wazero.Runtime, imports []imported) error {
	builders := map[string]wazero.HostModuleBuilder{}
	link := func(module, name, params, results string, f hostFunc) {
		if !slices.Contains(imports, imported{module, name}) {
			return
		}
		b, ok := builders[module]
		if !ok {
			b = rt.NewHostModuleBuilder(module)
			builders[module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(goFunc(f), types(params), types(results)).Export(name)
	}
	for _, f := range abiwasm.HostFuncs() {
		link(abiwasm.Module, f.Name, f.Params, f.Results, hostFuncs[f.Name])
	}
	for _, f := range wasiFuncs {
		link(wasiModule, f.name, f.params, f.results, f.run)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// goFunc brings f into wazero's form, where arguments and result share one stack.
func goFunc(f hostFunc) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
		result := f(ctx, ctx.Value(callKey{}).(*call), m.Memory(), stack)
		if len(stack) > 0 {
			stack[0] = result
		}
	})
}

func types(letters string) []api.ValueType {
	list := make([]api.ValueType, 0, len(letters))
	for _, l := range letters {
		t := api.ValueTypeI32
		if l == 'I' {
			t = api.ValueTypeI64
		}
		list = append(list, t)
	}
	return list
}

func ok(value int, flags abiwasm.Flags) uint64 { return uint64(abiwasm.OK(uint32(value), flags)) }
func fail(kind abi.Kind) uint64                { return uint64(abiwasm.Fail(kind, 0)) }

// view gives the guest's bytes at a pointer and a length in args[i] and args[i+1]. They are the guest's own memory.
func view(mem api.Memory, args []uint64, i int) ([]byte, bool) {
	return mem.Read(uint32(args[i]), uint32(args[i+1]))
}

func hostRequest(_ context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	if int64(uint32(args[1])) < int64(len(c.request)) {
		return uint64(abiwasm.Fail(abi.Exhausted, uint32(len(c.request))))
	}
	if !mem.Write(uint32(args[0]), c.request) {
		return fail(abi.Invalid)
	}
	return ok(len(c.request), 0)
}

func hostReply(_ context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 0)
	switch {
	case !in:
		return fail(abi.Invalid)
	case c.stream != nil: // the Source is with the reader already
		return fail(abi.Phase)
	case len(b) > abiwasm.MaxReply-len(c.reply):
		return fail(abi.Exhausted)
	}
	c.reply = append(c.reply, b...)
	return ok(len(c.reply), 0)
}

func hostFail(_ context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	kind, doc := abi.Kind(int32(args[0])), []byte(nil)
	if n := uint32(args[2]); n > 0 {
		b, in := mem.Read(uint32(args[1]), n)
		if !in || n > abiwasm.MaxReply {
			return fail(abi.Invalid)
		}
		doc = b
	}
	if kind <= 0 {
		return fail(abi.Invalid)
	}
	e, err := abiwasm.DecodeError(doc)
	if err != nil {
		return fail(abi.Invalid)
	}
	if len(doc) == 0 {
		e.Op, e.Err = c.op, abi.Text("the module gives no reason")
	}
	e.Kind = kind
	c.failed = e
	return ok(0, 0)
}

func hostRemaining(ctx context.Context, _ *call, _ api.Memory, args []uint64) uint64 {
	deadline, has := ctx.Deadline()
	if !has {
		return math.MaxUint64 // -1
	}
	return uint64(max(0, time.Until(deadline).Milliseconds()))
}

func hostLog(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 1)
	if !in {
		return fail(abi.Invalid)
	}
	flags, n := abiwasm.Flags(0), len(b)
	if n > abiwasm.MaxLogLine {
		b, flags = b[:abiwasm.MaxLogLine], abiwasm.Truncated
	}
	c.inst.log.line(ctx, levelOf(int32(args[0])), string(b), flags != 0)
	return ok(len(b), flags)
}

func hostNow(_ context.Context, c *call, _ api.Memory, args []uint64) uint64 {
	ns, has := c.now(uint32(args[0]))
	if !has {
		return math.MaxUint64 // -1
	}
	return uint64(ns)
}

func hostRandom(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 0)
	if !in {
		return fail(abi.Invalid)
	}
	rand.Read(b) // never fails: it ends the process instead
	return ok(len(b), 0)
}

func hostFileSize(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	f, kind := c.file(ctx, mem, args)
	if kind != 0 {
		return fail(kind)
	}
	if !mem.WriteUint64Le(uint32(args[4]), uint64(f.size)) {
		return fail(abi.Invalid)
	}
	return ok(0, 0)
}

func hostFileRead(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	b, in := view(mem, args, 5)
	if off := int64(args[4]); !in || off < 0 {
		return fail(abi.Invalid)
	}
	f, kind := c.file(ctx, mem, args)
	if kind != 0 {
		return fail(kind)
	}
	n, err := f.file.ReadAt(b, int64(args[4]))
	switch {
	case err == io.EOF:
		return ok(n, abiwasm.EOF)
	case err != nil:
		return fail(c.refused(ctx, abi.E("read", f.root+":"+f.path, abi.FileKind(err), err)))
	}
	return ok(n, 0)
}
