package wasm

import (
	"strings"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/abi"
)

// The wire types of protobuf.
const (
	typeVarint = 0
	typeI64    = 1
	typeLen    = 2
	typeStart  = 3 // of a group: long gone, and still to be skipped
	typeEnd    = 4
	typeI32    = 5
)

const (
	maxField  = 1<<29 - 1
	maxNested = 32 // groups in unknown fields, errors in a chain of causes
)

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendTag(b []byte, num int, typ uint64) []byte {
	return appendVarint(b, uint64(num)<<3|typ)
}

// appendInt writes a field of any integer type: protobuf widens an int32 with its sign. Zero is left out, as proto3 has it.
func appendInt(b []byte, num int, v int64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendTag(b, num, typeVarint), uint64(v))
}

func appendBool(b []byte, num int, v bool) []byte {
	if !v {
		return b
	}
	return append(appendTag(b, num, typeVarint), 1)
}

// appendString leaves an empty string out. Bytes that are no UTF-8 have no place in a protobuf string and become U+FFFD.
func appendString(b []byte, num int, s string) []byte {
	if s == "" {
		return b
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return append(appendVarint(appendTag(b, num, typeLen), uint64(len(s))), s...)
}

// appendBytes writes the field even where it is empty.
func appendBytes(b []byte, num int, p []byte) []byte {
	return append(appendVarint(appendTag(b, num, typeLen), uint64(len(p))), p...)
}

func appendSomeBytes(b []byte, num int, p []byte) []byte {
	if len(p) == 0 {
		return b
	}
	return appendBytes(b, num, p)
}

// open begins a nested message whose length is not known yet, and gives the place where its content starts; closeAt
// makes room for the length there. Documents are small: moving the content costs less than a pass to count it.
func open(b []byte, num int) ([]byte, int) {
	b = appendTag(b, num, typeLen)
	return b, len(b)
}

func closeAt(b []byte, start int) []byte {
	n := len(b) - start
	var head [10]byte
	length := appendVarint(head[:0], uint64(n))
	b = append(b, length...)
	copy(b[start+len(length):], b[start:start+n])
	copy(b[start:], length)
	return b
}

// fields walks over the fields of one message. The first defect ends the walk and stays in err, which nested messages
// share.
type fields struct {
	rest []byte
	err  *abi.Error

	key  uint64 // number << 3 | wire type of the field at hand
	n    uint64 // the value of a varint
	data []byte // the value of a typeLen field
}

func (f *fields) fail(why string) bool { return f.failAs(abi.Invalid, why) }

func (f *fields) failAs(kind abi.Kind, why string) bool {
	if f.err.Kind == 0 {
		f.err.Kind, f.err.Err = kind, abi.Text(why)
	}
	return false
}

// next steps to the next field and reports whether there is one.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.err.Kind != 0 {
		return false
	}
	key, ok := f.tag()
	if !ok {
		return false
	}
	f.key = key
	switch key & 7 {
	case typeVarint:
		f.n, ok = f.varint()
	case typeLen:
		f.data, ok = f.bytes()
	default:
		ok = f.skip(key, 0)
	}
	return ok
}

func (f *fields) tag() (uint64, bool) {
	key, ok := f.varint()
	if ok && (key>>3 == 0 || key>>3 > maxField) {
		return 0, f.fail("a field number out of range")
	}
	return key, ok
}

func (f *fields) varint() (uint64, bool) {
	var v uint64
	for i, c := range f.rest {
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			f.rest = f.rest[i+1:]
			return v, true
		}
	}
	return 0, f.fail("a number that does not end")
}

func (f *fields) bytes() ([]byte, bool) {
	n, ok := f.varint()
	if !ok {
		return nil, false
	}
	if n > uint64(len(f.rest)) {
		return nil, f.fail("a length past the end")
	}
	p := f.rest[:n]
	f.rest = f.rest[n:]
	return p, true
}

// skip passes over the value of a field that is of no interest.
func (f *fields) skip(key uint64, depth int) bool {
	switch key & 7 {
	case typeVarint:
		_, ok := f.varint()
		return ok
	case typeI64:
		return f.drop(8)
	case typeLen:
		_, ok := f.bytes()
		return ok
	case typeStart:
		return f.skipGroup(key>>3, depth)
	case typeI32:
		return f.drop(4)
	}
	return f.fail("an unknown wire type")
}

func (f *fields) skipGroup(num uint64, depth int) bool {
	if depth == maxNested {
		return f.fail("nested too deeply")
	}
	for {
		key, ok := f.tag()
		if !ok {
			return false
		}
		if key&7 == typeEnd {
			return key>>3 == num || f.fail("a group that ends as another")
		}
		if !f.skip(key, depth+1) {
			return false
		}
	}
}

func (f *fields) drop(n int) bool {
	if n > len(f.rest) {
		return f.fail("a value past the end")
	}
	f.rest = f.rest[n:]
	return true
}

func (f *fields) string() string {
	if !utf8.Valid(f.data) {
		f.fail("text that is no UTF-8")
		return ""
	}
	return string(f.data)
}

// blob gives the value, nil where it is empty.
func (f *fields) blob() []byte { return append([]byte(nil), f.data...) }

// copied gives the value, never nil: where absent and empty differ, the field was there.
func (f *fields) copied() []byte { return append([]byte{}, f.data...) }

func (f *fields) i64() int64 { return int64(f.n) }
func (f *fields) i32() int32 { return int32(f.n) }
func (f *fields) bool() bool { return f.n != 0 }

func (f *fields) uuid() (u abi.UUID, ok bool) {
	if len(f.data) != len(u) {
		return u, f.fail("an id that is not 16 bytes long")
	}
	copy(u[:], f.data)
	return u, true
}

// nested walks over the message in the field at hand.
func (f *fields) nested() fields { return fields{rest: f.data, err: f.err} }

// room refuses lists that would take far more memory than the bytes that spell them.
func (f *fields) room(n int) bool {
	return n < 1<<16 || f.fail("a list that is too long")
}

// document begins the walk over a whole document.
func document(b []byte) fields { return fields{rest: b, err: new(abi.Error)} }

// done gives the walk's defect as an error about the document of this name.
func (f *fields) done(name string) error {
	if f.err.Kind == 0 {
		return nil
	}
	f.err.Op, f.err.Subject = "decode", name
	return f.err
}
