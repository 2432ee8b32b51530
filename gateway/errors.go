package gateway

import (
	"bytes"
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
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// faultDomain marks statuses that a service returned deliberately. Only their messages are
// public.
const faultDomain = "slipway.dev"

// faultFull is the reason of a fault.Full, which shares its gRPC code with exhausted limits.
const faultFull = "full"

// tooLarge is the message for a body larger than MaxBody.
const tooLarge = "The request body is larger than 32,000,000 bytes"

// A problem is an error body of the contract.
type problem struct {
	Message string `json:"message"`
	// Code is a code of gateway/contract/errors.md.
	Code string `json:"code"`
	// Details is the error in machine-readable form; nil if its code has no details.
	Details json.RawMessage `json:"details,omitempty"`
}

// codeOf returns the code for an HTTP status. Errors without a code of their own have it.
func codeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "auth.invalid"
	case http.StatusForbidden:
		return "auth.denied"
	case http.StatusNotFound:
		return "object.notFound"
	case http.StatusMethodNotAllowed:
		return "request.method"
	case http.StatusConflict:
		return "object.conflict"
	case http.StatusRequestEntityTooLarge:
		return "request.tooLarge"
	case http.StatusUnsupportedMediaType:
		return "request.mediaType"
	case http.StatusRequestedRangeNotSatisfiable:
		return "request.range"
	case http.StatusMisdirectedRequest:
		return "request.host"
	case http.StatusTooManyRequests:
		return "limit.exceeded"
	case http.StatusNotImplemented:
		return "server.unsupported"
	case http.StatusServiceUnavailable:
		return "server.unavailable"
	case http.StatusGatewayTimeout:
		return "server.timeout"
	case http.StatusInsufficientStorage:
		return "server.full"
	}
	if status >= http.StatusInternalServerError {
		return "server.internal"
	}
	return "request.invalid"
}

// writeError writes a status as an error body with its headers.
func writeError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	code, p := read(ctx, err, w.Header())
	if code == http.StatusUnauthorized && isBasic(ctx) {
		w.Header().Set("Www-Authenticate", `Basic realm="slipway"`)
	}
	writeProblem(w, code, p)
}

type failureKey struct{}

// WithFailure makes the gateway store in *into the cause of a response 500, for the log.
// Failures inside a service are not stored: the service has logged them under the same
// request id.
func WithFailure(ctx context.Context, into *error) context.Context {
	return context.WithValue(ctx, failureKey{}, into)
}

// logged is the message of a service that has logged its failure.
const logged = "Internal error"

// noteFailure stores the cause of a response 500.
func noteFailure(ctx context.Context, err error) {
	if into, ok := ctx.Value(failureKey{}).(*error); ok && status.Convert(err).Message() != logged {
		*into = err
	}
}

// read returns the HTTP status and body of an error, and sets its headers.
func read(ctx context.Context, err error, h http.Header) (code int, p problem) {
	st := status.Convert(err)
	code, p.Message = runtime.HTTPStatusFromCode(st.Code()), st.Message()
	ours, reason := false, ""
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			h.Set("Retry-After", strconv.Itoa(int((d.GetRetryDelay().AsDuration()+time.Second-1)/time.Second)))
		case *errdetails.ErrorInfo:
			ours, reason = d.GetDomain() == faultDomain, d.GetReason()
			if ours {
				p.Code = d.GetMetadata()["code"]
			}
			setQuota(h, d.GetMetadata())
		case proto.Message:
			if raw, err := protojson.Marshal(d); err == nil && ours {
				p.Details = raw
			}
		}
	}
	switch {
	case ours && reason == faultFull:
		code = http.StatusInsufficientStorage
	case ours:
	case st.Code() == codes.InvalidArgument: // from decoding the request in the gateway
		if p.Message == tooLarge {
			code = http.StatusRequestEntityTooLarge
		}
	case st.Code() == codes.DeadlineExceeded:
		p.Message = "The service did not respond in time; try again"
	case st.Code() == codes.Unavailable:
		p.Message = "A part of the service cannot be reached right now; try again"
		h.Set("Retry-After", "1")
	case st.Code() == codes.Canceled && ctx.Err() != nil: // the client has disconnected
	default:
		noteFailure(ctx, err)
		code = http.StatusInternalServerError
		p.Message = "Internal error; it is logged as " + h.Get("X-Request-Id")
	}
	if p.Code == "" {
		p.Code = codeOf(code)
	}
	return code, p
}

// isBasic reports whether a call uses HTTP basic authentication.
func isBasic(ctx context.Context) bool {
	method, _ := runtime.RPCMethod(ctx)
	return method == containerv1.ContainerService_RevokeToken_FullMethodName ||
		strings.HasPrefix(method, "/"+metricsv1.MetricsService_ServiceDesc.ServiceName+"/")
}

// setQuota sets the headers of a rate limit.
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
		WriteMessage(w, code, r.Method+" is not allowed here")
	case http.StatusNotFound:
		w.Header().Add("Vary", "Accept")
		if page, ok := ctx.Value(missingKey{}).(*web); ok {
			if p, ok := page.open(w, r); ok {
				p.notFound(w, r)
			}
			return
		}
		writeProblem(w, code, problem{Message: "There is no such path", Code: "request.path"})
	default:
		WriteMessage(w, http.StatusBadRequest, "The request is malformed")
	}
}

// writeBadParameter responds to a malformed parameter.
func writeBadParameter(w http.ResponseWriter, message string) {
	WriteMessage(w, http.StatusBadRequest, message)
}

// WriteMessage writes an error body of the REST API with the code of the status.
func WriteMessage(w http.ResponseWriter, status int, message string) {
	writeProblem(w, status, problem{Message: message, Code: codeOf(status)})
}

func writeProblem(w http.ResponseWriter, code int, p problem) {
	body := encode(p)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have disconnected
}

// encode encodes JSON without escaping <, > and &, since clients print messages as they
// are. v consists of strings, numbers, booleans and valid JSON, which always encode.
func encode(v any) []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	_ = out.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
