package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
)

// refuse responds with a fault that was found before the request reached its API.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, code, message := http.StatusServiceUnavailable, "UNAVAILABLE", "Try again later"
	if errors.Is(err, fault.Exhausted) {
		status, code = http.StatusTooManyRequests, "TOOMANYREQUESTS"
	}
	if e, ok := fault.As(err); ok {
		message = e.Public
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	writeRefusal(w, r, status, code, message)
}

// writeRefusal writes an error in the form of the API that the request is for: that of
// the OCI distribution specification, with its code, below /v2/, else the REST API's.
func writeRefusal(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	type detail struct {
		Code    string `json:"code,omitempty"`
		Message string `json:"message"`
	}
	var body any = detail{Message: message}
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		body = map[string][]detail{"errors": {{code, message}}}
	}
	var raw bytes.Buffer
	out := json.NewEncoder(&raw)
	out.SetEscapeHTML(false) // clients print messages as they are
	_ = out.Encode(body)     // strings are always valid JSON
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimSuffix(raw.Bytes(), []byte("\n"))) // the client may have disconnected
}
