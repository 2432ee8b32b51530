package gateway

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// platformTooLarge is the message for a body larger than MaxPlatformBody.
const platformTooLarge = "The request body is larger than 16,000,000 bytes"

// writePlatformError writes a status as the platform does: missing permissions and missing
// objects are both 403, with the same code, and the message of a 400 contains the request id.
func writePlatformError(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	st := status.Convert(err)
	code, p := read(ctx, err, w.Header())
	switch code {
	case http.StatusUnauthorized:
		if !isStale(st) {
			code, p.Code = http.StatusForbidden, codeOf(http.StatusForbidden)
		}
	case http.StatusNotFound:
		code, p.Code = http.StatusForbidden, codeOf(http.StatusForbidden)
	case http.StatusRequestEntityTooLarge:
		p.Message = platformTooLarge
	case http.StatusBadRequest:
		p.Message = identified(p.Message, w.Header())
	}
	writeProblem(w, code, p)
}

// isStale reports whether an expired access token caused the error, which clients refresh
// on a 401.
func isStale(st *status.Status) bool {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetMetadata()["refresh"] != "" {
			return true
		}
	}
	return false
}

// identified appends the request id, which is also in the log, to a message.
func identified(message string, h http.Header) string {
	return message + " - error id: " + h.Get("X-Request-Id")
}

// writeNoEndpoint responds to a path or method that does not exist, equally for all
// callers.
func writeNoEndpoint(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, code int) {
	if code == http.StatusBadRequest {
		WriteMessage(w, code, identified("The request is malformed", w.Header()))
		return
	}
	WriteMessage(w, http.StatusForbidden, "There is no such endpoint, or you may not use it")
}

// refuseParameter responds to a malformed parameter.
func refuseParameter(w http.ResponseWriter, message string) {
	WriteMessage(w, http.StatusBadRequest, identified(message, w.Header()))
}
