package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// listeners are where a process is reached.
type listeners struct {
	grpc []grpcListener
	// web is what the public reaches; the admin port is last of all.
	web   []webListener
	admin webListener
}

// webListener is an HTTP port.
type webListener struct {
	name, scheme string
	on           net.Listener
	server       *http.Server
}

type grpcListener struct {
	server *rpc.Server
	l      net.Listener
}

func (l *listeners) addGRPC(s *rpc.Server, on net.Listener) {
	l.grpc = append(l.grpc, grpcListener{s, on})
}

// listen opens the HTTP ports.
func (a *App) listen(ctx context.Context) (err error) {
	if a.listeners.admin, err = a.listenOn(ctx, "admin_addr", a.cfg.AdminAddr, a.adminHandler()); err != nil {
		return err
	}
	a.listeners.admin.name = "admin"
	if a.api != nil || a.pulls != nil {
		if err := a.listenPublic(ctx, "REST and registry", "http_addr", a.cfg.HTTPAddr, a.publicHandler()); err != nil {
			return err
		}
	}
	if a.platformAPI != nil && a.cfg.PlatformHTTPAddr != "" {
		return a.listenPublic(ctx, "platform", "platform_http_addr", a.cfg.PlatformHTTPAddr, a.platformAPI)
	}
	return nil
}

// listenPublic opens a port that everybody may reach.
func (a *App) listenPublic(ctx context.Context, name, key, addr string, h http.Handler) error {
	edge, err := a.edge(h)
	if err != nil {
		return err
	}
	l, err := a.listenOn(ctx, key, addr, edge)
	if err != nil {
		return err
	}
	l.name = name
	proxies, err := config.ParseNetworks(a.cfg.TrustedProxies)
	if err != nil {
		return err
	}
	l.on = door{l.on, &ratelimit.AtOnce{What: "connections", Each: a.cfg.ConnectionsClient}, proxies}
	if a.cfg.TLSCertFile != "" {
		cert, err := rpc.LoadCertificate(a.cfg.TLSCertFile, a.cfg.TLSKeyFile)
		if err != nil {
			return err
		}
		l.on, l.scheme = tls.NewListener(l.on, cert.ServerTLS()), "https"
	}
	a.listeners.web = append(a.listeners.web, l)
	return nil
}

func (a *App) listenOn(ctx context.Context, key, addr string, h http.Handler) (webListener, error) {
	var lc net.ListenConfig
	on, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return webListener{}, fmt.Errorf("%s: %w", key, err)
	}
	a.onClose(ignoreClosed(on))
	return webListener{scheme: "http", on: on, server: a.httpServer(h)}, nil
}

// publicHandler gives /v2/ to the registry and the rest to the gateway.
func (a *App) publicHandler() http.Handler {
	nothing := http.NotFoundHandler()
	api, pulls := a.api, a.pulls
	if api == nil {
		api = nothing
	}
	api = a.withStreams(api)
	if pulls == nil {
		pulls = nothing
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") || r.URL.Path == "/v2" {
			pulls.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// httpServer has no limit on the time of an answer: a blob may be large. The
// handlers set their own.
func (a *App) httpServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    limits.Headers,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: limits.RequestsOfConnection},
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
}

// tasks are the listeners, to be run until they are stopped.
func (l *listeners) tasks(*App) []func(context.Context) error {
	var out []func(context.Context) error
	for _, g := range l.grpc {
		out = append(out, func(context.Context) error { return g.server.Serve(g.l) })
	}
	for _, w := range append(slices.Clone(l.web), l.admin) {
		out = append(out, func(context.Context) error {
			if err := w.server.Serve(w.on); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving HTTP: %w", err)
			}
			return nil
		})
	}
	return out
}

// stop lets running requests finish; the admin port goes last.
func (l *listeners) stop(ctx context.Context) error {
	var problems []error
	for _, w := range append(slices.Clone(l.web), l.admin) {
		if err := w.server.Shutdown(ctx); err != nil {
			problems = append(problems, fmt.Errorf("not all pulls finished in time: %w", err), w.server.Close())
		}
	}
	return errors.Join(problems...)
}

func (l *listeners) publicAddr() net.Addr {
	if len(l.web) == 0 {
		return nil
	}
	return l.web[0].on.Addr()
}

func (l *listeners) String() string {
	var parts []string
	for _, w := range l.web {
		parts = append(parts, w.String())
	}
	for _, g := range l.grpc {
		if a := g.l.Addr(); a.Network() == "tcp" {
			parts = append(parts, "gRPC on "+a.String())
		}
	}
	return strings.Join(append(parts, l.admin.String()), ", ")
}

func (w webListener) String() string {
	return w.name + " on " + w.scheme + "://" + w.on.Addr().String()
}

func ignoreClosed(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
