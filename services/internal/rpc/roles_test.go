package rpc_test

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// TestCallers: a caller is what it says it is, over mTLS only where its
// certificate says so too. The harness lets in the roles registry and build.
func TestCallers(t *testing.T) {
	t.Parallel()
	const secret = "a secret that all roles share"
	a := newAuthority(t)
	plain, shared, mutual := newHarness(t, rpc.ServerOptions{}), newHarness(t, rpc.ServerOptions{Secret: secret}), newHarness(t, rpc.ServerOptions{TLS: a.mutual(t, a)})
	memory := func(h *harness, roles ...string) *grpc.ClientConn {
		m := rpc.NewMemory()
		go func() { _ = h.server.Serve(m) }()
		return connection(t)(m.Dial(roles...))
	}
	over := map[*harness]string{shared: shared.listen(t), mutual: mutual.listen(t)}
	by := func(h *harness, config *tls.Config, roles ...string) *grpc.ClientConn {
		o := rpc.DialOptions{Roles: roles, TLS: config}
		if h == shared {
			o.Secret = secret
		}
		return dial(t, over[h], o)
	}
	for _, c := range []struct {
		name string
		conn *grpc.ClientConn
		may  bool
	}{
		{"within the process", memory(plain, "registry"), true},
		{"within a process that plays several", memory(plain, "gateway", "build"), true},
		{"within a process that plays others", memory(plain, "gateway", "container"), false},
		{"within a process that says nothing", memory(plain), false},
		{"with the secret", by(shared, nil, "registry"), true},
		{"with the secret, another", by(shared, nil, "builder"), false},
		{"with a certificate for it", by(mutual, a.mutual(t, a, "inspect", "registry"), "registry"), true},
		{"with a certificate for all, as another", by(mutual, a.mutual(t, a, "builder", "registry"), "builder"), false},
		{"with a certificate for another", by(mutual, a.mutual(t, a, "builder"), "registry"), false},
		{"with a certificate for nothing", by(mutual, a.mutual(t, a), "registry"), false},
	} {
		_, streamed := drain(t.Context(), c.conn)
		if errors.Is(streamed, io.EOF) {
			streamed = nil
		}
		for _, err := range []error{call(t.Context(), c.conn), streamed} {
			if c.may && err != nil || !c.may && !errors.Is(err, fault.Denied) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	// What a client of the gateway could make travel counts for nothing over mTLS.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-slipway-role", "registry")
	if err := call(ctx, by(mutual, a.mutual(t, a, "gateway"), "gateway")); !errors.Is(err, fault.Denied) {
		t.Errorf("a forged role: %v", err)
	}
}

// TestUnlistedCall: what no rule lists is refused, and logged, whoever calls.
// Health is for everybody; there is no reflection.
func TestUnlistedCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	m := rpc.NewMemory()
	go func() { _ = h.server.Serve(m) }()
	conn := connection(t)(m.Dial("platform", "build", "builder", "container", "inspect", "registry", "metrics", "gateway"))
	_, err := platformv1.NewPlatformServiceClient(conn).GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{})
	if !errors.Is(err, fault.Denied) || !strings.Contains(h.log.String(), platformv1.PlatformService_GetCredentials_FullMethodName) {
		t.Errorf("an unlisted call: %v, log %s", err, h.log)
	}
	stream, err := containerv1.NewContainerServiceClient(conn).StreamSif(t.Context(), &containerv1.StreamSifRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, fault.Denied) {
		t.Errorf("an unlisted stream: %v", err)
	}
	nobody := connection(t)(m.Dial())
	if _, err := healthv1.NewHealthClient(nobody).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	for service := range h.server.GetServiceInfo() {
		if strings.HasPrefix(service, "grpc.reflection.") {
			t.Errorf("%s is offered", service)
		}
	}
}
