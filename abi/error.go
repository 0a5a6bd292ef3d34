package abi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Kind says what went wrong, in the words that host and plugin share. The numbers are the wire form: literal,
// append-only, the same in Go, gRPC and Wasm (ABI.md, section 4).
type Kind int32

// The kinds. Zero is "no error" and never stands in an Error.
const (
	NotFound     Kind = 1  // the object does not exist, and nothing promised that it would
	Invalid      Kind = 2  // the request itself is wrong: a negative start, an end below start, a bad setting
	Denied       Kind = 3  // known who asks, and not allowed; also: not granted by the host
	Auth         Kind = 4  // credentials are missing, wrong or expired
	Throttled    Kind = 5  // asked to slow down; RetryAfter says how long where it is known
	Unavailable  Kind = 6  // the store or the plugin cannot be reached now
	Deadline     Kind = 7  // the deadline passed
	Cancelled    Kind = 8  // the caller gave up
	Exhausted    Kind = 9  // a limit was met: memory, instances, queue, size of a reply
	Corrupt      Kind = 10 // bytes are there and wrong, or an object is missing whose siblings promise it
	Precondition Kind = 11 // the object changed under a read (etag)
	Unsupported  Kind = 12 // the operation or the form is not implemented
	Phase        Kind = 13 // a call that the state does not allow: before configure, after drain
	Internal     Kind = 14 // everything else: a defect
)

var kindNames = [...]string{"NONE", "NOT_FOUND", "INVALID", "DENIED", "AUTH", "THROTTLED", "UNAVAILABLE", "DEADLINE",
	"CANCELLED", "EXHAUSTED", "CORRUPT", "PRECONDITION", "UNSUPPORTED", "PHASE", "INTERNAL"}

// String is the kind's name in ABI.md; a kind from a newer peer is "KIND(n)".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("KIND(%d)", int32(k))
	}
	return kindNames[k]
}

// ParseKind finds the kind with this name. It reports false for names it does not know and for NONE.
func ParseKind(name string) (Kind, bool) {
	for i, n := range kindNames {
		if i > 0 && n == name {
			return Kind(i), true
		}
	}
	return 0, false
}

// Error makes a bare kind usable with errors.Is: errors.Is(err, abi.NotFound) asks for the kind of the outermost
// *Error in err's chain.
func (k Kind) Error() string { return k.String() }

// Retriable reports whether the same call may succeed later without anybody changing anything.
func (k Kind) Retriable() bool { return k == Throttled || k == Unavailable || k == Deadline }

// Error is the one error type of the contract. It crosses the plugin boundary and comes back equal: all fields, and
// the text of a cause that is not itself an *Error (see Text).
type Error struct {
	Op         string        // the operation: "fetch_log_segment", "open"; may be empty
	Subject    string        // what it was about: an object's key, a partition, a setting; may be empty
	Kind       Kind          // never zero
	Status     int           // the store's status (HTTP), 0 where there is none
	RequestID  string        // the store's id of the request, empty where there is none
	RetryAfter time.Duration // a hint; 0 where there is none
	Err        error         // the cause; nil, another *Error, a Text, or any error on the side where it happened
}

// Text is a cause that crossed a boundary: only its words are left.
type Text string

func (t Text) Error() string { return string(t) }

// E makes an Error from the parts that every site has. Set the others on the result. Of an error of the os package about
// the subject it keeps the reason alone, so that a message names a path once.
func E(op, subject string, kind Kind, err error) *Error {
	if p, ok := err.(*fs.PathError); ok && strings.HasSuffix(subject, p.Path) {
		err = p.Err
	}
	return &Error{Op: op, Subject: subject, Kind: kind, Err: err}
}

// Errorf makes an Error whose cause is a formatted sentence; %w keeps what it wraps reachable.
func Errorf(op, subject string, kind Kind, format string, args ...any) *Error {
	return &Error{Op: op, Subject: subject, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Error reads "op subject: KIND: cause", leaving out what is empty and a kind that the cause repeats.
func (e *Error) Error() string {
	var b strings.Builder
	head := strings.TrimSpace(e.Op + " " + e.Subject)
	b.WriteString(head)
	if inner := (*Error)(nil); !errors.As(e.Err, &inner) || inner.Kind != e.Kind {
		sep(&b, ": ").WriteString(e.Kind.String())
		if e.Status != 0 {
			fmt.Fprintf(&b, " (status %d)", e.Status)
		}
		if e.RequestID != "" {
			fmt.Fprintf(&b, " (request %s)", e.RequestID)
		}
	}
	if e.Err != nil {
		sep(&b, ": ").WriteString(e.Err.Error())
	}
	return b.String()
}

func sep(b *strings.Builder, s string) *strings.Builder {
	if b.Len() > 0 {
		b.WriteString(s)
	}
	return b
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches a bare Kind against the kind of this Error.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// KindOf is the kind of the outermost *Error in err's chain; context errors are Deadline and Cancelled; any other error
// is Internal, and nil is 0.
func KindOf(err error) Kind {
	if err == nil {
		return 0
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Deadline
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Internal
}

// AsError gives err as an *Error, wrapping it with KindOf(err) where it is none. nil stays nil.
func AsError(op, subject string, err error) *Error {
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e
	}
	return &Error{Op: op, Subject: subject, Kind: KindOf(err), Err: err}
}
