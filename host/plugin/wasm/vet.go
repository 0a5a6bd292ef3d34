package wasm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

const (
	// maxModule bounds a file. A Go guest that links a whole cloud SDK is a tenth of it.
	maxModule = 64 << 20
	// maxTable bounds the elements that a table starts with; they take 8 bytes of the host each.
	maxTable = 1 << 20

	pageSize = 64 << 10
)

// vetted is what the vetting of a module learned.
type vetted struct {
	imports  []imported
	manifest []byte // the Info document of its manifest section, nil without one
	probe    bool   // exports the self-test
}

// imported is a function that the module imports.
type imported struct{ module, name string }

// vet checks a module by its bytes, before anything of it is compiled. memoryCap is the most memory in bytes that an
// instance may have. Errors say what to do about it: INVALID for what is no module, UNSUPPORTED for one that this host
// cannot run, EXHAUSTED for one that is too large.
func vet(module []byte, memoryCap int64) (*vetted, error) {
	if len(module) > maxModule {
		return nil, abi.Errorf("vet", "", abi.Exhausted, "the module has %d bytes, %d are the most", len(module), maxModule)
	}
	sections, err := Sections(module)
	if err != nil {
		return nil, err
	}
	m, err := scan(sections)
	if err != nil {
		return nil, err
	}
	for _, check := range []func() error{
		m.checkStart, m.checkVersion,
		m.checkImports, // first: the exports count on all imports being functions
		m.checkExports,
		func() error { return m.checkMemory(memoryCap) }, m.checkTables,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	v := &vetted{manifest: m.manifest}
	for _, i := range m.imports {
		v.imports = append(v.imports, imported{i.module, i.name})
	}
	_, v.probe = m.export(abiwasm.Probe, kindFunc)
	return v, nil
}

// The kinds of things that are imported and exported.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
)

// scanned is a module as far as vetting looks into it. Signatures are letters, see abiwasm.Func.
type scanned struct {
	types    []string // "ii>I"
	imports  []scannedImport
	funcs    []uint32 // type of each function that is not imported
	memories []Limits
	tables   []Limits
	exports  []scannedExport
	start    bool
	manifest []byte
}

type scannedImport struct {
	module, name string
	kind         byte
	typ          uint32 // of a function
}

type scannedExport struct {
	name  string
	kind  byte
	index uint32
}

func scan(sections []Section) (*scanned, error) {
	m := new(scanned)
	for _, s := range sections {
		c := cursor{b: s.Body}
		switch s.ID {
		case SectionCustom:
			if s.Name == abiwasm.ManifestSection {
				m.manifest = s.Body
			}
		case SectionType:
			m.scanTypes(&c)
		case SectionImport:
			m.scanImports(&c)
		case SectionFunction:
			for range c.count() {
				m.funcs = append(m.funcs, c.u32())
			}
		case SectionTable:
			m.scanTables(&c)
		case SectionMemory:
			for range c.count() {
				m.memories = append(m.memories, c.limits())
			}
		case SectionExport:
			for range c.count() {
				m.exports = append(m.exports, scannedExport{c.name(), c.byte(), c.u32()})
			}
		case SectionStart:
			m.start = true
		}
		if c.bad {
			return nil, abi.Errorf("vet", "", abi.Invalid, "section %d of the module cannot be read", s.ID)
		}
	}
	return m, nil
}

// count reads the length of a list. Every element has a byte at least, so a longer one is a defect.
func (c *cursor) count() uint32 {
	n := c.u32()
	if uint64(n) > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return 0
	}
	return n
}

// scanTypes keeps functions of numbers; what else a type section may hold is the compiler's to judge, and no function
// that is of interest here has such a type.
func (m *scanned) scanTypes(c *cursor) {
	for range c.count() {
		if c.byte() != 0x60 {
			c.b = nil
			return
		}
		params := c.valueTypes()
		m.types = append(m.types, params+">"+c.valueTypes())
	}
}

