package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"slipway.dev/services/internal/rpc"
)

// listeners are where a process is reached.
type listeners struct {
	grpc   []grpcListener
	public net.Listener // nil when no role has one
	admin  net.Listener
	web    *http.Server
	ops    *http.Server
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
	var lc net.ListenConfig
	if a.listeners.admin, err = lc.Listen(ctx, "tcp", a.cfg.AdminAddr); err != nil {
		return fmt.Errorf("admin_addr: %w", err)
	}
	a.onClose(ignoreClosed(a.listeners.admin))
	a.listeners.ops = a.httpServer(a.adminHandler())
	if a.api == nil && a.pulls == nil {
		return nil
	}
	if a.listeners.public, err = lc.Listen(ctx, "tcp", a.cfg.HTTPAddr); err != nil {
		return fmt.Errorf("http_addr: %w", err)
	}
	a.onClose(ignoreClosed(a.listeners.public))
	if a.cfg.TLSCertFile != "" {
		cert, err := rpc.LoadCertificate(a.cfg.TLSCertFile, a.cfg.TLSKeyFile)
		if err != nil {
			return err
		}
		a.listeners.public = tls.NewListener(a.listeners.public, cert.ServerTLS())
	}
	edge, err := a.edge(a.publicHandler())
	if err != nil {
		return err
	}
	a.listeners.web = a.httpServer(edge)
	return nil
}

// publicHandler gives /v2/ to the registry and the rest to the gateway.
func (a *App) publicHandler() http.Handler {
	nothing := http.NotFoundHandler()
	api, pulls := a.api, a.pulls
	if api == nil {
		api = nothing
	}
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
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
}

// tasks are the listeners, to be run until they are stopped.
func (l *listeners) tasks(*App) []func(context.Context) error {
	var out []func(context.Context) error
	for _, g := range l.grpc {
		out = append(out, func(context.Context) error { return g.server.Serve(g.l) })
	}
	for _, s := range []struct {
		server *http.Server
		on     net.Listener
	}{{l.web, l.public}, {l.ops, l.admin}} {
		if s.server == nil {
			continue
		}
		out = append(out, func(context.Context) error {
			if err := s.server.Serve(s.on); !errors.Is(err, http.ErrServerClosed) {
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
	for _, s := range []*http.Server{l.web, l.ops} {
		if s == nil {
			continue
		}
		if err := s.Shutdown(ctx); err != nil {
			problems = append(problems, fmt.Errorf("some pulls did not finish: %w", err), s.Close())
		}
	}
	return errors.Join(problems...)
}

func (l *listeners) publicAddr() net.Addr {
	if l.public == nil {
		return nil
	}
	return l.public.Addr()
}

func (l *listeners) String() string {
	parts := []string{"admin on http://" + l.admin.Addr().String()}
	for _, g := range l.grpc {
		if a := g.l.Addr(); a.Network() == "tcp" {
			parts = append([]string{"gRPC on " + a.String()}, parts...)
		}
	}
	if l.public != nil {
		scheme := "http"
		if l.web.TLSConfig != nil {
			scheme = "https"
		}
		parts = append([]string{"REST and registry on " + scheme + "://" + l.public.Addr().String()}, parts...)
	}
	return strings.Join(parts, ", ")
}

func ignoreClosed(l net.Listener) func() error {
	return func() error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}
