package wasm

import (
	"bytes"

	"github.com/rsmhost/rsmhost/abi"
)

// The ids of a module's sections that somebody here looks at.
const (
	SectionCustom   = 0
	SectionType     = 1
	SectionImport   = 2
	SectionFunction = 3
	SectionTable    = 4
	SectionMemory   = 5
	SectionExport   = 7
	SectionStart    = 8
)

// Section is one section of a module.
type Section struct {
	ID   byte
	Name string // of a custom section
	Body []byte // after the name; it shares the module's bytes
}

// Sections takes a module apart. Errors: INVALID for bytes that are no module, UNSUPPORTED for a component.
func Sections(module []byte) ([]Section, error) {
	if err := checkHeader(module); err != nil {
		return nil, err
	}
	var list []Section
	for c := (cursor{b: module[8:]}); len(c.b) > 0; {
		s := Section{ID: c.byte()}
		s.Body = c.take(c.u32())
		if s.ID == SectionCustom {
			in := cursor{b: s.Body}
			s.Name, s.Body = in.name(), in.b
			c.bad = c.bad || in.bad
		}
		if c.bad {
			return nil, abi.Errorf("vet", "", abi.Invalid, "the module ends in the middle of a section: is the file whole?")
		}
		list = append(list, s)
	}
	return list, nil
}

var magic = []byte("\x00asm")

func checkHeader(module []byte) error {
	if len(module) < 8 || !bytes.Equal(module[:4], magic) {
		return abi.Errorf("vet", "", abi.Invalid, "not a WebAssembly module: it does not begin with \\0asm")
	}
	switch version, layer := uint16(module[4])|uint16(module[5])<<8, uint16(module[6])|uint16(module[7])<<8; {
	case layer == 1:
		return abi.Errorf("vet", "", abi.Unsupported, "a WebAssembly component, and rsmhost runs core modules: "+
			"build for wasm32 or wasip1 without the step that wraps the module into a component")
	case version != 1 || layer != 0:
		return abi.Errorf("vet", "", abi.Unsupported, "WebAssembly version %d, layer %d; rsmhost runs core modules of version 1", version, layer)
	}
	return nil
}

// cursor reads the binary format. After the first defect it reads zeroes and stays bad.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n uint32) []byte {
	if uint64(n) > uint64(len(c.b)) {
		c.b, c.bad = nil, true
		return nil
	}
	p := c.b[:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) byte() byte {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (c *cursor) u32() uint32 { return uint32(c.leb(5)) }
func (c *cursor) u64() uint64 { return c.leb(10) }

// leb reads an unsigned LEB128 number of at most n bytes.
func (c *cursor) leb(n int) uint64 {
	var v uint64
	for i := range n {
		x := c.byte()
		v |= uint64(x&0x7f) << (7 * i)
		if x < 0x80 {
			return v
		}
	}
	c.bad = true
	return 0
}

func (c *cursor) name() string { return string(c.take(c.u32())) }

// Limits of a memory or a table.
type Limits struct {
	Min, Max uint64
	HasMax   bool
	Shared   bool
	Wide     bool // 64-bit addresses
}

// ReadLimits reads limits from the start of b, and gives what follows them.
func ReadLimits(b []byte) (l Limits, rest []byte, err error) {
	c := cursor{b: b}
	l = c.limits()
	if c.bad {
		return Limits{}, nil, abi.Errorf("vet", "", abi.Invalid, "limits that do not end")
	}
	return l, c.b, nil
}

func (c *cursor) limits() (l Limits) {
	flags := c.byte()
	l.HasMax, l.Shared, l.Wide = flags&1 != 0, flags&2 != 0, flags&4 != 0
	if flags > 7 {
		c.bad = true
	}
	l.Min = c.u64()
	if l.HasMax {
		l.Max = c.u64()
	}
	return l
}
