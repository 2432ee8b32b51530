// Package gateway is the REST contract: it turns the HTTP calls of
// contract/container-service.md into gRPC calls, and their answers into the exact
// JSON that clients expect. It knows the wire types and nothing of the services
// behind them.
package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
)

// Conns are the ways to the rooms. A nil one leaves its paths out: they answer
// 404.
type Conns struct {
	Container grpc.ClientConnInterface
	Inspect   grpc.ClientConnInterface
}

// MaxBody is the largest request body in bytes.
const MaxBody = 32_000_000

// answerTime is how long a call may take.
const answerTime = 60 * time.Second

// New answers the handler of every REST path. The request id that errors show is
// the X-Request-Id of the response, which the caller's middleware sets.
func New(ctx context.Context, c Conns) (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, newMarshaler()),
		runtime.WithErrorHandler(writeError),
		runtime.WithRoutingErrorHandler(writeRoutingError),
		runtime.WithIncomingHeaderMatcher(noHeader),
		runtime.WithOutgoingHeaderMatcher(noHeader),
		runtime.WithOutgoingTrailerMatcher(noHeader),
		runtime.WithForwardResponseOption(setStatus),
		runtime.WithDisablePathLengthFallback(),
	)
	if c.Container != nil {
		if err := containerv1.RegisterContainerServiceHandlerClient(ctx, mux, containerv1.NewContainerServiceClient(c.Container)); err != nil {
			return nil, fmt.Errorf("mounting the container service: %w", err)
		}
	}
	if c.Inspect != nil {
		if err := inspectv1.RegisterInspectServiceHandlerClient(ctx, mux, inspectv1.NewInspectServiceClient(c.Inspect)); err != nil {
			return nil, fmt.Errorf("mounting the inspect service: %w", err)
		}
	}
	return edge(mux), nil
}

// edge sets what holds for every call: its time, its size, its headers.
func edge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > MaxBody {
			writeMessage(w, http.StatusRequestEntityTooLarge, tooLarge)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		r.Header.Del("Grpc-Timeout")
		setDeprecation(w.Header(), r)
		next.ServeHTTP(w, r)
	})
}

// setStatus answers 204 where there is nothing to say.
func setStatus(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if _, ok := m.(*containerv1.RevokeContainerResponse); ok {
		w.Header().Del("Content-Type")
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}
