package abi

import (
	"fmt"
	"io"
	"math"
	"time"
)

// ToEnd as the End of a Range means the last byte. It needs no special case: an end past the object is clamped.
const ToEnd = math.MaxInt64

// Range is a range of bytes of the decoded object, both ends inclusive.
type Range struct {
	Start int64
	End   int64
}

// Len is the number of bytes in r, math.MaxInt64 at most. Only a valid range has one.
func (r Range) Len() int64 {
	if r.End == ToEnd {
		return math.MaxInt64
	}
	return r.End - r.Start + 1
}

// String is "start-end", or "start-" to the end.
func (r Range) String() string {
	if r.End == ToEnd {
		return fmt.Sprintf("%d-", r.Start)
	}
	return fmt.Sprintf("%d-%d", r.Start, r.End)
}

// Clamp checks r against an object of size bytes and cuts its end there (ABI.md ): a negative start, an
// end below start, and a start at or past size are INVALID.
func (r Range) Clamp(size int64) (Range, error) {
	switch {
	case r.Start < 0:
		return r, Errorf("range", r.String(), Invalid, "start %d is negative", r.Start)
	case r.End < r.Start:
		return r, Errorf("range", r.String(), Invalid, "end %d is below start %d", r.End, r.Start)
	case r.Start >= size:
		return r, Errorf("range", r.String(), Invalid, "start %d is not below the size, %d", r.Start, size)
	}
	return Range{r.Start, min(r.End, size-1)}, nil
}

// Source answers a fetch: it says where the bytes lie (Location), or carries them (Stream). Exactly one is set.
type Source struct {
	OriginalSize int64  // size of the whole decoded object in bytes; -1 where the plugin does not know
	ETag         string // sent back with every further request for this object; empty: none
	Location     *Location
	Stream       io.ReadCloser // the bytes of the range asked for; whoever got the Source closes it
}

// Close closes the stream, if there is one. It may be called more than once.
func (s *Source) Close() error {
	if s == nil || s.Stream == nil {
		return nil
	}
	return s.Stream.Close()
}

// Scope says for which ranges a Location is good. The numbers are the wire form.
type Scope int32

// The scopes.
const (
	ScopeRange  Scope = 0 // for the range that was asked for: the parts, in order, are its bytes
	ScopeObject Scope = 1 // for any range of the object until it expires: the parts, in order, are the whole object
)

// Location says where the bytes of an object lie. The host moves, decodes and verifies them.
type Location struct {
	Parts     []Part
	Scope     Scope
	ExpiresAt time.Time // zero: holds as long as the segment
	Encoding  Encoding
	OnStatus  []StatusKind // over the defaults of ABI.md, section 5
}

// Part is one stretch of a Location. Exactly one field is set.
type Part struct {
	HTTP   *HTTPPart
	File   *FilePart
	Inline []byte // 64 KiB at most
}

// FilePart is a range of a file below a granted directory.
type FilePart struct {
	Root   string // the grant's name: the configuration field that names the directory
	Path   string // relative to Root, slash-separated, never absolute, no "..": else DENIED
	Offset int64
	Length int64 // bytes; -1: to the end of the file
}

// HTTPPart is one signed request.
type HTTPPart struct {
	Method  string // empty: GET
	URL     string
	Headers []Header
	Fixed   bool  // false: the host sets Range; true: the range is Offset, Length
	Offset  int64 // with Fixed
	Length  int64 // with Fixed
}

// Header is one HTTP header.
type Header struct{ Name, Value string }

// StatusKind maps an HTTP status to a kind, where the plugin knows better than the defaults: 404 is CORRUPT once a
// manifest promised the object.
type StatusKind struct {
	Status int
	Kind   Kind
}

// Encoding says how the object's bytes are packed. The zero value is plain.
type Encoding struct {
	Chunked *Chunked // nil: plain
}

// Packing is the form of a list of chunk sizes. The numbers are the wire form.
type Packing int32

// The packings.
const (
	PackFixedPair Packing = 1 // two u32: every chunk's transformed size, and the last one's
	PackU32List   Packing = 2 // one u32 a chunk
	PackAivenV1   Packing = 3 // as the manifests of Aiven's plugin have it; needs zstd
)

// Compression of a chunk. The numbers are the wire form.
type Compression int32

// The compressions.
const (
	CompressionNone Compression = 0
	CompressionZstd Compression = 1
)

// Chunked is an object of chunks that were compressed, encrypted or both, each by itself.
type Chunked struct {
	OriginalChunkSize int64
	OriginalSize      int64
	Packing           Packing
	Sizes             []byte // the transformed sizes, packed: the host unpacks them
	Compression       Compression
	AES256GCM         *AES256GCM // nil: not encrypted
}

// AES256GCM is how chunks are encrypted: 12 bytes of IV before each, 16 bytes of tag after it.
type AES256GCM struct {
	Key          []byte // raw, or wrapped where KeyID is set
	KeyID        string // the key-encryption key in the host's key ring
	KeyAlgorithm string // how Key is wrapped
	AAD          []byte
}
