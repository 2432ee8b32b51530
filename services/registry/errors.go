package registry

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"strconv"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// errMethod and errNoRoute are returned for requests that the registry does not serve.
var (
	errMethod  = errors.New("only GET and HEAD are served here")
	errNoRoute = errors.New("no such path")
)

// The specification defines no codes for failures of the registry itself. These are the
// ones that most registries send and clients understand.
const (
	codeUnknown     = "UNKNOWN"
	codeUnavailable = "UNAVAILABLE"
)

// statusOf returns the HTTP status for a kind of fault, and the error code for faults that
// carry none.
func statusOf(k fault.Kind, requestKind string) (status int, code string) {
	switch k {
	case fault.Invalid:
		if requestKind == kindManifest {
			return http.StatusBadRequest, "MANIFEST_INVALID"
		}
		return http.StatusBadRequest, "NAME_INVALID"
	case fault.Unauthenticated:
		return http.StatusUnauthorized, "UNAUTHORIZED"
	case fault.Denied:
		return http.StatusForbidden, "DENIED"
	case fault.NotFound:
		if requestKind == kindBlob {
			return http.StatusNotFound, "BLOB_UNKNOWN"
		}
		return http.StatusNotFound, "MANIFEST_UNKNOWN"
	case fault.Exhausted:
		return http.StatusTooManyRequests, "TOOMANYREQUESTS"
	case fault.Full:
		return http.StatusInsufficientStorage, codeUnavailable
	case fault.Timeout:
		return http.StatusGatewayTimeout, codeUnavailable
	case fault.Unsupported:
		return http.StatusNotImplemented, "UNSUPPORTED"
	case fault.Unavailable:
		return http.StatusServiceUnavailable, codeUnavailable
	}
	return http.StatusInternalServerError, codeUnknown
}

// clientGone is the status that metrics record when the client disconnected before the
// response.
const clientGone = 499

// fail responds with an error, or aborts the connection if the response has already begun.
func (s *Registry) fail(w *httprecord.Writer, r *http.Request, kind string, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		if w.Code == 0 {
			w.Code = clientGone
		}
		return
	}
	if w.Code != 0 {
		s.deps.Log.WarnContext(r.Context(), "A pull broke off", "kind", kind, "request_id", rpc.CallFrom(r.Context()).RequestID, "err", err)
		panic(http.ErrAbortHandler) // so that the client does not accept a truncated body
	}
	status, code, message := s.errorResponse(w, r, kind, err)
	oci.WriteError(w, status, code, message, r.Method != http.MethodHead)
}

// errorResponse sets the headers for an error and returns the status and what is in the body.
func (s *Registry) errorResponse(w http.ResponseWriter, r *http.Request, kind string, err error) (status int, code, message string) {
	switch {
	case errors.Is(err, errMethod):
		w.Header().Set("Allow", "GET, HEAD")
		return http.StatusMethodNotAllowed, "UNSUPPORTED", err.Error()
	case errors.Is(err, errNoRoute):
		return http.StatusNotFound, "NAME_UNKNOWN", err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		err = fault.Timeout.New("The response took too long; try again", err)
	}
	e, ok := fault.As(err)
	if !ok {
		id := rpc.CallFrom(r.Context()).RequestID
		s.deps.Log.ErrorContext(r.Context(), "Registry request failed", "kind", kind, "request_id", id, "err", err)
		return http.StatusInternalServerError, codeUnknown, "Internal error; it is logged as " + id
	}
	s.deps.Log.DebugContext(r.Context(), "Registry request refused", "kind", kind, "err", err)
	status, code = statusOf(e.Kind, kind)
	if c := e.Meta[oci.MetaCode]; c != "" {
		code = c
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	setQuota(w.Header(), maps.All(e.Meta))
	return status, code, s.deps.Keychain.Publish(e.Public)
}

// setQuota sets the RateLimit headers from the values of a quota, and ignores other metadata.
func setQuota(h http.Header, meta iter.Seq2[string, string]) {
	for key, v := range meta {
		if name := quotaHeader(key); name != "" {
			h[name] = []string{v} // spelled as in the RFC drafts, without canonicalization
		}
	}
}

// quotaHeader returns the header for a value of a quota, or "" for other metadata.
func quotaHeader(key string) string {
	switch key {
	case ratelimit.MetaLimit:
		return "RateLimit-Limit"
	case ratelimit.MetaRemaining:
		return "RateLimit-Remaining"
	case ratelimit.MetaReset:
		return "RateLimit-Reset"
	}
	return ""
}

// writeJSON writes a small body in full, or only the headers for HEAD.
func writeJSON(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if body != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}
