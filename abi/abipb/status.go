package abipb

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rsmhost/rsmhost/abi"
)

// ErrorDomain is the domain of an ErrorInfo whose reason is the name of a kind.
const ErrorDomain = "rsm"

// The keys of an ErrorInfo's metadata.
const (
	metaOp        = "op"
	metaSubject   = "subject"
	metaStatus    = "status"
	metaRequestID = "request_id"
)

const (
	// maxCauses bounds how deep a chain of errors crosses. Real chains have two or three; a peer's may be endless.
	maxCauses = 32
	// maxStatusText bounds a status's message, which is for tools that do not know our details. It travels in a header,
	// for which clients in other languages take 8 KiB in all.
	maxStatusText = 1 << 10
)

// FromError gives an error as a message.
func FromError(e *abi.Error) *Error { return fromError(e, maxCauses) }

func fromError(e *abi.Error, depth int) *Error {
	out := &Error{Kind: int32(e.Kind), Op: text(e.Op), Subject: text(e.Subject), Status: int32(e.Status),
		RequestId: text(e.RequestID), RetryAfterMs: e.RetryAfter.Milliseconds()}
	switch cause, ok := e.Err.(*abi.Error); {
	case ok && cause != nil && depth > 1:
		out.Cause = fromError(cause, depth-1)
	case e.Err != nil && !(ok && cause == nil):
		out.Text = text(e.Err.Error())
	}
	return out
}

// ToABI gives the error that the message carries. A message without a kind is INTERNAL.
func (x *Error) ToABI() *abi.Error { return x.toABI(maxCauses) }

func (x *Error) toABI(depth int) *abi.Error {
	out := &abi.Error{Op: x.GetOp(), Subject: x.GetSubject(), Kind: abi.Kind(x.GetKind()), Status: int(x.GetStatus()),
		RequestID: x.GetRequestId(), RetryAfter: time.Duration(x.GetRetryAfterMs()) * time.Millisecond}
	if out.Kind <= 0 {
		out.Kind = abi.Internal
	}
	switch {
	case x.GetCause() != nil && depth > 1:
		out.Err = x.GetCause().toABI(depth - 1)
	case x.GetText() != "":
		out.Err = abi.Text(x.GetText())
	}
	return out
}

// ToStatus gives err as what a gRPC handler returns: a status with an ErrorInfo for any client, a RetryInfo where there is
// a hint, and the whole error for a host. nil stays nil.
func ToStatus(err error) error {
	e := abi.AsError("", "", err)
	if e == nil {
		return nil
	}
	msg := text(e.Error())
	if len(msg) > maxStatusText {
		msg = text(msg[:maxStatusText])
	}
	st := status.New(codeOf(e.Kind), msg)
	meta := map[string]string{}
	for k, v := range map[string]string{metaOp: e.Op, metaSubject: e.Subject, metaRequestID: e.RequestID} {
		if v != "" {
			meta[k] = text(v)
		}
	}
	if e.Status != 0 {
		meta[metaStatus] = strconv.Itoa(e.Status)
	}
	info := &errdetails.ErrorInfo{Reason: e.Kind.String(), Domain: ErrorDomain, Metadata: meta}
	withDetails, detailErr := st.WithDetails(FromError(e), info)
	if detailErr != nil { // only for a status that is OK, which no kind has
		return st.Err()
	}
	if e.RetryAfter > 0 {
		retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}
		if withRetry, detailErr := withDetails.WithDetails(retry); detailErr == nil {
			withDetails = withRetry
		}
	}
	return withDetails.Err()
}

// FromStatus gives the error that a gRPC call returned, as the contract has it. With our details it is the error that the
// other side made. Without them, from an ErrorInfo or from the bare code, op and subject are the caller's. bare reports
// that only the code was there: then UNAVAILABLE means that the other side is gone. nil stays nil.
func FromStatus(op, subject string, err error) (e *abi.Error, bare bool) {
	if err == nil {
		return nil, false
	}
	st, ok := status.FromError(err)
	if !ok {
		return abi.AsError(op, subject, err), true
	}
	e = &abi.Error{Op: op, Subject: subject, Kind: kindOf(st.Code()), Err: abi.Text(st.Message())}
	bare = true
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *Error:
			return d.ToABI(), false
		case *errdetails.ErrorInfo:
			bare = !applyInfo(e, d) && bare
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e, bare
}

// applyInfo takes over what an ErrorInfo of our domain says, and reports whether it is one.
func applyInfo(e *abi.Error, info *errdetails.ErrorInfo) bool {
	kind, ok := abi.ParseKind(info.GetReason())
	if info.GetDomain() != ErrorDomain || !ok {
		return false
	}
	e.Kind = kind
	meta := info.GetMetadata()
	if v := meta[metaOp]; v != "" {
		e.Op = v
	}
	if v := meta[metaSubject]; v != "" {
		e.Subject = v
	}
	e.RequestID = meta[metaRequestID]
	if n, err := strconv.Atoi(meta[metaStatus]); err == nil {
		e.Status = n
	}
	return true
}

// codeOf gives the code under which a kind travels, for clients that look no further.
func codeOf(k abi.Kind) codes.Code {
	switch k {
	case abi.NotFound:
		return codes.NotFound
	case abi.Invalid:
		return codes.InvalidArgument
	case abi.Denied:
		return codes.PermissionDenied
	case abi.Auth:
		return codes.Unauthenticated
	case abi.Throttled, abi.Exhausted:
		return codes.ResourceExhausted
	case abi.Unavailable:
		return codes.Unavailable
	case abi.Deadline:
		return codes.DeadlineExceeded
	case abi.Cancelled:
		return codes.Canceled
	case abi.Corrupt:
		return codes.DataLoss
	case abi.Precondition, abi.Phase:
		return codes.FailedPrecondition
	case abi.Unsupported:
		return codes.Unimplemented
	}
	return codes.Internal
}

// kindOf maps a code without details, as a plain stub in another language sends it.
func kindOf(c codes.Code) abi.Kind {
	switch c {
	case codes.NotFound:
		return abi.NotFound
	case codes.InvalidArgument, codes.OutOfRange:
		return abi.Invalid
	case codes.PermissionDenied:
		return abi.Denied
	case codes.Unauthenticated:
		return abi.Auth
	case codes.ResourceExhausted:
		return abi.Throttled
	case codes.Unavailable:
		return abi.Unavailable
	case codes.DeadlineExceeded:
		return abi.Deadline
	case codes.Canceled:
		return abi.Cancelled
	case codes.DataLoss:
		return abi.Corrupt
	case codes.FailedPrecondition, codes.Aborted:
		return abi.Precondition
	case codes.Unimplemented:
		return abi.Unsupported
	}
	return abi.Internal
}
