package wasm

import (
	"os"
	"path/filepath"
	"testing"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// asm assembles small modules: good ones of a few hundred bytes that compile in a millisecond, and bad ones that no
// compiler would make. Signatures are in the letters of abiwasm.Func, as "ii>I".
type asm struct {
	imports []asmImport
	funcs   []asmFunc // after the imports
	memory  []byte    // the limits of the memories, their number first
	exports []asmExport
	data    []byte // at address 0
	before  []byte // sections put in before the exports: tables, start
	after   []byte // sections at the end
}

type asmImport struct {
	module, name, sig string
	desc              []byte // of something that is no function
}

type asmFunc struct {
	sig  string
	body []byte // instructions, without the end
}

type asmExport struct {
	name  string
	kind  byte
	index int
}

func uleb(v uint64) []byte {
	var b []byte
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func sleb(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func cat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func sized(b []byte) []byte { return cat(uleb(uint64(len(b))), b) }

func sec(id byte, body []byte) []byte { return cat([]byte{id}, sized(body)) }

func vec(n int, items []byte) []byte { return cat(uleb(uint64(n)), items) }

// Instructions.
func i32(v int64) []byte { return cat([]byte{0x41}, sleb(v)) }
func i64(v int64) []byte { return cat([]byte{0x42}, sleb(v)) }
func invoke(f int) []byte {
	return cat([]byte{0x10}, uleb(uint64(f)))
}

var (
	drop        = []byte{0x1a}
	unreachable = []byte{0x00}
	forever     = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b} // loop br 0 end
)

func sigBytes(sig string) []byte {
	b, n, out := []byte{0x60}, 0, []byte(nil)
	flush := func() { b = append(b, vec(n, out)...); n, out = 0, nil }
	for _, c := range sig {
		switch c {
		case '>':
			flush()
		case 'i':
			n, out = n+1, append(out, 0x7f)
		case 'I':
			n, out = n+1, append(out, 0x7e)
		}
	}
	flush()
	return b
}

// bytes assembles. Every function gets a type of its own.
func (a *asm) bytes() []byte {
	var types, imports, funcs, exports, code []byte
	n := 0
	for _, i := range a.imports {
		desc := i.desc
		if desc == nil {
			types = append(types, sigBytes(i.sig)...)
			desc = cat([]byte{0}, uleb(uint64(n)))
			n++
		}
		imports = cat(imports, sized([]byte(i.module)), sized([]byte(i.name)), desc)
	}
	for _, f := range a.funcs {
		types = append(types, sigBytes(f.sig)...)
		funcs = append(funcs, uleb(uint64(n))...)
		code = append(code, sized(cat([]byte{0}, f.body, []byte{0x0b}))...)
		n++
	}
	for _, e := range a.exports {
		exports = cat(exports, sized([]byte(e.name)), []byte{e.kind}, uleb(uint64(e.index)))
	}
	m := cat([]byte("\x00asm\x01\x00\x00\x00"), sec(SectionType, vec(n, types)))
	if len(a.imports) > 0 {
		m = cat(m, sec(SectionImport, vec(len(a.imports), imports)))
	}
	m = cat(m, sec(SectionFunction, vec(len(a.funcs), funcs)))
	if a.memory != nil {
		m = cat(m, sec(SectionMemory, a.memory))
	}
	m = cat(m, sec(SectionExport, vec(len(a.exports), exports)), a.before, sec(10, vec(len(a.funcs), code)))
	if a.data != nil {
		m = cat(m, sec(11, vec(1, cat([]byte{0}, i32(0), []byte{0x0b}, sized(a.data)))))
	}
	return cat(m, a.after)
}

// hostImports are all functions of the host; fn gives the index of one by its name.
func hostImports() (list []asmImport, fn map[string]int) {
	fn = map[string]int{}
	for i, f := range abiwasm.HostFuncs() {
		list = append(list, asmImport{module: abiwasm.Module, name: f.Name, sig: f.Params + ">" + f.Results})
		fn[f.Name] = i
	}
	return list, fn
}

// plugin is a module that is well formed: it imports all that the host has, has one page of memory with data at its start,
// and runs the instructions given by export. An export that is not given returns success and does nothing.
func plugin(data []byte, bodies map[string][]byte) *asm {
	imports, _ := hostImports()
	a := &asm{imports: imports, memory: []byte{1, 1, 1, 2}, data: data}
	a.exports = append(a.exports, asmExport{abiwasm.Memory, kindMemory, 0})
	add := func(name, sig string, body []byte) {
		a.exports = append(a.exports, asmExport{name, kindFunc, len(imports) + len(a.funcs)})
		a.funcs = append(a.funcs, asmFunc{sig, body})
	}
	add(abiwasm.Marker, ">", nil)
	for _, name := range append(abiwasm.RequiredExports(), abiwasm.Probe) {
		body, given := bodies[name]
		if !given {
			body = i64(0)
		}
		add(name, "i>I", body)
	}
	return a
}

// call gives instructions that call a host function with constants.
func hostCall(name string, args ...int64) []byte {
	_, fn := hostImports()
	var b []byte
	for n, f := range abiwasm.HostFuncs() {
		if n == fn[name] {
			for i, p := range f.Params {
				if p == 'I' {
					b = append(b, i64(args[i])...)
				} else {
					b = append(b, i32(args[i])...)
				}
			}
		}
	}
	return cat(b, invoke(fn[name]))
}

// store writes a module into a file of the test.
func store(t testing.TB, module []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.wasm")
	if err := os.WriteFile(path, module, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
