package container

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
)

// identities verifies each identity of a batch once: a platform is not called again for the same
// token, and a token that it rejects is not tried again. It is safe for concurrent use.
type identities struct {
	platformv1.AccessServiceClient

	mu    sync.Mutex
	known map[string]*verification
}

// A verification is the response to one request of Authorize, or its final error.
type verification struct {
	mu   sync.Mutex // held during the call
	done bool
	resp *platformv1.AuthorizeResponse
	err  error
}

// withIdentities returns the service for the requests of one batch.
func (s *Service) withIdentities() *Service {
	one := *s
	one.deps.Platform = &identities{AccessServiceClient: s.deps.Platform, known: map[string]*verification{}}
	return &one
}

// Authorize implements platformv1.AccessServiceClient.
func (i *identities) Authorize(ctx context.Context, req *platformv1.AuthorizeRequest, opts ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	v := i.known[string(key)]
	if v == nil {
		v = &verification{}
		i.known[string(key)] = v
	}
	i.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.done {
		v.resp, v.err = i.AccessServiceClient.Authorize(ctx, req, opts...)
		v.done = v.err == nil || errors.Is(v.err, fault.Unauthenticated) || errors.Is(v.err, fault.Denied) || errors.Is(v.err, fault.Invalid)
	}
	return proto.CloneOf(v.resp), v.err // callers change their identity
}
