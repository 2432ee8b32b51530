// Package rpc is how rooms talk: gRPC servers and clients with the same
// interceptors on either side, over TCP or over memory. It owns what travels
// beside a call (see Call), turns faults into statuses and back, and logs what
// went wrong unexpectedly, once. It knows no room.
package rpc

import (
	"context"
	"net/netip"

	"google.golang.org/grpc/metadata"
)

// Call is what travels beside every request, from the edge to the last room.
type Call struct {
	// RequestID names the request in logs and answers.
	RequestID string
	// ClientIP is the caller's address as far as trusted proxies tell; the zero
	// value when there is none (work of the service itself).
	ClientIP netip.Addr
	// Authorization is the REST request's header of that name, for the room that
	// answers it; it travels no further. Secret.
	Authorization string
}

// Client is what counts as one anonymous client in limits: an IPv4 address, or an
// IPv6 /64, which one machine usually has to itself.
func (c Call) Client() string {
	ip := c.ClientIP.Unmap()
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return "ip:" + p.String()
		}
	}
	return "ip:" + ip.String()
}

// Metadata keys. The gateway sets the same ones.
const (
	keyRequestID     = "x-request-id"
	keyClientIP      = "x-slipway-client-ip"
	keyAuthorization = "authorization"
	keySecret        = "x-slipway-secret"
	keyRole          = "x-slipway-role"
)

type callKey struct{}

// WithCall returns a context that carries c.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom returns what ctx carries; the zero Call when it carries none.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	return c
}

// outgoing writes the context's Call for the next room, and who calls it.
func outgoing(ctx context.Context, secret string, roles []string) context.Context {
	c := CallFrom(ctx)
	kv := make([]string, 0, 8)
	if c.RequestID != "" {
		kv = append(kv, keyRequestID, c.RequestID)
	}
	if c.ClientIP.IsValid() {
		kv = append(kv, keyClientIP, c.ClientIP.String())
	}
	if secret != "" {
		kv = append(kv, keySecret, secret)
	}
	for _, role := range roles {
		kv = append(kv, keyRole, role)
	}
	return metadata.AppendToOutgoingContext(ctx, kv...)
}

// incoming reads what the caller's process wrote.
func incoming(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	ip, _ := netip.ParseAddr(first(md, keyClientIP))
	return WithCall(ctx, Call{
		RequestID:     first(md, keyRequestID),
		ClientIP:      ip,
		Authorization: first(md, keyAuthorization),
	})
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Optional is a text as messages carry one that may be absent: nil for "".
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
