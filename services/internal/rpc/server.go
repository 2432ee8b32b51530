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

// MaxMessage is the largest message in bytes, either way: a container request
// of the largest allowed size, with room.
const MaxMessage = 40 << 20

// reserve is the part of a deadline that a server keeps, so that it can still
// say what timed out.
const reserve = 20 * time.Millisecond

// ServerOptions are the settings of a Server; the zero value of each works but
// Log and Metrics.
type ServerOptions struct {
	Log     *slog.Logger
	Metrics *Metrics
	// TLS of the listener; nil means none.
	TLS *tls.Config
	// Secret that callers must show; empty means none.
	Secret string
}

// Metrics measures calls; one for all servers of a process.
type Metrics struct{ seconds *prometheus.HistogramVec }

// NewMetrics registers the measure.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "slipway_rpc_seconds",
		Help:    "Time that gRPC calls took, by method and status code.",
		Buckets: []float64{.0005, .002, .01, .05, .2, 1, 5, 30, 300},
	}, []string{"rpc", "code"})}
	reg.MustRegister(m.seconds)
	return m
}

// Server offers rooms over gRPC to the roles that may call them, with health. It
// has no reflection: whoever calls by hand has the protos.
type Server struct {
	*grpc.Server
	health *health.Server
	local  *local
	o      ServerOptions
	// callers are the roles that may make a call, by its full name. Read-only once
	// it serves.
	callers map[string][]string
	// guards are the rooms' own checks, by "/" and the service's full name. Read-only
	// once it serves.
	guards map[string]grpc.UnaryServerInterceptor
}

// NewServer makes a server without services. Register them and Allow their
// callers, then Serve.
func NewServer(o ServerOptions) *Server {
	s := &Server{health: health.NewServer(), o: o, callers: map[string][]string{}, guards: map[string]grpc.UnaryServerInterceptor{}}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	s.Server = grpc.NewServer(
		grpc.Creds(creds),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.StatsHandler(otelgrpc.NewServerHandler()),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
		// Clients notice new replicas only when they connect again.
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: time.Minute, MaxConnectionAgeGrace: time.Hour}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	s.local = &local{server: s, methods: map[string]method{}, stats: otelgrpc.NewServerHandler()}
	s.local.all, s.local.stop = context.WithCancel(context.Background())
	healthv1.RegisterHealthServer(s, s.health)
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, room any) {
	s.Server.RegisterService(desc, room)
	for _, m := range desc.Methods {
		s.local.methods["/"+desc.ServiceName+"/"+m.MethodName] = method{room, m}
	}
}

// Serve accepts calls on l until Stop; it closes l.
func (s *Server) Serve(l net.Listener) error {
	if m, ok := l.(Memory); ok {
		m.server.Store(s.local)
	}
	if err := s.Server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving gRPC: %w", err)
	}
	return nil
}

// Drain tells load balancers to send nothing more; calls are still served.
func (s *Server) Drain() { s.health.Shutdown() }

// Stop waits for running calls until ctx ends, then cuts them.
func (s *Server) Stop(ctx context.Context) {
	s.Drain()
	done := make(chan struct{})
	go func() { s.local.drain(); s.GracefulStop(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.local.stop()
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
			// The client library must not try again: the answer is ours, and final.
			_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1"))
		}
	}()
	return s.guarded(ctx, req, info, next)
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	start := time.Now()
	ctx, cancel, err := s.enter(ss.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer cancel()
	defer func() { err = s.leave(ctx, info.FullMethod, start, recover(), err) }()
	return next(srv, &serverStream{ServerStream: ss, ctx: ctx})
}

type serverStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc hands a stream its context this way
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *Server) enter(ctx context.Context, method string) (context.Context, context.CancelFunc, error) {
	if s.o.Secret != "" && !isHealth(method) {
		md, _ := metadata.FromIncomingContext(ctx)
		if subtle.ConstantTimeCompare([]byte(first(md, keySecret)), []byte(s.o.Secret)) != 1 {
			return nil, nil, s.refused(method, status.Error(codes.Unauthenticated, "this role wants the secret of rpc_secret_file"))
		}
	}
	ctx = context.WithValue(incoming(ctx), rolesKey{}, s.roles(ctx))
	if err := s.authorize(ctx, method); err != nil {
		return nil, nil, s.refused(method, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel := context.WithDeadline(ctx, deadline.Add(-reserve))
		return ctx, cancel, nil
	}
	return ctx, func() {}, nil
}

// refused measures a call that was not let in.
func (s *Server) refused(method string, err error) error {
	s.o.Metrics.seconds.WithLabelValues(method, status.Code(err).String()).Observe(0)
	return err
}

// leave measures the call and turns its error into what may leave the process.
func (s *Server) leave(ctx context.Context, method string, start time.Time, panicked any, err error) error {
	if panicked != nil {
		err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	}
	err = s.public(ctx, method, err)
	s.o.Metrics.seconds.WithLabelValues(method, status.Code(err).String()).Observe(time.Since(start).Seconds())
	return err
}

func (s *Server) public(ctx context.Context, method string, err error) error {
	if err == nil {
		return nil
	}
	attrs := []any{"rpc", method, "request_id", CallFrom(ctx).RequestID, "err", err}
	if e, ok := fault.As(err); ok {
		s.o.Log.DebugContext(ctx, "Call refused", attrs...)
		return e.GRPCStatus().Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller went away")
	case errors.Is(err, context.DeadlineExceeded):
		s.o.Log.WarnContext(ctx, "Call timed out", attrs...)
		return fault.Timeout.Newf("The service took too long to answer; try again").GRPCStatus().Err()
	}
	// What another process already answered as internal, it has already logged.
	if st, ok := status.FromError(err); !ok || st.Code() == codes.Unknown {
		s.o.Log.ErrorContext(ctx, "Call failed", attrs...)
	}
	return status.Error(codes.Internal, "Internal error")
}
