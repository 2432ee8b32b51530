package registry

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// errMethod and errNoRoute are mistakes in the request itself.
var (
	errMethod  = errors.New("only GET and HEAD are served here")
	errNoRoute = errors.New("no such path")
)

// ociError is an error body of the distribution specification.
type ociError struct {
	Errors []ociErrorEntry `json:"errors"`
}

type ociErrorEntry struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The specification has no codes for a registry that is at fault itself; these are what
// most registries send, and clients know.
const (
	codeUnknown     = "UNKNOWN"
	codeUnavailable = "UNAVAILABLE"
)

// statusOf says how a kind of fault is answered; its code where the fault itself
// names none.
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
	case fault.Timeout:
		return http.StatusGatewayTimeout, codeUnavailable
	case fault.Unsupported:
		return http.StatusNotImplemented, "UNSUPPORTED"
	case fault.Unavailable:
		return http.StatusServiceUnavailable, codeUnavailable
	}
	return http.StatusInternalServerError, codeUnknown
}

// clientGone is what the metrics show when nobody waits for the answer.
const clientGone = 499

// fail answers an error, or ends the connection when an answer has begun.
func (s *Registry) fail(w *httprecord.Writer, r *http.Request, kind string, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		if w.Code == 0 {
			w.Code = clientGone
		}
		return
	}
	if w.Code != 0 {
		s.deps.Log.WarnContext(r.Context(), "A pull broke off", "kind", kind, "request_id", rpc.CallFrom(r.Context()).RequestID, "err", err)
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
	}
	status, entry := s.describe(w, r, kind, err)
	body, _ := json.Marshal(ociError{Errors: []ociErrorEntry{entry}})
	if r.Method == http.MethodHead {
		body = nil
	}
	writeJSON(w, status, "application/json", body)
}

// describe sets headers and answers status and body.
func (s *Registry) describe(w http.ResponseWriter, r *http.Request, kind string, err error) (int, ociErrorEntry) {
	switch {
	case errors.Is(err, errMethod):
		w.Header().Set("Allow", "GET, HEAD")
		return http.StatusMethodNotAllowed, ociErrorEntry{"UNSUPPORTED", err.Error()}
	case errors.Is(err, errNoRoute):
		return http.StatusNotFound, ociErrorEntry{"NAME_UNKNOWN", err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		err = fault.Timeout.New("The answer took too long; try again", err)
	}
	e, ok := fault.As(err)
	if !ok {
		id := rpc.CallFrom(r.Context()).RequestID
		s.deps.Log.ErrorContext(r.Context(), "Registry request failed", "kind", kind, "request_id", id, "err", err)
		return http.StatusInternalServerError, ociErrorEntry{codeUnknown, "Internal error; it is logged as " + id}
	}
	s.deps.Log.DebugContext(r.Context(), "Registry request refused", "kind", kind, "err", err)
	status, code := statusOf(e.Kind, kind)
	if c := e.Meta[oci.MetaCode]; c != "" {
		code = c
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	setQuota(w.Header(), e.Meta)
	return status, ociErrorEntry{code, e.Public}
}

// setQuota writes the RateLimit headers; meta may be nil.
func setQuota(h http.Header, meta map[string]string) {
	for key, name := range map[string]string{
		ratelimit.MetaLimit: "RateLimit-Limit", ratelimit.MetaRemaining: "RateLimit-Remaining", ratelimit.MetaReset: "RateLimit-Reset",
	} {
		if v := meta[key]; v != "" {
			h[name] = []string{v} // as RFC drafts and clients spell it
		}
	}
}

// writeJSON answers a small body in full; nil for HEAD.
func writeJSON(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	if body != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone; nobody is left to tell
}
