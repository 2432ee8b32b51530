package container

import (
	"context"
	"errors"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// Revoked is the subject on which the key of a revoked request is published: the
// SHA-256 of its token, in hex.
const Revoked = "container.revoked"

// RevokeContainer ends a request. Whoever knows its id may: the id is the
// capability.
func (s *Service) RevokeContainer(ctx context.Context, req *containerv1.RevokeContainerRequest) (*containerv1.RevokeContainerResponse, error) {
	if err := s.revoke(ctx, req.GetRequestId()); err != nil {
		return nil, err
	}
	return &containerv1.RevokeContainerResponse{}, nil
}

// RevokeToken does the same for operators.
func (s *Service) RevokeToken(ctx context.Context, req *containerv1.RevokeTokenRequest) (*containerv1.RevokeTokenResponse, error) {
	if _, err := s.operators.Check(ctx, rpc.CallFrom(ctx).Client(), rpc.CallFrom(ctx).Authorization); err != nil {
		return nil, err
	}
	if err := s.revoke(ctx, req.GetToken()); err != nil {
		return nil, err
	}
	return &containerv1.RevokeTokenResponse{}, nil
}

// revoke is final once SQL has it; a message that does not get through is
// repeated by Run. Then nobody may be left who waits for the build.
func (s *Service) revoke(ctx context.Context, id string) error {
	if !isToken(id) {
		return unknownRequest(nil)
	}
	now := s.deps.Now()
	if err := s.store.revoke(ctx, id, now); err != nil {
		if errors.Is(err, fault.NotFound) {
			return err
		}
		return s.sqlFault("revoking a request", err)
	}
	s.spreadRevocation(ctx, id, now.Add(s.deps.TokenTTL))
	return s.cancelBuild(ctx, id, now)
}

// cancelBuild ends the build of a revoked request, unless another one waits for
// it. Repeating it does no harm.
func (s *Service) cancelBuild(ctx context.Context, id string, now time.Time) error {
	rec, err := s.store.get(ctx, id)
	if err != nil {
		return s.sqlFault("reading a request", err)
	}
	build := rec.plan.GetBuildId()
	if build == "" || rec.plan.GetBuilt() || s.deps.Build == nil {
		return nil
	}
	return s.cancelUnawaited(ctx, build, now)
}

// cancelUnawaited ends a build and those that it was to be made from, as far as no
// request waits for them.
func (s *Service) cancelUnawaited(ctx context.Context, build string, now time.Time) error {
	awaited, err := s.store.isAwaited(ctx, build, now)
	if err != nil {
		return s.sqlFault("looking for who waits for a build", err)
	}
	if awaited {
		return nil
	}
	resp, err := s.deps.Build.CancelBuild(ctx, &buildv1.CancelBuildRequest{BuildId: build})
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	for _, part := range resp.GetPartIds() {
		if err := s.cancelUnawaited(ctx, part, now); err != nil {
			return err
		}
	}
	return nil
}

// spreadRevocation tells Redis, and every registry that listens. id is a token, or
// the key of one.
func (s *Service) spreadRevocation(ctx context.Context, id string, expires time.Time) {
	err := errors.Join(
		s.tokens.putRevoked(ctx, id, expires),
		s.deps.Bus.Publish(Revoked, []byte(keyOf(id))),
	)
	if err == nil {
		err = s.store.markSent(ctx, id)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "A revocation did not reach everybody; it will be repeated", "err", err)
	}
}

func (s *Service) resendRevocations(ctx context.Context) {
	unsent, err := s.store.unsent(ctx, s.deps.Now())
	if err != nil {
		s.deps.Log.WarnContext(ctx, "Revocations to repeat cannot be read", "err", err)
	}
	for id, expires := range unsent {
		s.spreadRevocation(ctx, id, expires)
	}
}
