package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// faultDomain marks statuses that a room made on purpose; only their texts are
// for the outside.
const faultDomain = "slipway.dev"

// tooLarge is the message for a body larger than MaxBody.
const tooLarge = "The request body is larger than 32,000,000 bytes"

// writeError writes a status as {"message"}, with the headers that belong to it.
func writeError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	code, message := read(status.Convert(err), w.Header())
	if code == http.StatusUnauthorized && isBasic(ctx) {
		w.Header().Set("Www-Authenticate", `Basic realm="slipway"`)
	}
	writeMessage(w, code, message)
}

// read returns the HTTP form of a status, and sets the headers that belong to it.
func read(st *status.Status, h http.Header) (code int, message string) {
	code, message = runtime.HTTPStatusFromCode(st.Code()), st.Message()
	ours := false
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			h.Set("Retry-After", strconv.Itoa(int((d.GetRetryDelay().AsDuration()+time.Second-1)/time.Second)))
		case *errdetails.ErrorInfo:
			ours = d.GetDomain() == faultDomain
			setQuota(h, d.GetMetadata())
		}
	}
	switch {
	case ours:
	case st.Code() == codes.InvalidArgument: // from decoding the request, here in the gateway
		switch message {
		case tooLarge:
			code = http.StatusRequestEntityTooLarge
		case busy:
			code = http.StatusServiceUnavailable
			h.Set("Retry-After", "5")
		}
	case st.Code() == codes.DeadlineExceeded:
		message = "The service took too long to answer; try again"
	case st.Code() == codes.Unavailable:
		message = "A part of the service cannot be reached right now; try again"
		h.Set("Retry-After", "1")
	default:
		code = http.StatusInternalServerError
		message = "Internal error; it is logged as " + h.Get("X-Request-Id")
	}
	return code, message
}

// isBasic recognises the calls that take HTTP basic.
func isBasic(ctx context.Context) bool {
	method, _ := runtime.RPCMethod(ctx)
	return method == containerv1.ContainerService_RevokeToken_FullMethodName ||
		strings.HasPrefix(method, "/"+metricsv1.MetricsService_ServiceDesc.ServiceName+"/")
}

// setQuota turns what a rate limit says into headers.
func setQuota(h http.Header, meta map[string]string) {
	for key, name := range map[string]string{
		"ratelimit-limit": "RateLimit-Limit", "ratelimit-remaining": "RateLimit-Remaining", "ratelimit-reset": "RateLimit-Reset",
	} {
		if v := meta[key]; v != "" {
			h[name] = []string{v}
		}
	}
}

// writeRoutingError responds to a path or method that does not exist.
func writeRoutingError(ctx context.Context, mux *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	if isProbe(ctx) {
		return
	}
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", allowed(mux, w, r))
		writeMessage(w, code, r.Method+" is not allowed here")
	case http.StatusNotFound:
		writeMessage(w, code, "There is no such path")
	default:
		writeMessage(w, http.StatusBadRequest, "The request is malformed")
	}
}

// writeBadParameter responds to a parameter that cannot be read.
func writeBadParameter(w http.ResponseWriter, message string) {
	writeMessage(w, http.StatusBadRequest, message)
}

// writeMessage writes the contract's error body.
func writeMessage(w http.ResponseWriter, code int, message string) {
	body, err := json.Marshal(map[string]string{"message": message})
	if err != nil {
		code, body = http.StatusInternalServerError, []byte(`{"message":"Internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone; nobody is left to tell
}
