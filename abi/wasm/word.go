package wasm

import "github.com/rsmhost/rsmhost/abi"

// Result is what every function of this form returns, in both directions, but for "now" and "remaining_ms" (see HostFuncs).
//
// The bits of the i64, from the highest:
//
//	63      zero
//	62-48   status: the number of an abi.Kind, 0 for success
//	47-32   flags, of the Flag constants
//	31-0    value: what the function counts
//
// For example:
//
//	0x0000_0000_0000_002a  success, 42 (bytes of a reply)
//	0x0000_0001_0000_0200  success, 512, EOF (file_read met the end of the file)
//	0x0001_0000_0000_0000  NOT_FOUND
//	0x0009_0000_0000_1000  EXHAUSTED, 4096 (request: the buffer is too small, 4096 bytes are needed)
type Result uint64

// Flags say more about a success. Bits that a reader does not know are ignored.
type Flags uint16

// The flags. Numbers are literal and append-only.
const (
	EOF       Flags = 1 // the value reaches the end of what was read
	Truncated Flags = 2 // the host took less than it was given: a log line over its limit
	More      Flags = 4 // there is a continuation
)

// OK is a success.
func OK(value uint32, flags Flags) Result { return Result(value) | Result(flags)<<32 }

// Fail is a failure. value is what the function documents for it, mostly 0. A kind that has no place in the word is
// INTERNAL.
func Fail(kind abi.Kind, value uint32) Result {
	if kind <= 0 || kind > 0x7fff {
		kind = abi.Internal
	}
	return Result(value) | Result(kind)<<48
}

// Valid reports whether r can be a result at all: bit 63 is zero.
func (r Result) Valid() bool { return r>>63 == 0 }

// Kind is 0 for success, else what went wrong.
func (r Result) Kind() abi.Kind { return abi.Kind(r >> 48 & 0x7fff) }

// Flags are those of a success.
func (r Result) Flags() Flags { return Flags(r >> 32) }

// Value is what the function counts.
func (r Result) Value() uint32 { return uint32(r) }
