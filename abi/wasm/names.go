package wasm

// What a module exports. A module that serves version N of the contract has an export rsm_abi_N; it is never called,
// so that versions can be read from the export list alone.
const (
	Memory       = "memory"
	MarkerPrefix = "rsm_abi_"
	Marker       = "rsm_abi_1"
	Initialize   = "_initialize" // optional: called once in a new instance, before anything else
)

// The operations, each (len i32) -> Result: len is the size of the request, which the guest fetches with "request". The
// value of a success is the number of bytes replied.
const (
	Describe        = "rsm_describe"          // no request; replies Info
	Configure       = "rsm_configure"         // ConfigureRequest; replies nothing
	FetchLogSegment = "rsm_fetch_log_segment" // FetchLogSegmentRequest; replies Source
	FetchIndex      = "rsm_fetch_index"       // FetchIndexRequest; replies Source
	Probe           = "rsm_probe"             // optional; no request; replies nothing
)

// RequiredExports are the functions that every module has, beside its memory and a marker.
func RequiredExports() []string { return []string{Describe, Configure, FetchLogSegment, FetchIndex} }

// Module is the module that a guest imports the host's functions from.
const Module = "rsm_host_1"

// ManifestSection is the custom section that holds what Describe replies, readable without running anything.
const ManifestSection = "rsm.manifest"

// Limits that both sides keep.
const (
	MaxReply   = 1 << 20   // bytes of one reply, in however many pieces
	MaxLogLine = 8 << 10   // bytes of one line of the log; the rest is dropped, and said so by Truncated
	OutPiece   = 256 << 10 // bytes that the SDK hands to one out_write
)

// The clocks of "now". Numbers are literal and append-only.
const (
	WallClock      = 1 // nanoseconds since the Unix epoch
	MonotonicClock = 2 // nanoseconds since a moment that is fixed for the life of an instance
)

// The levels of "log". Numbers are literal and append-only.
const (
	LogDebug = 1
	LogInfo  = 2
	LogWarn  = 3
	LogError = 4
)

// Group is a set of host functions that is granted as a whole.
type Group string

// The groups.
const (
	Core Group = "core" // every module has it
	File Group = "file" // reads below granted directories; DENIED where none was granted
	Out  Group = "out"  // the bytes of a stream Source
)

// Func is one function of the host. Params and Results are letters: 'i' for i32, 'I' for i64.
type Func struct {
	Group   Group
	Name    string
	Params  string
	Results string
}

// HostFuncs lists the functions of Module. All answer with a Result but remaining_ms and now. A pointer and a length that
// reach out of the guest's memory are INVALID, and nothing is written then.
//
//	request(ptr, cap)            copies the request to ptr. value: its size. A cap below it is EXHAUSTED with the size
//	reply(ptr, len)              appends to the reply. value: its size so far. Past MaxReply it is EXHAUSTED
//	fail(kind, ptr, len)         says why the operation fails: an Error document, or none. The operation then returns the kind
//	remaining_ms()               plain i64: milliseconds until the call's deadline, -1 where there is none
//	log(level, ptr, len)         one line for the operator
//	now(clock)                   plain i64: nanoseconds of one of the clocks, -1 for one that the host lacks
//	random(ptr, len)             fills with random bytes fit for keys
//	file_size(root, path, ptr)   root and path are (ptr, len) each. Writes the size of the file as a u64, little-endian
//	file_read(root, path, off, ptr, len)   value: bytes read; EOF where the file ends with them
//	out_write(ptr, len)          after a reply of a Source without a location: the next bytes. CANCELLED: the reader is gone
//	out_end(bytes, crc32c)       the stream is complete: its length and CRC32C (Castagnoli)
//	crc32c(crc, ptr, len)        value: the CRC32C of what crc is of (0: nothing) and these bytes. A guest takes a
//	                             hundred times as long for it
func HostFuncs() []Func {
	return []Func{
		{Core, "request", "ii", "I"},
		{Core, "reply", "ii", "I"},
		{Core, "fail", "iii", "I"},
		{Core, "remaining_ms", "", "I"},
		{Core, "log", "iii", "I"},
		{Core, "now", "i", "I"},
		{Core, "random", "ii", "I"},
		{File, "file_size", "iiiii", "I"},
		{File, "file_read", "iiiiIii", "I"},
		{Out, "out_write", "ii", "I"},
		{Out, "out_end", "Ii", "I"},
		{Out, "crc32c", "iii", "I"},
	}
}
