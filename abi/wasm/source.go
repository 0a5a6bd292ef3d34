package wasm

import (
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// AppendSource appends a Source document. A Source without a location announces a stream; the bytes of the stream are
// not part of the document.
func AppendSource(b []byte, s *abi.Source) []byte {
	b = appendInt(b, 1, s.OriginalSize)
	b = appendString(b, 2, s.ETag)
	if s.Location != nil {
		b = appendLocation(b, 3, s.Location)
	}
	return b
}

// DecodeSource reads a Source document. Its Stream is nil: where it has no location, the reader makes one.
func DecodeSource(b []byte) (*abi.Source, error) {
	s := new(abi.Source)
	f := document(b)
	for f.next() {
		switch f.key {
		case 1<<3 | typeVarint:
			s.OriginalSize = f.i64()
		case 2<<3 | typeLen:
			s.ETag = f.string()
		case 3<<3 | typeLen:
			s.Location = f.location(s.Location)
		}
	}
	if err := f.done("Source"); err != nil {
		return nil, err
	}
	return s, nil
}

func appendLocation(b []byte, num int, l *abi.Location) []byte {
	b, at := open(b, num)
	for i := range l.Parts {
		b = appendPart(b, 1, &l.Parts[i])
	}
	b = appendInt(b, 2, int64(l.Scope))
	if !l.ExpiresAt.IsZero() {
		b = appendInt(b, 3, l.ExpiresAt.UnixMilli())
	}
	if c := l.Encoding.Chunked; c != nil {
		b = appendChunked(b, 4, c)
	}
	for _, s := range l.OnStatus {
		var in int
		b, in = open(b, 5)
		b = appendInt(b, 1, int64(s.Status))
		b = appendInt(b, 2, int64(s.Kind))
		b = closeAt(b, in)
	}
	return closeAt(b, at)
}

// location reads into l, as segment does.
func (f *fields) location(l *abi.Location) *abi.Location {
	if l == nil {
		l = new(abi.Location)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			if m.room(len(l.Parts)) {
				l.Parts = append(l.Parts, m.part())
			}
		case 2<<3 | typeVarint:
			l.Scope = abi.Scope(m.i32())
		case 3<<3 | typeVarint:
			l.ExpiresAt = time.Time{}
			if m.n != 0 {
				l.ExpiresAt = time.UnixMilli(m.i64()).UTC()
			}
		case 4<<3 | typeLen:
			l.Encoding.Chunked = m.chunked(l.Encoding.Chunked)
		case 5<<3 | typeLen:
			if m.room(len(l.OnStatus)) {
				l.OnStatus = append(l.OnStatus, m.statusKind())
			}
		}
	}
	return l
}

func (f *fields) statusKind() (s abi.StatusKind) {
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeVarint:
			s.Status = int(m.i32())
		case 2<<3 | typeVarint:
			s.Kind = abi.Kind(m.i32())
		}
	}
	return s
}

func appendPart(b []byte, num int, p *abi.Part) []byte {
	b, at := open(b, num)
	switch {
	case p.HTTP != nil:
		b = appendHTTP(b, 1, p.HTTP)
	case p.File != nil:
		b = appendFile(b, 2, p.File)
	default:
		b = appendBytes(b, 3, p.Inline)
	}
	return closeAt(b, at)
}

// part reads a oneof: the last field that is there holds.
func (f *fields) part() (p abi.Part) {
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			p = abi.Part{HTTP: m.http(p.HTTP)}
		case 2<<3 | typeLen:
			p = abi.Part{File: m.file(p.File)}
		case 3<<3 | typeLen:
			p = abi.Part{Inline: m.copied()}
		}
	}
	if p.HTTP == nil && p.File == nil && p.Inline == nil {
		f.failAs(abi.Unsupported, "a part of a kind that this side does not know")
	}
	return p
}

func appendFile(b []byte, num int, p *abi.FilePart) []byte {
	b, at := open(b, num)
	b = appendString(b, 1, p.Root)
	b = appendString(b, 2, p.Path)
	b = appendInt(b, 3, p.Offset)
	b = appendInt(b, 4, p.Length)
	return closeAt(b, at)
}

func (f *fields) file(p *abi.FilePart) *abi.FilePart {
	if p == nil {
		p = new(abi.FilePart)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			p.Root = m.string()
		case 2<<3 | typeLen:
			p.Path = m.string()
		case 3<<3 | typeVarint:
			p.Offset = m.i64()
		case 4<<3 | typeVarint:
			p.Length = m.i64()
		}
	}
	return p
}

func appendHTTP(b []byte, num int, p *abi.HTTPPart) []byte {
	b, at := open(b, num)
	b = appendString(b, 1, p.Method)
	b = appendString(b, 2, p.URL)
	for _, h := range p.Headers {
		b = appendPair(b, 3, h.Name, h.Value)
	}
	b = appendBool(b, 4, p.Fixed)
	b = appendInt(b, 5, p.Offset)
	b = appendInt(b, 6, p.Length)
	return closeAt(b, at)
}

func (f *fields) http(p *abi.HTTPPart) *abi.HTTPPart {
	if p == nil {
		p = new(abi.HTTPPart)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			p.Method = m.string()
		case 2<<3 | typeLen:
			p.URL = m.string()
		case 3<<3 | typeLen:
			if m.room(len(p.Headers)) {
				name, value := m.pair()
				p.Headers = append(p.Headers, abi.Header{Name: name, Value: value})
			}
		case 4<<3 | typeVarint:
			p.Fixed = m.bool()
		case 5<<3 | typeVarint:
			p.Offset = m.i64()
		case 6<<3 | typeVarint:
			p.Length = m.i64()
		}
	}
	return p
}

func appendChunked(b []byte, num int, c *abi.Chunked) []byte {
	b, at := open(b, num)
	b = appendInt(b, 1, c.OriginalChunkSize)
	b = appendInt(b, 2, c.OriginalSize)
	b = appendInt(b, 3, int64(c.Packing))
	b = appendSomeBytes(b, 4, c.Sizes)
	b = appendInt(b, 5, int64(c.Compression))
	if e := c.AES256GCM; e != nil {
		var in int
		b, in = open(b, 6)
		b = appendSomeBytes(b, 1, e.Key)
		b = appendString(b, 2, e.KeyID)
		b = appendString(b, 3, e.KeyAlgorithm)
		b = appendSomeBytes(b, 4, e.AAD)
		b = closeAt(b, in)
	}
	return closeAt(b, at)
}

func (f *fields) chunked(c *abi.Chunked) *abi.Chunked {
	if c == nil {
		c = new(abi.Chunked)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeVarint:
			c.OriginalChunkSize = m.i64()
		case 2<<3 | typeVarint:
			c.OriginalSize = m.i64()
		case 3<<3 | typeVarint:
			c.Packing = abi.Packing(m.i32())
		case 4<<3 | typeLen:
			c.Sizes = m.blob()
		case 5<<3 | typeVarint:
			c.Compression = abi.Compression(m.i32())
		case 6<<3 | typeLen:
			c.AES256GCM = m.aes(c.AES256GCM)
		}
	}
	return c
}

func (f *fields) aes(e *abi.AES256GCM) *abi.AES256GCM {
	if e == nil {
		e = new(abi.AES256GCM)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			e.Key = m.blob()
		case 2<<3 | typeLen:
			e.KeyID = m.string()
		case 3<<3 | typeLen:
			e.KeyAlgorithm = m.string()
		case 4<<3 | typeLen:
			e.AAD = m.blob()
		}
	}
	return e
}
