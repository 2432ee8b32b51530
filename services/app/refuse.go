package app

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/gateway"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
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
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		oci.WriteError(w, status, code, message, r.Method != http.MethodHead)
		return
	}
	gateway.WriteMessage(w, status, message)
}
