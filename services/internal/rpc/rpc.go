// Package rpc provides the gRPC servers and clients with which services call each other,
// over TCP or within a process, with the same interceptors. It transmits the metadata of a
// call (see Call), authorizes callers by their roles, converts faults to statuses and back,
// and logs each unexpected error once.
package rpc

import (
	"context"
	"net/netip"

	"google.golang.org/grpc/metadata"

	"slipway.dev/services/internal/fairshare"
)

// A Call is the metadata of a request, which is passed on to all services that it involves.
type Call struct {
	// RequestID identifies the request in logs and responses.
	RequestID string
	// ClientIP is the client's address as reported by trusted proxies. It is the zero value
	// for background work of the service itself.
	ClientIP netip.Addr
	// Authorization is the Authorization header of the REST request, for the service that
	// handles it. It is secret and not passed on to further services.
	Authorization string
	// Background marks work that no caller waits for. It is served after other work.
	Background bool
}

// Client returns the key of the client's address in limits: an IPv4 address or an IPv6 /64,
// which is usually assigned to one machine.
func (c Call) Client() string { return c.Address().String() }

// Address returns the client that the call is charged to if its user is unknown.
func (c Call) Address() fairshare.Client { return fairshare.Address(c.ClientIP) }

// Metadata keys. The gateway sets the same ones.
const (
	keyRequestID     = "x-request-id"
	keyClientIP      = "x-slipway-client-ip"
	keyAuthorization = "authorization"
	keySecret        = "x-slipway-secret"
	keyRole          = "x-slipway-role"
	keyBackground    = "x-slipway-background"
)

type callKey struct{}

// WithCall returns a context that carries c.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns the Call in ctx, or the zero value.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// outgoing adds the Call in ctx, the secret and the roles of this process to the outgoing
// metadata.
func outgoing(ctx context.Context, secret string, roles []string) context.Context {
	c := CallFrom(ctx)
	kv := make([]string, 0, 8)
	if c.RequestID != "" {
		kv = append(kv, keyRequestID, c.RequestID)
	}
	if c.ClientIP.IsValid() {
		kv = append(kv, keyClientIP, c.ClientIP.String())
	}
	if c.Background {
		kv = append(kv, keyBackground, "true")
	}
	if secret != "" {
		kv = append(kv, keySecret, secret)
	}
	for _, role := range roles {
		kv = append(kv, keyRole, role)
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// incoming returns a context with the Call from the incoming metadata.
func incoming(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	ip, _ := netip.ParseAddr(first(md, keyClientIP))
	return WithCall(ctx, Call{
		RequestID:     first(md, keyRequestID),
		ClientIP:      ip,
		Authorization: first(md, keyAuthorization),
		Background:    first(md, keyBackground) != "",
	})
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Optional returns a pointer to s, or nil for "", as optional fields of messages require.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
