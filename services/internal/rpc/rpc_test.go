package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// A service implements one unary call and one stream with the functions of a test.
type service struct {
	containerv1.UnimplementedContainerServiceServer
	unary  func(context.Context) error
	stream func(grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error
}

// A platform is the second gRPC service of a service.
type platform struct {
	platformv1.UnimplementedAccessServiceServer
	*service
}

func (r platform) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest) (*platformv1.AuthorizeResponse, error) {
	if err := r.unary(ctx); err != nil {
		return nil, err
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{UserName: req.GetAccessToken()}}, nil
}

func (r *service) GetLayer(_ *containerv1.GetLayerRequest, s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
	return r.stream(s)
}

// A harness is a service with its server.
type harness struct {
	*service
	server *rpc.Server
	log    *testkit.Output
	reg    *prometheus.Registry
}

func newHarness(t testing.TB, o rpc.ServerOptions) *harness {
	t.Helper()
	h := &harness{service: &service{
		unary:  func(context.Context) error { return nil },
		stream: func(grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error { return nil },
	}, log: &testkit.Output{}, reg: prometheus.NewRegistry()}
	o.Log = slog.New(slog.NewTextHandler(h.log, nil))
	o.Metrics = rpc.NewMetrics(h.reg)
	h.server = rpc.NewServer(o)
	platformv1.RegisterAccessServiceServer(h.server, platform{service: h.service})
	containerv1.RegisterContainerServiceServer(h.server, h.service)
	h.server.Allow(rpc.Callers{{Roles: []string{"registry", "build"}, Calls: []string{
		platformv1.AccessService_Authorize_FullMethodName, containerv1.ContainerService_GetLayer_FullMethodName,
	}}})
	t.Cleanup(h.server.Server.Stop)
	return h
}

// listen serves h on a loopback address, which it returns.
func (h *harness) listen(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = h.server.Serve(l) }()
	return l.Addr().String()
}

func (h *harness) memory(t testing.TB) *grpc.ClientConn {
	t.Helper()
	m := rpc.NewMemory()
	go func() { _ = h.server.Serve(m) }()
	return connection(t)(m.Dial("registry"))
}

// dial connects with the role registry, unless o has other roles.
func dial(t testing.TB, addr string, o rpc.DialOptions) *grpc.ClientConn {
	t.Helper()
	if o.Roles == nil {
		o.Roles = []string{"registry"}
	}
	return connection(t)(rpc.Dial(addr, o))
}

func connection(t testing.TB) func(*grpc.ClientConn, error) *grpc.ClientConn {
	return func(conn *grpc.ClientConn, err error) *grpc.ClientConn {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

func call(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := platformv1.NewAccessServiceClient(conn).Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: "t"})
	return err
}

// drain reads a stream to its end and returns the number of messages.
func drain(ctx context.Context, conn *grpc.ClientConn) (int, error) {
	s, err := containerv1.NewContainerServiceClient(conn).GetLayer(ctx, &containerv1.GetLayerRequest{})
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if _, err := s.Recv(); err != nil {
			return n, err
		}
	}
}

func TestCallIsTransmitted(t *testing.T) {
	t.Parallel()
	sent := rpc.Call{RequestID: "r1", ClientIP: netip.MustParseAddr("2001:db8::1"), Authorization: "Bearer secret", Background: true}
	for _, tc := range []struct {
		name string
		ctx  context.Context //nolint:containedctx // it is what the test sends
		want rpc.Call
	}{
		{"a call, but not its authorization", rpc.WithCall(t.Context(), sent), rpc.Call{RequestID: "r1", ClientIP: sent.ClientIP, Background: true}},
		{"no call", t.Context(), rpc.Call{}},
		{"as the gateway writes it", metadata.AppendToOutgoingContext(t.Context(),
			"x-request-id", "r2", "x-slipway-client-ip", "10.0.0.1", "authorization", "Bearer secret"),
			rpc.Call{RequestID: "r2", ClientIP: netip.MustParseAddr("10.0.0.1"), Authorization: "Bearer secret"}},
		{"no address", metadata.AppendToOutgoingContext(t.Context(), "x-slipway-client-ip", "somewhere"), rpc.Call{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, rpc.ServerOptions{})
			var unary, stream rpc.Call
			h.unary = func(ctx context.Context) error { unary = rpc.CallFrom(ctx); return nil }
			h.stream = func(s grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
				stream = rpc.CallFrom(s.Context())
				return nil
			}
			conn := h.memory(t)
			if err := call(tc.ctx, conn); err != nil {
				t.Fatal(err)
			}
			_, _ = drain(tc.ctx, conn)
			if unary != tc.want || stream != tc.want {
				t.Errorf("unary: got %+v; stream: got %+v; want %+v", unary, stream, tc.want)
			}
		})
	}
}

