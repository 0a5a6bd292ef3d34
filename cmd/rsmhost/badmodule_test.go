package main

import (
	"encoding/binary"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// Instructions and section ids of WebAssembly's binary format.
const (
	opUnreachable = 0x00
	opEnd         = 0x0b
	opI64Const    = 0x42

	typeI32 = 0x7f
	typeI64 = 0x7e

	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionMemory   = 5
	sectionExport   = 7
	sectionCode     = 10
)

// oddModule is a module that has all that the contract asks for, but whose operations have one body, and none of them
// does anything.
type oddModule struct {
	imports []byte // of the import section
	pages   uint64 // of its memory
	body    []byte
}

var oddModules = map[string]oddModule{
	"imports": {imports: append([]byte{1}, append(append(word("env"), word("launch_missiles")...), 0, 0)...), pages: 1, body: []byte{opI64Const, 0}},
	"memory":  {pages: 1 << 15, body: []byte{opI64Const, 0}},
	"traps":   {pages: 1, body: []byte{opUnreachable}},
	"lies":    {pages: 1, body: []byte{opI64Const, byte(abiwasm.OK(5, 0))}},
}

func (m oddModule) bytes() []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = section(b, sectionType, []byte{2, 0x60, 0, 0, 0x60, 1, typeI32, 1, typeI64})
	operation := byte(0) // index of the function
	if m.imports != nil {
		b = section(b, sectionImport, m.imports)
		operation = 1
	}
	b = section(b, sectionFunction, []byte{1, 1})
	b = section(b, sectionMemory, binary.AppendUvarint(binary.AppendUvarint([]byte{1, 1}, m.pages), m.pages))
	names := append(abiwasm.RequiredExports(), abiwasm.Marker)
	exports := append([]byte{byte(len(names) + 1)}, append(word(abiwasm.Memory), 2, 0)...)
	for _, name := range names {
		exports = append(append(exports, word(name)...), 0, operation)
	}
	b = section(b, sectionExport, exports)
	code := append(append([]byte{0}, m.body...), opEnd)
	return section(b, sectionCode, append([]byte{1, byte(len(code))}, code...))
}

func section(b []byte, id byte, body []byte) []byte {
	return append(binary.AppendUvarint(append(b, id), uint64(len(body))), body...)
}

func word(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// cmdModule writes a module.
func cmdModule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: module FILE KIND")
	}
	m, ok := oddModules[args[1]]
	if !ok {
		ts.Fatalf("module: %s", args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), m.bytes(), 0o600))
}
