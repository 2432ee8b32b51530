package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// TestRequire: a caller is what it says it is, over mTLS only where its
// certificate says so too.
func TestRequire(t *testing.T) {
	t.Parallel()
	const secret = "a secret that all roles share"
	a := newAuthority(t)
	plain, shared, mutual := newHarness(t, rpc.ServerOptions{}), newHarness(t, rpc.ServerOptions{Secret: secret}), newHarness(t, rpc.ServerOptions{TLS: a.mutual(t, a)})
	for _, h := range []*harness{plain, shared, mutual} {
		h.unary = func(ctx context.Context) error { return rpc.Require(ctx, "registry", "build") }
	}
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
		err := call(t.Context(), c.conn)
		if c.may && err != nil || !c.may && !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// What a client of the gateway could make travel counts for nothing over mTLS.
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-slipway-role", "registry")
	if err := call(ctx, by(mutual, a.mutual(t, a, "gateway"), "gateway")); !errors.Is(err, fault.Denied) {
		t.Errorf("a forged role: %v", err)
	}
}
