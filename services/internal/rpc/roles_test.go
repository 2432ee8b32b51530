package rpc_test

import (
	"context"
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

// TestCallers verifies that a caller has the roles that it declares, with mTLS only if its
// certificate names them. The harness allows the roles registry and build.
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
		{"within a process with several roles", memory(plain, "gateway", "build"), true},
		{"within a process with other roles", memory(plain, "gateway", "container"), false},
		{"within a process without roles", memory(plain), false},
		{"with the secret", by(shared, nil, "registry"), true},
		{"with the secret, another role", by(shared, nil, "builder"), false},
		{"with a certificate for the role", by(mutual, a.mutual(t, a, "inspect", "registry"), "registry"), true},
		{"with a certificate for two roles, declaring the other", by(mutual, a.mutual(t, a, "builder", "registry"), "builder"), false},
		{"with a certificate for another role", by(mutual, a.mutual(t, a, "builder"), "registry"), false},
		{"with a certificate without roles", by(mutual, a.mutual(t, a), "registry"), false},
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
	// Roles in metadata that a client of the gateway could send have no effect with mTLS.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-slipway-role", "registry")
	if err := call(ctx, by(mutual, a.mutual(t, a, "gateway"), "gateway")); !errors.Is(err, fault.Denied) {
		t.Errorf("a forged role: %v", err)
	}
}

// TestCertificateFrom verifies that a caller is identified by the key of its certificate, and
// that a caller without a certificate is not identified.
func TestCertificateFrom(t *testing.T) {
	t.Parallel()
	const secret = "a secret that all roles share"
	a := newAuthority(t)
	shared, mutual := newHarness(t, rpc.ServerOptions{Secret: secret}), newHarness(t, rpc.ServerOptions{TLS: a.mutual(t, a)})
	var got string
	see := func(ctx context.Context) error { got = rpc.CertificateFrom(ctx); return nil }
	shared.unary, mutual.unary = see, see
	identity := func(conn *grpc.ClientConn) string {
		t.Helper()
		if err := call(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if id := identity(dial(t, shared.listen(t), rpc.DialOptions{Roles: []string{"build"}, Secret: secret})); id != "" {
		t.Errorf("with a secret: got %q", id)
	}
	address := mutual.listen(t)
	over := func(certificate *tls.Config) string {
		return identity(dial(t, address, rpc.DialOptions{Roles: []string{"build"}, TLS: certificate}))
	}
	one, other := a.mutual(t, a, "build"), a.mutual(t, a, "build")
	if id := over(one); len(id) != len("sha256:")+64 || id != over(one) || id == over(other) {
		t.Errorf("with one certificate: got %q, then %q; with another: %q", id, over(one), over(other))
	}
}

// TestUnlistedCall verifies that calls without a rule are denied and logged for all roles,
// that health checks are allowed, and that the server has no reflection.
func TestUnlistedCall(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	m := rpc.NewMemory()
	go func() { _ = h.server.Serve(m) }()
	conn := connection(t)(m.Dial("platform", "build", "builder", "container", "inspect", "registry", "metrics", "gateway"))
	_, err := platformv1.NewAccessServiceClient(conn).GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{})
	if !errors.Is(err, fault.Denied) || !strings.Contains(h.log.String(), platformv1.AccessService_GetCredentials_FullMethodName) {
		t.Errorf("an unlisted call: %v, log %s", err, h.log)
	}
	stream, err := containerv1.NewContainerServiceClient(conn).StreamSif(t.Context(), &containerv1.StreamSifRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, fault.Denied) {
		t.Errorf("an unlisted stream: %v", err)
	}
	noRole := connection(t)(m.Dial())
	if _, err := healthv1.NewHealthClient(noRole).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	for service := range h.server.GetServiceInfo() {
		if strings.HasPrefix(service, "grpc.reflection.") {
			t.Errorf("the server offers %s", service)
		}
	}
}

// TestScopeFrom verifies that handlers of unary and streaming calls get the scope of the call's
// rule, or "" for a rule without a scope, whatever the caller sends.
func TestScopeFrom(t *testing.T) {
	t.Parallel()
	h := newHarness(t, rpc.ServerOptions{})
	h.server.Allow(rpc.Callers{{Roles: []string{"registry"}, Calls: []string{platformv1.AccessService_Authorize_FullMethodName}, Scope: rpc.ScopePull}})
	got := make(chan rpc.Scope, 2)
	h.service.unary = func(ctx context.Context) error { got <- rpc.ScopeFrom(ctx); return nil }
	h.service.stream = func(to grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
		got <- rpc.ScopeFrom(to.Context())
		return nil
	}
	for name, conn := range map[string]*grpc.ClientConn{"memory": h.memory(t), "TCP": dial(t, h.listen(t), rpc.DialOptions{})} {
		ctx := metadata.AppendToOutgoingContext(rpc.WithScope(t.Context(), rpc.ScopeAny), "x-slipway-scope", "any")
		if err := call(ctx, conn); err != nil {
			t.Fatal(err)
		}
		if _, err := drain(ctx, conn); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if unary, streamed := <-got, <-got; unary != rpc.ScopePull || streamed != "" {
			t.Errorf("over %s the scopes are %q and %q", name, unary, streamed)
		}
	}
}
