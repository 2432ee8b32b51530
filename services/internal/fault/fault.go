// Package fault is how rooms say that something went wrong: a kind that decides
// the status on every wire, a text for the caller, and a cause for the log.
//
// A fault is made where the meaning is known; everyone above wraps it with %w.
// Only its public text leaves the process. It crosses gRPC as a status and comes
// back as a fault (see FromStatus), so errors.Is(err, fault.NotFound) holds
// across processes. A plain error is an internal one and shows no text at all.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Kind is what sort of thing went wrong. Kinds are errors themselves, so that
// errors.Is(err, fault.NotFound) asks for one.
type Kind struct {
	name string
	code codes.Code
}

// The kinds, and the gRPC code each travels as.
var (
	Invalid         = Kind{"invalid", codes.InvalidArgument}
	Unauthenticated = Kind{"unauthenticated", codes.Unauthenticated}
	Denied          = Kind{"denied", codes.PermissionDenied}
	NotFound        = Kind{"not found", codes.NotFound}
	Conflict        = Kind{"conflict", codes.AlreadyExists}
	Exhausted       = Kind{"exhausted", codes.ResourceExhausted}
	Timeout         = Kind{"timeout", codes.DeadlineExceeded}
	Unsupported     = Kind{"unsupported", codes.Unimplemented}
	Unavailable     = Kind{"unavailable", codes.Unavailable}
)

var kinds = [...]Kind{Invalid, Unauthenticated, Denied, NotFound, Conflict, Exhausted, Timeout, Unsupported, Unavailable}

// Error names the kind.
func (k Kind) Error() string { return k.name }

// New makes a fault. public is shown to the caller: a sentence without a full
// stop that says what to do. cause goes to the log only; nil is fine.
func (k Kind) New(public string, cause error) *Error {
	return &Error{Kind: k, Public: public, Cause: cause}
}

// Newf makes a fault without a cause.
func (k Kind) Newf(format string, args ...any) *Error {
	return &Error{Kind: k, Public: fmt.Sprintf(format, args...)}
}

// Error is a fault. The zero value is not one.
type Error struct {
	// Kind decides the status on every wire.
	Kind Kind
	// Public is the text that the caller reads.
	Public string
	// Cause is for the log; it never leaves the process.
	Cause error
	// RetryAfter says when it is worth trying again; 0 says nothing.
	RetryAfter time.Duration
	// Meta travels beside the text, e.g. the limit that was hit; may be nil. The
	// REST and registry faces turn the keys they know into headers.
	Meta map[string]string
}

// Domain marks the statuses that a fault made, against those that the gRPC
// library makes of itself when a process cannot be reached.
const Domain = "slipway.dev"

// After returns e with the time to wait before another try.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error is the text for the log: public text and cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Public
	}
	return e.Public + ": " + e.Cause.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is holds for the fault's kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// GRPCStatus is the fault as it crosses a process: code, public text, the time
// to wait as RetryInfo, and an ErrorInfo of our Domain with the meta data.
func (e *Error) GRPCStatus() *status.Status {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Kind.name, Domain: Domain, Metadata: e.Meta}}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	st := status.New(e.Kind.code, e.Public)
	if with, err := st.WithDetails(details...); err == nil {
		return with
	}
	return st
}

// As finds the fault in err's chain; ok is false for a plain error.
func As(err error) (e *Error, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// In puts a place in front of the public text of a fault: a field, or a line. Other
// errors stay as they are.
func In(place string, err error) error {
	e, ok := As(err)
	if !ok {
		return err
	}
	in := *e
	in.Public = place + ": " + e.Public
	return &in
}

// FromStatus turns a status that another process answered back into a fault. A
// process that cannot be reached, or does not answer in time, is a fault with a
// text of its own; any other status that no fault made comes back as err
// itself, and a nil err as nil.
func FromStatus(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	e := &Error{Public: st.Message()}
	ours := false
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		case *errdetails.ErrorInfo:
			ours, e.Meta = d.GetDomain() == Domain, d.GetMetadata()
		}
	}
	if !ours {
		return fromLibrary(st.Code(), err)
	}
	for _, k := range kinds {
		if k.code == st.Code() {
			e.Kind = k
			return e
		}
	}
	return err
}

func fromLibrary(code codes.Code, err error) error {
	switch code {
	case codes.Unavailable:
		return Unavailable.New("A part of the service cannot be reached right now; try again", err).After(time.Second)
	case codes.DeadlineExceeded:
		return Timeout.New("A part of the service took too long to answer", err)
	default:
		return err
	}
}

// quoted is how much of a text from outside a sentence quotes, in bytes.
const quoted = 120

// Quote is a text from outside as a sentence may quote it: short, and valid UTF-8, as
// gRPC wants it.
func Quote(text string) string { return Clip(text, quoted) }

// Clip is Quote for another length, in bytes.
func Clip(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
