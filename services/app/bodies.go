package app

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc/status"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// admit waits until the memory for a request's body is available. The gateway waits for that
// of bodies longer than gateway.SmallBody, with the BodyMemory in the returned request. The
// caller must call release when the request has been handled.
func (s *shedder) admit(r *http.Request, call rpc.Call) (_ *http.Request, release func(), err error) {
	if r.ContentLength == 0 {
		return r, func() {}, nil
	}
	client := fairshare.Address(call.ClientIP)
	r = r.WithContext(gateway.WithBodyMemory(r.Context(), largeBodies{s, client}))
	size := r.ContentLength
	if size < 0 {
		size = gateway.SmallBody
	}
	if size > gateway.SmallBody {
		return r, func() {}, nil
	}
	lease, err := s.small.Acquire(r.Context(), fairshare.Request{Client: client, Amount: min(size*limits.BodyCopies, s.mostSmall)})
	if err != nil {
		return r, nil, err // the caller still logs the request
	}
	return r, lease.Release, nil
}

// largeBodies implements gateway.BodyMemory for requests of one client.
type largeBodies struct {
	*shedder
	client fairshare.Client
}

// Turn implements gateway.BodyMemory.
func (b largeBodies) Turn(ctx context.Context, user string) (release func(), err error) {
	turn, err := b.turns.Acquire(ctx, fairshare.Request{Client: b.of(user)})
	if err != nil {
		return nil, contextStatus(err)
	}
	return turn.Release, nil
}

// Acquire implements gateway.BodyMemory.
func (b largeBodies) Acquire(ctx context.Context, user string, size int64) (context.Context, func(), error) {
	lease, err := b.large.Acquire(ctx, fairshare.Request{Client: b.of(user), Amount: min(size*limits.BodyCopies, b.mostLarge)})
	if err != nil {
		return nil, nil, contextStatus(err)
	}
	reading, cancel := lease.Context(ctx, limits.BodyTimeout)
	return reading, func() {
		cancel()
		if size >= limits.BodyCollected {
			b.guard.Collect() // otherwise the next body's memory would be added to this one's
		}
		lease.Release()
	}, nil
}

// of returns the client to whose share a body is counted: the user, or the address if user
// is "".
func (b largeBodies) of(user string) fairshare.Client {
	if user != "" {
		return fairshare.User(user)
	}
	return b.client
}

// contextStatus returns the gRPC status of a cancelled context, and any other error unchanged.
func contextStatus(err error) error {
	if errors.Is(err, context.Canceled) {
		return status.FromContextError(err).Err()
	}
	return err
}
