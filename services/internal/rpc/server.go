package rpc

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"slipway.dev/services/internal/fault"
)

// MaxMessage is the maximum size of a message in bytes, in both directions. It is larger
// than the largest allowed container request.
const MaxMessage = 40 << 20

// reserve is the time before a deadline that a server reserves for returning an error that
// names the operation that timed out.
const reserve = 20 * time.Millisecond

// ServerOptions are the options of a Server. Log and Metrics are required.
type ServerOptions struct {
	Log     *slog.Logger
	Metrics *Metrics
	// TLS is the configuration of the listener. If nil, TLS is not used.
	TLS *tls.Config
	// Secret is the secret that callers must send. It is empty for connections within a
	// process.
	Secret string
	// Publish rewrites the messages of faults, which may contain internal addresses. It may
	// be nil.
	Publish func(string) string
}

// Metrics measures calls. All servers of a process share one.
type Metrics struct{ seconds *prometheus.HistogramVec }

// NewMetrics registers and returns the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_rpc_seconds",
		Help:    "Time that gRPC calls took, by method and status code.",
		Buckets: []float64{.0005, .002, .01, .05, .2, 1, 5, 30, 300},
	}, []string{"rpc", "code"})}
	reg.MustRegister(m.seconds)
	return m
}

// A Server serves gRPC services, and health checks, to the roles that may call them. It has
// no reflection: clients need the protos.
type Server struct {
	*grpc.Server
	health    *health.Server
	inProcess *inProcess
	o         ServerOptions
	// callers are the roles that may make a call, by its full name. It is read-only while
	// the server serves.
	callers map[string][]string
	// scopes are the scopes of calls. It is read-only while the server serves.
	scopes map[string]Scope
	// guards are the guards by "/" and the full name of the service. It is read-only while
	// the server serves.
	guards map[string]Guard
}

// NewServer returns a server without services. Register them and call Allow before Serve.
func NewServer(o ServerOptions) *Server {
	s := &Server{health: health.NewServer(), o: o, callers: map[string][]string{}, scopes: map[string]Scope{}, guards: map[string]Guard{}}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	s.Server = grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.StatsHandler(otelgrpc.NewServerHandler()),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
		// Clients look up new replicas only when they reconnect.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: time.Minute, MaxConnectionAgeGrace: time.Hour}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	s.inProcess = &inProcess{server: s, methods: map[string]method{}, streams: map[string]streaming{}, stats: otelgrpc.NewServerHandler()}
	s.inProcess.all, s.inProcess.stop = context.WithCancel(context.Background())
	healthv1.RegisterHealthServer(s, s.health)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.Server.RegisterService(desc, impl)
	for _, m := range desc.Methods {
		s.inProcess.methods["/"+desc.ServiceName+"/"+m.MethodName] = method{impl, m}
	}
	for _, d := range desc.Streams {
		if !d.ClientStreams {
			s.inProcess.streams["/"+desc.ServiceName+"/"+d.StreamName] = streaming{impl, d}
		}
	}
}

// Serve accepts calls on l until Stop is called. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if m, ok := l.(Memory); ok {
		m.server.Store(s.inProcess)
	}
	if err := s.Server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC: %w", err)
	}
	return nil
}

// Drain makes health checks fail, so that load balancers send no more calls. Calls are
// still served.
func (s *Server) Drain() { s.health.Shutdown() }

