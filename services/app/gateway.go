package app

import (
	"context"
	"net/http"
	"strings"

	"slipway.dev/gateway"
	"slipway.dev/gateway/manual"
	"slipway.dev/services/internal/config"
)

// startGateway starts the role gateway. The platform's API is served on a port of its own
// and below /api, its legacy address.
func startGateway(_ context.Context, e *env) (parts, error) {
	// Streams of logs and events end when the process begins to stop: clients reconnect to
	// another replica.
	ctx, stop := context.WithCancel(context.Background())
	e.onClose(func() error { stop(); return nil })
	rest, err := gateway.New(ctx, gateway.Conns{
		Build: e.conns["build"], Conda: e.conns["conda"], Container: e.conns["container"], Inspect: e.conns["inspect"], Metrics: e.conns["metrics"],
		Version: e.version.Version, Provider: e.cfg.OIDCName,
		Documents: func() []manual.Document { return []manual.Document{{Path: "deploy/config.md", Text: config.Page()}} },
	})
	if err != nil {
		return parts{}, err
	}
	p := parts{rest: gateway.WithoutSessions(rest), drain: stop}
	conn := e.conns["platform"]
	if conn == nil {
		return p, nil
	}
	if p.platform, err = gateway.NewPlatform(ctx, conn, e.conns["metrics"], e.cfg.OIDCName); err != nil {
		return parts{}, err
	}
	below := http.StripPrefix("/api", p.platform)
	p.rest = gateway.WithSessions(conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			below.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	}))
	p.platform = gateway.WithoutSessions(p.platform)
	return p, nil
}