func (c *cursor) valueTypes() string {
	var b strings.Builder
	for _, t := range c.take(c.u32()) {
		switch t {
		case 0x7f:
			b.WriteByte('i')
		case 0x7e:
			b.WriteByte('I')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

// scanImports stops at the first import that is no function: it is refused, so how it goes on does not matter.
func (m *scanned) scanImports(c *cursor) {
	for range c.count() {
		i := scannedImport{module: c.name(), name: c.name(), kind: c.byte()}
		if i.kind == kindFunc {
			i.typ = c.u32()
		}
		m.imports = append(m.imports, i)
		if i.kind != kindFunc {
			c.b = nil
			return
		}
	}
}

// scanTables stops at a form of table that it does not know; the compiler judges it.
func (m *scanned) scanTables(c *cursor) {
	for range c.count() {
		if t := c.byte(); t != 0x70 && t != 0x6f {
			c.b = nil
			return
		}
		m.tables = append(m.tables, c.limits())
	}
}

func (m *scanned) signature(typ uint32) string {
	if uint64(typ) < uint64(len(m.types)) {
		return m.types[typ]
	}
	return "?"
}

// funcSignature is that of a function by its index, which counts imported functions first.
func (m *scanned) funcSignature(index uint32) string {
	if uint64(index) < uint64(len(m.imports)) {
		return m.signature(m.imports[index].typ)
	}
	if i := uint64(index) - uint64(len(m.imports)); i < uint64(len(m.funcs)) {
		return m.signature(m.funcs[i])
	}
	return "?"
}

func (m *scanned) export(name string, kind byte) (scannedExport, bool) {
	i := slices.IndexFunc(m.exports, func(e scannedExport) bool { return e.name == name && e.kind == kind })
	if i < 0 {
		return scannedExport{}, false
	}
	return m.exports[i], true
}

// checkStart refuses code that runs by being loaded. Reactors of all toolchains have _initialize instead.
func (m *scanned) checkStart() error {
	if m.start {
		return unsupported("the module has a start section, code that runs before anything is called; export %s instead", abiwasm.Initialize)
	}
	return nil
}

// checkVersion looks for a version of the contract that both speak.
func (m *scanned) checkVersion() error {
	if _, ok := m.export(abiwasm.Marker, kindFunc); ok {
		return nil
	}
	var has []string
	for _, e := range m.exports {
		if v, ok := strings.CutPrefix(e.name, abiwasm.MarkerPrefix); ok {
			if _, err := strconv.Atoi(v); err == nil {
				has = append(has, v)
			}
		}
	}
	switch _, command := m.export("_start", kindFunc); {
	case len(has) > 0:
		return unsupported("the module speaks version %s of the contract, this host %d", strings.Join(has, ", "), abi.Version)
	case command:
		return unsupported("the module is a program (it exports _start), not a plugin; a Go plugin is built with -buildmode=c-shared")
	}
	return unsupported("the module is no plugin: it exports no %s", abiwasm.Marker)
}

func (m *scanned) checkExports() error {
	var missing []string
	for _, name := range abiwasm.RequiredExports() {
		if _, ok := m.export(name, kindFunc); !ok {
			missing = append(missing, name)
		}
	}
	if _, ok := m.export(abiwasm.Memory, kindMemory); !ok {
		missing = append(missing, abiwasm.Memory)
	}
	if len(missing) > 0 {
		return unsupported("the module does not export %s", strings.Join(missing, ", "))
	}
	want := map[string]string{abiwasm.Initialize: ">", abiwasm.Probe: "i>I"}
	for _, name := range abiwasm.RequiredExports() {
		want[name] = "i>I"
	}
	for _, e := range m.exports {
		if sig, ok := want[e.name]; ok && (e.kind != kindFunc || m.funcSignature(e.index) != sig) {
			return unsupported("the module's %s is %s, the contract has %s", e.name, sentence(m.funcSignature(e.index)), sentence(sig))
		}
	}
	return nil
}

// sentence writes a signature as WebAssembly's text format has it, roughly.
func sentence(sig string) string {
	params, results, _ := strings.Cut(sig, ">")
	names := strings.NewReplacer("i", " i32", "I", " i64", "?", " other")
	return strings.TrimSpace(fmt.Sprintf("(param%s)", names.Replace(params)) + " " + fmt.Sprintf("(result%s)", names.Replace(results)))
}

func (m *scanned) checkImports() error {
	known := map[string]string{}
	for _, f := range abiwasm.HostFuncs() {
		known[abiwasm.Module+"."+f.Name] = f.Params + ">" + f.Results
	}
	for _, f := range wasiFuncs {
		known[wasiModule+"."+f.name] = f.params + ">" + f.results
	}
	for _, i := range m.imports {
		name := i.module + "." + i.name
		switch sig, ok := known[name]; {
		case i.kind == kindMemory:
			return unsupported("the module imports its memory (%s); it must have one of its own and export it", name)
		case i.kind != kindFunc:
			return unsupported("the module imports %s, which is no function; the host has functions only", name)
		case !ok:
			return unsupported("the module imports %s, which this host does not have; it has %s", name, hostSurface())
		case m.signature(i.typ) != sig:
			return unsupported("the module imports %s as %s, the host has %s", name, sentence(m.signature(i.typ)), sentence(sig))
		}
	}
	return nil
}

// hostSurface says what there is to import, by group.
func hostSurface() string {
	var groups []string
	for _, g := range []abiwasm.Group{abiwasm.Core, abiwasm.File, abiwasm.Out} {
		var names []string
		for _, f := range abiwasm.HostFuncs() {
			if f.Group == g {
				names = append(names, f.Name)
			}
		}
		groups = append(groups, fmt.Sprintf("%s: %s", g, strings.Join(names, " ")))
	}
	return fmt.Sprintf("%s (%s) and %s", abiwasm.Module, strings.Join(groups, "; "), wasiModule)
}

func (m *scanned) checkMemory(memoryCap int64) error {
	if len(m.memories) != 1 {
		return unsupported("the module has %d memories, it must have one", len(m.memories))
	}
	l, pages := m.memories[0], uint64(memoryCap)/pageSize
	switch {
	case l.Shared:
		return unsupported("the module's memory is shared between threads, which there are none of here")
	case l.Wide:
		return unsupported("the module's memory has 64-bit addresses; build for wasm32")
	case l.Min > pages:
		return abi.Errorf("vet", "", abi.Exhausted, "the module starts with %d pages of 64 KiB, the host's cap is %d", l.Min, pages)
	case l.HasMax && l.Max > pages:
		return abi.Errorf("vet", "", abi.Exhausted, "the module declares a maximum of %d pages of 64 KiB, the host's cap is %d", l.Max, pages)
	}
	return nil
}

func (m *scanned) checkTables() error {
	for _, l := range m.tables {
		if l.Min > maxTable {
			return abi.Errorf("vet", "", abi.Exhausted, "the module starts with a table of %d elements, %d are the most", l.Min, maxTable)
		}
	}
	return nil
}

func unsupported(format string, args ...any) error {
	return abi.Errorf("vet", "", abi.Unsupported, format, args...)
}