// TestCallIsPassedOn verifies that a service which calls another one transmits the Call
// that it received.
func TestCallIsPassedOn(t *testing.T) {
	t.Parallel()
	last := newHarness(t, rpc.ServerOptions{})
	var got rpc.Call
	last.unary = func(ctx context.Context) error { got = rpc.CallFrom(ctx); return nil }
	onward := last.memory(t)
	middle := newHarness(t, rpc.ServerOptions{})
	middle.unary = func(ctx context.Context) error { return call(ctx, onward) }
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "r1", "x-slipway-client-ip", "10.0.0.1", "authorization", "Bearer secret")
	if err := call(ctx, middle.memory(t)); err != nil {
		t.Fatal(err)
	}
	if want := (rpc.Call{RequestID: "r1", ClientIP: netip.MustParseAddr("10.0.0.1")}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"IPv4", "10.0.0.1", "ip:10.0.0.1"},
		{"IPv4, mapped", "::ffff:10.0.0.1", "ip:10.0.0.1"},
		{"IPv6 network", "2001:db8:1:2:3:4:5:6", "ip:2001:db8:1:2::/64"},
		{"IPv6 with a zone", "fe80::1%eth0", "ip:fe80::/64"},
		{"none", "", "ip:invalid IP"},
	} {
		ip, _ := netip.ParseAddr(tc.in)
		if got := (rpc.Call{ClientIP: ip}).Client(); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{Secret: "right"})
	calls := 0
	h.unary = func(context.Context) error { calls++; return nil }
	addr := h.listen(t)
	for _, tc := range []struct {
		name, secret string
		want         bool
	}{{"right", "right", true}, {"wrong", "wrong", false}, {"longer", "right!", false}, {"none", "", false}} {
		calls = 0
		conn := dial(t, addr, rpc.DialOptions{Secret: tc.secret})
		if err := call(t.Context(), conn); (err == nil) != tc.want || (calls == 1) != tc.want {
			t.Errorf("%s: %v; the service was called %d times", tc.name, err, calls)
		}
		_, err := drain(t.Context(), conn)
		if refused := err != nil && strings.Contains(err.Error(), "rpc_secret_file"); refused == tc.want {
			t.Errorf("%s, on a stream: %v", tc.name, err)
		}
		if err := health(t.Context(), conn); (err == nil) != (tc.want || tc.secret == "") {
			t.Errorf("%s: health check: %v", tc.name, err)
		}
	}
}

func TestLargeMessages(t *testing.T) {
	t.Parallel()
	client := platformv1.NewAccessServiceClient(newHarness(t, rpc.ServerOptions{}).memory(t))
	large := strings.Repeat("x", 32<<20)
	resp, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: large})
	if err != nil || resp.GetIdentity().GetUserName() != large {
		t.Errorf("the largest request and response: %v", err)
	}
	if err := tooLarge(t.Context(), client); err == nil {
		t.Error("a message beyond the limit passed")
	}
}

func tooLarge(ctx context.Context, client platformv1.AccessServiceClient) error {
	_, err := client.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: strings.Repeat("x", rpc.MaxMessage+1)})
	return err
}
