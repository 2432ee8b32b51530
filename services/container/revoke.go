package container

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// Revoked is the subject on which the key of a revoked request is published: the
// SHA-256 of its token, in hex.
const Revoked = "container.revoked"

// RevokeContainer ends a request. Whoever knows its id may: the id is the
// capability. By its key the user who made it may.
func (s *Service) RevokeContainer(ctx context.Context, req *containerv1.RevokeContainerRequest) (*containerv1.RevokeContainerResponse, error) {
	id := req.GetRequestId()
	if !tokens.Is(id) {
		if _, err := s.known(ctx, id); err != nil {
			return nil, err
		}
	}
	if err := s.revoke(ctx, id); err != nil {
		return nil, err
	}
	return &containerv1.RevokeContainerResponse{}, nil
}

// RevokeToken does the same for operators.
func (s *Service) RevokeToken(ctx context.Context, req *containerv1.RevokeTokenRequest) (*containerv1.RevokeTokenResponse, error) {
	if _, err := s.operators.Check(ctx, rpc.CallFrom(ctx).Client(), rpc.CallFrom(ctx).Authorization); err != nil {
		return nil, err
	}
	if !tokens.Is(req.GetToken()) {
		return nil, store.Unknown(nil)
	}
	if err := s.revoke(ctx, req.GetToken()); err != nil {
		return nil, err
	}
	return &containerv1.RevokeTokenResponse{}, nil
}

// RevokeBuild ends the names that its caller has of a build. A build has no owner: who
// asked for the same thing keeps their names, and the build if one of them waits.
func (s *Service) RevokeBuild(ctx context.Context, req *containerv1.RevokeBuildRequest) (*containerv1.RevokeBuildResponse, error) {
	who, err := caller.Gate{Platform: s.deps.Platform}.Identify(ctx, caller.Claim{})
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	keys, err := s.store.OfBuild(ctx, req.GetBuildId(), who, now)
	if err != nil {
		return nil, s.sqlFault("looking for the names of a build", err)
	}
	if len(keys) == 0 {
		return nil, fault.NotFound.Newf("You have no names of the build %s that work: a request without a login is revoked by its name, or its id", fault.Quote(req.GetBuildId()))
	}
	for _, key := range keys {
		if err := s.store.Revoke(ctx, key, now); err != nil && !errors.Is(err, fault.NotFound) {
			return nil, s.sqlFault("revoking a request", err)
		}
		s.spreadRevocation(ctx, key, now.Add(s.deps.TokenTTL))
	}
	out := &containerv1.RevokeBuildResponse{Revoked: proto.Int32(int32(len(keys)))}
	if s.deps.Build == nil {
		return out, nil
	}
	return out, s.cancelUnawaited(ctx, req.GetBuildId(), now)
}

// revoke is final once SQL has it; a message that does not get through is
// repeated by Run. Then nobody may be left who waits for the build. id is a token, or
// the key of one.
func (s *Service) revoke(ctx context.Context, id string) error {
	now := s.deps.Now()
	if err := s.store.Revoke(ctx, id, now); err != nil {
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
	rec, err := s.store.Get(ctx, id)
	if err != nil {
		return s.sqlFault("reading a request", err)
	}
	build := rec.Plan.GetBuildId()
	if build == "" || rec.Plan.GetBuilt() || s.deps.Build == nil {
		return nil
	}
	return s.cancelUnawaited(ctx, build, now)
}

// cancelUnawaited ends a build and those that it was to be made from, as far as no
// request waits for them.
func (s *Service) cancelUnawaited(ctx context.Context, build string, now time.Time) error {
	awaited, err := s.store.IsAwaited(ctx, build, now)
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
		s.tokens.PutRevoked(ctx, id, expires),
		s.deps.Bus.Publish(Revoked, []byte(tokens.KeyOf(id))),
	)
	if err == nil {
		err = s.store.MarkSent(ctx, id)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "A revocation did not reach everybody; it will be repeated", "err", err)
	}
}

func (s *Service) resendRevocations(ctx context.Context) {
	unsent, err := s.store.Unsent(ctx, s.deps.Now())
	if err != nil {
		s.deps.Log.WarnContext(ctx, "Revocations to repeat cannot be read", "err", err)
	}
	for id, expires := range unsent {
		s.spreadRevocation(ctx, id, expires)
	}
}
