package wasm

import (
	"errors"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

func TestVettingRefuses(t *testing.T) {
	good := func() *asm { return plugin(nil, nil) }
	with := func(change func(a *asm)) []byte {
		a := good()
		change(a)
		return a.bytes()
	}
	without := func(name string) []byte {
		return with(func(a *asm) {
			for i, e := range a.exports {
				if e.name == name {
					a.exports = append(a.exports[:i:i], a.exports[i+1:]...)
					return
				}
			}
		})
	}
	renamed := func(from, to string) []byte {
		return with(func(a *asm) {
			for i := range a.exports {
				if a.exports[i].name == from {
					a.exports[i].name = to
				}
			}
		})
	}
	for name, tt := range map[string]struct {
		module []byte
		kind   abi.Kind
		says   string
	}{
		"nothing":           {nil, abi.Invalid, "not a WebAssembly module"},
		"an ELF file":       {[]byte("\x7fELF and more"), abi.Invalid, "not a WebAssembly module"},
		"a component":       {[]byte("\x00asm\x0d\x00\x01\x00"), abi.Unsupported, "component"},
		"a later version":   {[]byte("\x00asm\x02\x00\x00\x00"), abi.Unsupported, "version 2"},
		"half a module":     {good().bytes()[:100], abi.Invalid, "is the file whole?"},
		"an empty module":   {[]byte("\x00asm\x01\x00\x00\x00"), abi.Unsupported, "exports no rsm_abi_1"},
		"another ABI":       {renamed(abiwasm.Marker, "rsm_abi_2"), abi.Unsupported, "speaks version 2 of the contract, this host 1"},
		"a command":         {renamed(abiwasm.Marker, "_start"), abi.Unsupported, "-buildmode=c-shared"},
		"no configure":      {without(abiwasm.Configure), abi.Unsupported, "does not export rsm_configure"},
		"no memory export":  {without(abiwasm.Memory), abi.Unsupported, "does not export memory"},
		"a start section":   {with(func(a *asm) { a.before = sec(SectionStart, uleb(11)) }), abi.Unsupported, "start section"},
		"a wrong signature": {with(func(a *asm) { a.funcs[1].sig = "I>i"; a.funcs[1].body = i32(0) }), abi.Unsupported, "(param i64) (result i32), the contract has (param i32) (result i64)"},
		"an unknown import": {with(func(a *asm) {
			a.imports = append([]asmImport{{module: "env", name: "system", sig: "i>i"}}, a.imports...)
		}), abi.Unsupported, "imports env.system"},
		"an import of a group that is not there": {with(func(a *asm) { a.imports[0].name = "http_start" }), abi.Unsupported,
			"imports rsm_host_1.http_start, which this host does not have; it has rsm_host_1 (core: request"},
		"an import with another signature": {with(func(a *asm) { a.imports[0].sig = "i>I" }), abi.Unsupported, "imports rsm_host_1.request as"},
		"an imported memory": {with(func(a *asm) {
			a.imports = append(a.imports, asmImport{module: "env", name: "memory", desc: []byte{2, 0, 1}})
		}), abi.Unsupported, "imports its memory"},
		"an imported global": {with(func(a *asm) {
			a.imports = append(a.imports, asmImport{module: "env", name: "g", desc: []byte{3, 0x7f, 0}})
		}), abi.Unsupported, "which is no function"},
		"no memory":       {with(func(a *asm) { a.memory = []byte{0} }), abi.Unsupported, "has 0 memories"},
		"two memories":    {with(func(a *asm) { a.memory = []byte{2, 0, 1, 0, 1} }), abi.Unsupported, "has 2 memories"},
		"a shared memory": {with(func(a *asm) { a.memory = []byte{1, 3, 1, 2} }), abi.Unsupported, "shared"},
		"a wide memory":   {with(func(a *asm) { a.memory = []byte{1, 4, 1} }), abi.Unsupported, "64-bit"},
		"a memory that starts over the cap": {with(func(a *asm) { a.memory = cat([]byte{1, 0}, uleb(17)) }), abi.Exhausted,
			"starts with 17 pages of 64 KiB, the host's cap is 16"},
		"a memory that may grow over the cap": {with(func(a *asm) { a.memory = cat([]byte{1, 1, 1}, uleb(1<<16)) }), abi.Exhausted, "maximum of 65536 pages"},
		"a huge table": {with(func(a *asm) {
			a.before = nil
			a.memory = cat([]byte{1, 1, 1, 2})
			a.after = sec(SectionTable, vec(1, cat([]byte{0x70, 0}, uleb(1<<24))))
		}), abi.Exhausted, "table of 16777216"},
		"more imports than bytes": {cat([]byte("\x00asm\x01\x00\x00\x00"), sec(SectionImport, uleb(1<<31))), abi.Invalid, "section 2"},
	} {
		_, err := vet(tt.module, 1<<20)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v with %q", name, err, tt.kind, tt.says)
		}
		if tt.kind == abi.Unsupported || len(tt.module) > 50 {
			continue
		}
		if _, err := Load(t.Context(), Options{Path: store(t, tt.module), Name: "mine"}); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), "m.wasm") {
			t.Errorf("%s, loaded: %v", name, err)
		}
	}
}

func TestVettingTakesWhatIsGood(t *testing.T) {
	m := plugin(nil, nil)
	m.after = sec(SectionCustom, cat(sized([]byte(abiwasm.ManifestSection)), []byte("doc")))
	v, err := vet(m.bytes(), 1<<20)
	if err != nil || string(v.manifest) != "doc" || !v.probe || len(v.imports) != len(abiwasm.HostFuncs()) {
		t.Errorf("%+v, %v", v, err)
	}
	m.memory = []byte{1, 0, 16} // no maximum: it gets the host's
	if _, err := vet(m.bytes(), 1<<20); err != nil {
		t.Error(err)
	}
}

func TestTooLargeAFileIsRefused(t *testing.T) {
	if _, err := vet(make([]byte, maxModule+1), 1<<20); !errors.Is(err, abi.Exhausted) {
		t.Error(err)
	}
}

func TestFileThatIsNoFile(t *testing.T) {
	if _, err := Load(t.Context(), Options{Path: t.TempDir() + "/none.wasm"}); !errors.Is(err, abi.NotFound) {
		t.Error(err)
	}
	if _, err := Load(t.Context(), Options{Path: t.TempDir()}); !errors.Is(err, abi.Invalid) {
		t.Error(err)
	}
}

// Whatever the bytes are, vetting gives an answer: it runs before anything bounds the module.
func FuzzVet(f *testing.F) {
	m := plugin([]byte("data"), nil).bytes()
	f.Add(m)
	f.Add(m[:len(m)/2])
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := vet(b, 1<<20)
		if (v == nil) == (err == nil) {
			t.Errorf("%v and %v", v, err)
		}
		if err != nil && abi.KindOf(err) == abi.Internal {
			t.Error(err)
		}
	})
}
