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
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver/dns"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/test/bufconn"

	"slipway.dev/services/internal/fault"
)

// serviceConfig spreads calls over all replicas that DNS names, and repeats one
// that a dying replica did not answer.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "0.5s", "backoffMultiplier": 3,
		"retryableStatusCodes": ["UNAVAILABLE"]
	}}]
}`

// resolveEvery is how often a name may be asked for again when a replica is gone.
// The library's half a minute is longer than it takes to replace all replicas.
const resolveEvery = 500 * time.Millisecond

func init() { //nolint:gochecknoinits // the library wants this said before anything connects
	dns.SetMinResolutionInterval(resolveEvery)
}

// DialOptions are the settings of a connection.
type DialOptions struct {
	// TLS of the connection; nil means none.
	TLS *tls.Config
	// Secret to show; empty means none.
	Secret string
	// Roles that this process plays, which it says to the other.
	Roles []string
}

// Dial returns a connection to `host:port` or `dns:///host:port`. It connects
// when it is first used. The caller closes it.
func Dial(addr string, o DialOptions) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	return newClient(addr, o.Secret, o.Roles, grpc.WithTransportCredentials(creds), grpc.WithDefaultServiceConfig(serviceConfig))
}

// Memory is a listener and the way to dial it, within this process. Streams go through
// it; unary calls straight to its server, once there is one.
type Memory struct {
	*bufconn.Listener
	server *atomic.Pointer[local]
}

// NewMemory makes one. Serving it closes it.
func NewMemory() Memory { return Memory{bufconn.Listen(1 << 20), &atomic.Pointer[local]{}} }

// Dial returns a connection to the listener, for a process that plays the roles.
// The caller closes it.
func (m Memory) Dial(roles ...string) (*grpc.ClientConn, error) {
	measure := otelgrpc.NewClientHandler()
	straight := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
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
	return newClient("passthrough:///memory", "", roles, grpc.WithChainUnaryInterceptor(straight),
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
