package wasm

import (
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// maxRetryMs is more than anybody waits, and fits a time.Duration.
const maxRetryMs = 1 << 40

// AppendError appends an Error document: all fields, each cause that is itself an *abi.Error, and the words of one that
// is not.
func AppendError(b []byte, e *abi.Error) []byte { return appendError(b, e, 1) }

func appendError(b []byte, e *abi.Error, depth int) []byte {
	b = appendInt(b, 1, int64(e.Kind))
	b = appendString(b, 2, e.Op)
	b = appendString(b, 3, e.Subject)
	b = appendInt(b, 4, int64(e.Status))
	b = appendString(b, 5, e.RequestID)
	b = appendInt(b, 6, e.RetryAfter.Milliseconds())
	cause, ok := e.Err.(*abi.Error)
	switch {
	case e.Err == nil, ok && cause == nil:
		return b
	case !ok, depth == maxNested:
		return appendString(b, 7, e.Err.Error())
	}
	b, at := open(b, 8)
	return closeAt(appendError(b, cause, depth+1), at)
}

// DecodeError reads an Error document. An Error without a kind is INTERNAL.
func DecodeError(b []byte) (*abi.Error, error) {
	f := document(b)
	e := f.error(new(abi.Error), 1)
	if err := f.done("Error"); err != nil {
		return nil, err
	}
	return e, nil
}

// error reads the fields of f itself into e.
func (f *fields) error(e *abi.Error, depth int) *abi.Error {
	var text string
	cause, _ := e.Err.(*abi.Error)
	if t, ok := e.Err.(abi.Text); ok {
		text = string(t)
	}
	for f.next() {
		switch f.key {
		case 1<<3 | typeVarint:
			e.Kind = abi.Kind(f.i32())
		case 2<<3 | typeLen:
			e.Op = f.string()
		case 3<<3 | typeLen:
			e.Subject = f.string()
		case 4<<3 | typeVarint:
			e.Status = int(f.i32())
		case 5<<3 | typeLen:
			e.RequestID = f.string()
		case 6<<3 | typeVarint:
			e.RetryAfter = time.Duration(min(max(f.i64(), 0), maxRetryMs)) * time.Millisecond
		case 7<<3 | typeLen:
			text = f.string()
		case 8<<3 | typeLen:
			if depth == maxNested {
				f.fail("nested too deeply")
				break
			}
			if cause == nil {
				cause = new(abi.Error)
			}
			m := f.nested()
			cause = m.error(cause, depth+1)
		}
	}
	if e.Kind <= 0 {
		e.Kind = abi.Internal
	}
	switch {
	case cause != nil:
		e.Err = cause
	case text != "":
		e.Err = abi.Text(text)
	}
	return e
}
