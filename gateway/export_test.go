package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
)

// NewWithTimeouts returns the same handler with other timeouts.
func NewWithTimeouts(ctx context.Context, c Conns, silence, keepAlive, retryFor, stall time.Duration) (http.Handler, error) {
	p := defaultTimeouts()
	p.answer, p.silence, p.keepAlive, p.retryFor, p.stall = 300*time.Millisecond, silence, keepAlive, retryFor, stall
	return build(ctx, c, p)
}

// Routers returns the routers of the two APIs.
func Routers(ctx context.Context, conn grpc.ClientConnInterface) (container, platform *runtime.ServeMux, err error) {
	container, err = route(ctx, Conns{Container: conn, Build: conn, Conda: conn, Inspect: conn, Metrics: conn}, defaultTimeouts())
	if err != nil {
		return nil, nil, err
	}
	platform, err = routePlatform(ctx, conn, conn, "")
	return container, platform, err
}

// Printable returns external text as pages show it.
func Printable(text string) string { return printable(text) }

// CodeOf returns the code of an error for an HTTP status.
func CodeOf(status int) string { return codeOf(status) }
