package app

import (
	"cmp"
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

	"slipway.dev/gateway"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// listeners are the listeners of a process.
type listeners struct {
	grpc []grpcListener
	// web holds the public listeners; the admin port is closed last.
	web   []webListener
	admin webListener
	// connections limits the connections to the public ports.
	connections *fairshare.Pool
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
	guard, err := guardBrowsers(a.cfg.AdminAddr)
	if err != nil {
		return err
	}
	if a.listeners.admin, err = a.listenOn(ctx, "admin_addr", a.cfg.AdminAddr, guard.handler(a.adminHandler())); err != nil {
		return err
	}
	a.listeners.admin.name = "admin"
	a.listeners.connections = fairshare.New(fairshare.Config{Name: "connections", PerClient: int64(a.cfg.ConnectionsClient)})
	a.reg.MustRegister(a.listeners.connections)
	rest, platform, pulls := a.handlers()
	if rest != nil || pulls != nil {
		if err := a.listenPublic(ctx, "REST and registry", "http_addr", a.cfg.HTTPAddr, a.publicHandler(rest, pulls)); err != nil {
			return err
		}
	}
	if platform != nil && a.cfg.PlatformHTTPAddr != "" {
		return a.listenPublic(ctx, "platform", "platform_http_addr", a.cfg.PlatformHTTPAddr, platform)
	}
	return nil
}

// listenPublic opens a public port.
func (a *App) listenPublic(ctx context.Context, name, key, addr string, h http.Handler) error {
	guard, err := guardBrowsers(addr, a.cfg.PublicURL, a.cfg.PlatformURL)
	if err != nil {
		return fmt.Errorf("public_url, platform_url: %w", err)
	}
	if err := guard.trust(a.cfg.CORSOrigins); err != nil {
		return fmt.Errorf("cors_origins: %w", err)
	}
	edge, err := a.edge(corsPolicy{a.cfg.CORSOrigins}.handler(guard.handler(h)))
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
	l.on = limitedListener{l.on, a.listeners.connections, proxies}
	if a.cfg.TLSCertFile != "" {
		cert, err := a.certificates.load("tls_cert_file", a.cfg.TLSCertFile, a.cfg.TLSKeyFile)
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
	return webListener{scheme: "http", on: on, server: newHTTPServer(h, a.log)}, nil
}

// handlers returns the HTTP handlers of the roles of this process; nil for a handler that no
// role has.
func (a *App) handlers() (rest, platform, pulls http.Handler) {
	for _, p := range a.parts {
		rest, platform, pulls = cmp.Or(p.rest, rest), cmp.Or(p.platform, platform), cmp.Or(p.pulls, pulls)
	}
	return rest, platform, pulls
}

// publicHandler routes /v2/ to pulls and everything else to rest; either may be nil.
func (a *App) publicHandler(rest, pulls http.Handler) http.Handler {
	if rest == nil {
		rest = http.NotFoundHandler()
	}
	if pulls == nil {
		pulls = http.NotFoundHandler()
	}
	rest, pulls = a.withStreams(rest), gateway.WithoutSessions(pulls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") || r.URL.Path == "/v2" {
			pulls.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// newHTTPServer returns a server without a timeout for responses, since blobs may be large.
// Handlers have their own timeouts.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    limits.Headers,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: limits.RequestsOfConnection},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// tasks returns functions that serve the listeners until they are stopped.
func (l *listeners) tasks() []func(context.Context) error {
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

// stop lets running requests finish and closes the admin port last.
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
