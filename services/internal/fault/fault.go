// Package fault defines the errors that services return to each other and to clients. A
// fault has a kind, which decides the gRPC code and the HTTP status, a public message for
// the caller, and a cause for the log.
//
// A fault is created where the meaning of an error is known. Callers wrap it with %w. Only
// the public message leaves the process. A fault is transmitted over gRPC as a status and
// restored by FromStatus, so that errors.Is(err, fault.NotFound) works across processes. An
// error without a fault is an internal error, and clients see no details of it.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A Kind is a category of errors. Kinds implement error, so that errors.Is(err,
// fault.NotFound) reports whether err has that kind.
type Kind struct {
	name string
	code codes.Code
}

// The kinds and their gRPC codes.
var (
	Invalid         = Kind{"invalid", codes.InvalidArgument}
	Unauthenticated = Kind{"unauthenticated", codes.Unauthenticated}
	Denied          = Kind{"denied", codes.PermissionDenied}
	NotFound        = Kind{"not found", codes.NotFound}
	Conflict        = Kind{"conflict", codes.AlreadyExists}
	Exhausted       = Kind{"exhausted", codes.ResourceExhausted}
	// Full is a full disk of the service or its database.
	Full        = Kind{"full", codes.ResourceExhausted}
	Timeout     = Kind{"timeout", codes.DeadlineExceeded}
	Unsupported = Kind{"unsupported", codes.Unimplemented}
	Unavailable = Kind{"unavailable", codes.Unavailable}
)

var kinds = [...]Kind{Invalid, Unauthenticated, Denied, NotFound, Conflict, Exhausted, Full, Timeout, Unsupported, Unavailable}

// Error returns the name of the kind.
func (k Kind) Error() string { return k.name }

// New returns a fault. public is a sentence for the caller, without a full stop, that states
// the problem and what to do about it. cause is only logged and may be nil.
func (k Kind) New(public string, cause error) *Error {
	return &Error{Kind: k, Public: public, Cause: cause}
}

// Newf returns a fault without a cause.
func (k Kind) Newf(format string, args ...any) *Error {
	return &Error{Kind: k, Public: fmt.Sprintf(format, args...)}
}

// An Error is a fault. The zero value is invalid.
type Error struct {
	// Kind decides the gRPC code and the HTTP status.
	Kind Kind
	// Public is the message for the caller.
	Public string
	// Code identifies the error for programs; "" if the kind suffices.
	Code Code
	// Detail is the error as data, if the code has any; it may be nil.
	Detail proto.Message
	// Cause is only logged. It never leaves the process.
	Cause error
	// RetryAfter is the time after which a retry may succeed, or 0 if unknown.
	RetryAfter time.Duration
	// Meta holds additional data for the caller, e.g. the limit that was reached. It may be
	// nil. The REST and registry APIs convert the keys that they know to headers.
	Meta map[string]string
}

// Domain distinguishes statuses that were created from a fault from those that the gRPC
// library creates, e.g. when a process is unreachable.
const Domain = "slipway.dev"

// After sets RetryAfter and returns e.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error returns the public message and the cause, for the log.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Public
	}
	return e.Public + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the fault's kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// GRPCStatus returns the status that represents the fault: its gRPC code and public message,
// an ErrorInfo with Domain, Code and Meta, a RetryInfo with RetryAfter, and Detail.
func (e *Error) GRPCStatus() *status.Status {
	meta := e.Meta
	if e.Code != "" {
		meta = map[string]string{metaCode: string(e.Code)}
		maps.Copy(meta, e.Meta)
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Kind.name, Domain: Domain, Metadata: meta}}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if e.Detail != nil {
		details = append(details, protoadapt.MessageV1Of(e.Detail))
	}
	st := status.New(e.Kind.code, e.Public)
	if with, err := st.WithDetails(details...); err == nil {
		return with
	}
	return st
}

// As returns the first fault in err's chain. ok is false if err has no fault.
func As(err error) (e *Error, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// In returns err with place, such as a field or a line, prefixed to the public message of its
// fault. Errors without a fault are returned unchanged.
func In(place string, err error) error {
	e, ok := As(err)
	if !ok {
		return err
	}
	in := *e
	in.Public = place + ": " + e.Public
	return &in
}

// FromStatus returns the fault that a gRPC status represents. If the gRPC library created the
// status because a process was unreachable or did not respond in time, FromStatus returns an
// Unavailable or Timeout fault. It returns any other error unchanged.
func FromStatus(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	e := &Error{Public: st.Message()}
	isFault, kind := false, ""
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.ErrorInfo:
			isFault, kind, e.Meta = d.GetDomain() == Domain, d.GetReason(), d.GetMetadata()
			if code, ok := e.Meta[metaCode]; ok {
				e.Code, e.Meta = Code(code), maps.Clone(e.Meta)
				delete(e.Meta, metaCode)
			}
		case proto.Message:
			e.Detail = d
		}
	}
	if !isFault {
		return fromLibrary(st.Code(), err)
	}
	for _, k := range kinds {
		if k.name == kind {
			e.Kind = k
			return e
		}
	}
	return err
}

// Coded returns err with a code, unless its fault has one. Errors without a fault are returned
// unchanged.
func Coded(c Code, err error) error {
	e, ok := As(err)
	if !ok || e.Code != "" {
		return err
	}
	coded := *e
	coded.Code = c
	return &coded
}

func fromLibrary(code codes.Code, err error) error {
	switch code {
	case codes.Unavailable:
		return Unavailable.New("A part of the service cannot be reached right now; try again", err).After(time.Second)
	case codes.DeadlineExceeded:
		return Timeout.New("A part of the service did not respond in time", err)
	default:
		return err
	}
}

// quoteLength is the number of bytes that Quote retains.
const quoteLength = 120

// Quote returns a text from a client, limited in length and converted to valid UTF-8 as gRPC
// requires, for use in a message.
func Quote(text string) string { return Clip(text, quoteLength) }

// Quoted returns Quote in quotation marks.
func Quoted(text string) string { return `"` + Quote(text) + `"` }

// Clip is like Quote with a given length in bytes.
func Clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
