package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
)

// Hasten answers the same handler with less time for everything that waits.
func Hasten(ctx context.Context, c Conns, silence, keepAlive, patience, stall time.Duration) (http.Handler, error) {
	p := defaultTimeouts()
	p.answer, p.silence, p.keepAlive, p.patience, p.stall = 300*time.Millisecond, silence, keepAlive, patience, stall
	return build(ctx, c, p)
}

// Routers answers what the two faces route with.
func Routers(ctx context.Context, conn grpc.ClientConnInterface) (container, platform *runtime.ServeMux, err error) {
	container, err = route(ctx, Conns{Container: conn, Build: conn, Conda: conn, Inspect: conn, Metrics: conn}, defaultTimeouts())
	if err != nil {
		return nil, nil, err
	}
	platform, err = routePlatform(ctx, conn)
	return container, platform, err
}

// Sayable is what is shown of a provider's own words.
func Sayable(text string) string { return sayable(text) }