// Stop waits for running calls until ctx is done, then cancels them.
func (s *Server) Stop(ctx context.Context) {
	s.Drain()
	done := make(chan struct{})
	go func() { s.inProcess.drain(); s.GracefulStop(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.inProcess.stop()
		s.Server.Stop()
		<-done
	}
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	start := time.Now()
	ctx, cancel, err := s.enter(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer cancel()
	defer func() {
		err = s.leave(ctx, info.FullMethod, start, recover(), err)
		if err != nil {
			_ = grpc.SetTrailer(ctx, noRetry())
		}
	}()
	guarded, err := s.guard(info.FullMethod)(ctx, info.FullMethod, req)
	if err != nil {
		return nil, err
	}
	return next(guarded, req)
}

// noRetry tells the client not to retry: only calls that no server responded to may be retried.
func noRetry() metadata.MD { return metadata.Pairs("grpc-retry-pushback-ms", "-1") }

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	start := time.Now()
	ctx, cancel, err := s.enter(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer cancel()
	defer func() {
		err = s.leave(ctx, info.FullMethod, start, recover(), err)
		if err != nil {
			ss.SetTrailer(noRetry())
		}
	}()
	to := &serverStream{ServerStream: ss, ctx: ctx, call: info.FullMethod, guard: s.guard(info.FullMethod)}
	if info.IsClientStream {
		if err := to.check(nil); err != nil {
			return err
		}
	}
	return next(srv, to)
}

// A serverStream is a stream whose handler receives no message before the guard allows it.
type serverStream struct {
	grpc.ServerStream
	ctx   context.Context //nolint:containedctx // grpc hands a stream its context this way
	call  string
	guard Guard // nil after it has allowed the call
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.guard == nil {
		return err
	}
	return s.check(m)
}

func (s *serverStream) check(req any) error {
	ctx, err := s.guard(s.ctx, s.call, req)
	if err == nil {
		s.ctx, s.guard = ctx, nil
	}
	return err
}

func (s *Server) enter(ctx context.Context, method string) (context.Context, context.CancelFunc, error) {
	if err := s.checkSecret(ctx, method); err != nil {
		return nil, nil, s.refused(method, err)
	}
	ctx = context.WithValue(incoming(ctx), rolesKey{}, s.roles(ctx))
	if err := s.authorize(ctx, method); err != nil {
		return nil, nil, s.refused(method, err)
	}
	ctx = WithScope(ctx, s.scopes[method])
	ctx = context.WithValue(ctx, publicKey{}, func(ctx context.Context, err error) error { return s.public(ctx, method, err) })
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel := context.WithDeadline(ctx, deadline.Add(-reserve))
		return ctx, cancel, nil
	}
	return ctx, func() {}, nil
}

// checkSecret returns an error unless the caller sends the secret. Health checks need none,
// but a wrong secret is rejected there as well, so that a misconfigured role does not
// become ready.
func (s *Server) checkSecret(ctx context.Context, method string) error {
	if s.o.Secret == "" {
		return nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	sent := first(md, keySecret)
	if sent == "" && isHealth(method) || subtle.ConstantTimeCompare([]byte(sent), []byte(s.o.Secret)) == 1 {
		return nil
	}
	return status.Error(codes.Unauthenticated, "the caller does not send the secret of this role; configure the same rpc_secret_file, or the same data_dir, for both")
}

// refused measures a call that was rejected before its handler.
func (s *Server) refused(method string, err error) error {
	s.o.Metrics.seconds.WithLabelValues(method, status.Code(err).String()).Observe(0)
	return err
}

// leave measures a call and converts its error to one for the caller.
func (s *Server) leave(ctx context.Context, method string, start time.Time, panicked any, err error) error {
	if panicked != nil {
		err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	}
	err = s.public(ctx, method, err)
	s.o.Metrics.seconds.WithLabelValues(method, status.Code(err).String()).Observe(time.Since(start).Seconds())
	return err
}

type publicKey struct{}

// Public returns the status that the caller of a call gets for an error of its handler, and logs
// the error as if the handler had returned it. It is for handlers whose response has the errors
// of several requests. Without a call in ctx, the status is an internal error.
func Public(ctx context.Context, err error) *status.Status {
	if public, ok := ctx.Value(publicKey{}).(func(context.Context, error) error); ok {
		return status.Convert(public(ctx, err))
	}
	return status.New(codes.Internal, internal)
}

func (s *Server) public(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	attrs := []any{"rpc", method, "request_id", CallFrom(ctx).RequestID, "err", err}
	if e, ok := fault.As(err); ok {
		s.o.Log.DebugContext(ctx, "Call rejected", attrs...)
		if s.o.Publish != nil {
			published := *e
			published.Public = s.o.Publish(e.Public)
			e = &published
		}
		return e.GRPCStatus().Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller disconnected")
	case errors.Is(err, context.DeadlineExceeded):
		s.o.Log.WarnContext(ctx, "Call timed out", attrs...)
		return fault.Timeout.Newf("The service did not respond in time; try again").GRPCStatus().Err()
	}
	if !isLogged(err) {
		s.o.Log.ErrorContext(ctx, "Call failed", attrs...)
	}
	return status.Error(codes.Internal, internal)
}

// internal is the message of all statuses whose cause is only logged.
const internal = "Internal error"

// isLogged reports whether err is an internal error of another process, which has logged
// its cause. Other statuses, such as those of the client library for messages that cannot
// be encoded, have not been logged.
func isLogged(err error) bool {
	var st interface{ GRPCStatus() *status.Status }
	return errors.As(err, &st) && st.GRPCStatus().Code() == codes.Internal && st.GRPCStatus().Message() == internal
}
