package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/test/bufconn"

	"slipway.dev/services/internal/fault"
)

// serviceConfig balances calls over all replicas that DNS returns, and retries calls for
// which a terminating replica did not respond.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 3,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}}]
}`

// resolveInterval is the minimum interval between DNS lookups after a replica has
// disconnected. The library's default of 30 seconds is longer than it takes to replace all
// replicas.
const resolveInterval = 500 * time.Millisecond

// reconnect determines when a lost or refused connection is attempted again: within less time
// than the retries of a call take, so that a call reaches a service that has just restarted.
// The library's default grows to two minutes.
func reconnect() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 300 * time.Millisecond},
		MinConnectTimeout: 5 * time.Second,
	}
}

func init() { //nolint:gochecknoinits // the library requires this before the first connection
	dns.SetMinResolutionInterval(resolveInterval)
}

// DialOptions are the options of Dial.
type DialOptions struct {
	// TLS is the configuration of the connection. If nil, TLS is not used.
	TLS *tls.Config
	// Secret is the shared secret to send, if not empty.
	Secret string
	// Roles are the roles of this process, which are sent to the server.
	Roles []string
}

// Dial returns a client for `host:port` or `dns:///host:port`. It connects at the first
// call. The caller must close it.
func Dial(addr string, o DialOptions) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	return newClient(addr, o.Secret, o.Roles, grpc.WithTransportCredentials(creds), grpc.WithDefaultServiceConfig(serviceConfig), grpc.WithConnectParams(reconnect()))
}

// A Memory is a listener for connections within this process. Calls with a stream of requests
// use such a connection. Others are passed directly to the server that serves the listener.
type Memory struct {
	*bufconn.Listener
	server *atomic.Pointer[inProcess]
}

// memoryBuffer is the size in bytes of the two buffers of each connection: the window of gRPC.
const memoryBuffer = 64 << 10

// NewMemory returns a Memory. Serve closes it.
func NewMemory() Memory { return Memory{bufconn.Listen(memoryBuffer), &atomic.Pointer[inProcess]{}} }

// Dial returns a client for the listener with the roles of this process. The caller must
// close it.
func (m Memory) Dial(roles ...string) (*grpc.ClientConn, error) {
	measure := otelgrpc.NewClientHandler()
	direct := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		server := m.server.Load()
		if server == nil || ctx.Err() != nil {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		tagged := measure.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
		ok, err := server.call(tagged, method, req, reply, opts)
		if !ok {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		measure.HandleRPC(tagged, &stats.End{Client: true, Error: err})
		return err
	}
	directStream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		server := m.server.Load()
		if server == nil || desc.ClientStreams || ctx.Err() != nil {
			return open(ctx, desc, cc, method, opts...)
		}
		tagged := measure.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method})
		s, ok := server.stream(tagged, method, opts, func(err error) { measure.HandleRPC(tagged, &stats.End{Client: true, Error: err}) })
		if !ok {
			return open(ctx, desc, cc, method, opts...)
		}
		return s, nil
	}
	return newClient("passthrough:///memory", "", roles, grpc.WithChainUnaryInterceptor(direct), grpc.WithChainStreamInterceptor(directStream),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return m.DialContext(ctx) }))
}

func newClient(target, secret string, roles []string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return fault.FromStatus(invoke(outgoing(ctx, secret, roles), method, req, reply, cc, opts...))
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(outgoing(ctx, secret, roles), desc, cc, method, opts...)
		if err != nil {
			return nil, fault.FromStatus(err)
		}
		return clientStream{s}, nil
	}
	conn, err := grpc.NewClient(target, append(opts,
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler()),
		grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target, err)
	}
	return conn, nil
}

type clientStream struct{ grpc.ClientStream }

func (s clientStream) RecvMsg(m any) error { return fault.FromStatus(s.ClientStream.RecvMsg(m)) }
