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
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// Revoked is the subject on which the id of a revoked request, or of a deleted kept image, is published.
const Revoked = "container.revoked"

// RevokeContainer revokes a request for a client that has its token, or for the user who
// made it.
func (s *Service) RevokeContainer(ctx context.Context, req *containerv1.RevokeContainerRequest) (*containerv1.RevokeContainerResponse, error) {
	if _, err := s.authorized(ctx, req.GetRequestId()); err != nil {
		return nil, err
	}
	if err := s.revoke(ctx, req.GetRequestId()); err != nil {
		return nil, err
	}
	return &containerv1.RevokeContainerResponse{}, nil
}

// RevokeToken revokes a request for operators, who know its ID from lists and logs.
func (s *Service) RevokeToken(ctx context.Context, req *containerv1.RevokeTokenRequest) (*containerv1.RevokeTokenResponse, error) {
	if _, err := s.operators.Check(ctx, rpc.CallFrom(ctx).Client(), rpc.CallFrom(ctx).Authorization); err != nil {
		return nil, err
	}
	if !tokens.Is(req.GetToken()) && !tokens.IsID(req.GetToken()) {
		return nil, store.Unknown(nil)
	}
	if err := s.revoke(ctx, req.GetToken()); err != nil {
		return nil, err
	}
	return &containerv1.RevokeTokenResponse{}, nil
}

// RevokeBuild revokes the names that its caller has for a build. A build has no owner:
// other users who requested it keep their names, and the build continues if one of them
// waits for it.
func (s *Service) RevokeBuild(ctx context.Context, req *containerv1.RevokeBuildRequest) (*containerv1.RevokeBuildResponse, error) {
	who, err := s.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	keys, err := s.store.OfBuild(ctx, req.GetBuildId(), who, now)
	if err != nil {
		return nil, s.sqlFault("looking for the names of a build", err)
	}
	if len(keys) == 0 {
		return nil, fault.NotFound.Newf("You have no valid image names of the build %s: a request without a login is revoked by its name", fault.Quote(req.GetBuildId()))
	}
	for _, key := range keys {
		if err := s.store.Revoke(ctx, key, now); err != nil && !errors.Is(err, fault.NotFound) {
			return nil, s.sqlFault("revoking a request", err)
		}
		s.publishRevocation(ctx, key, now.Add(s.deps.TokenTTL))
	}
	out := &containerv1.RevokeBuildResponse{Revoked: proto.Int32(int32(len(keys)))}
	if s.deps.Build == nil {
		return out, nil
	}
	return out, s.cancelUnawaited(ctx, req.GetBuildId(), now)
}

// revoke revokes a request in SQL, which is final, and publishes the revocation. Run repeats
// failed messages. It then cancels the build if no request waits for it. id is the ID of a
// request, or its token.
func (s *Service) revoke(ctx context.Context, id string) error {
	now := s.deps.Now()
	if err := s.store.Revoke(ctx, id, now); err != nil {
		if errors.Is(err, fault.NotFound) {
			return err
		}
		return s.sqlFault("revoking a request", err)
	}
	s.publishRevocation(ctx, id, now.Add(s.deps.TokenTTL))
	return s.cancelBuild(ctx, id, now)
}

// cancelBuild cancels the build of a revoked request, unless another request waits for it.
// Repeating it has no effect.
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

// cancelUnawaited cancels a build and the builds that it is made from, unless a request
// waits for them.
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

// publishRevocation writes a revocation to Redis and publishes it to the registries. id is
// the ID of a request, or its token.
func (s *Service) publishRevocation(ctx context.Context, id string, expires time.Time) {
	err := errors.Join(
		s.tokens.PutRevoked(ctx, id, expires),
		s.deps.Bus.Publish(Revoked, []byte(tokens.IDOf(id))),
	)
	if err == nil {
		err = s.store.MarkSent(ctx, id)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "A revocation did not reach all replicas; it will be repeated", "err", err)
	}
}

func (s *Service) resendRevocations(ctx context.Context) {
	unsent, err := s.store.Unsent(ctx, s.deps.Now())
	if err != nil {
		s.deps.Log.WarnContext(ctx, "Revocations to repeat cannot be read", "err", err)
	}
	for id, expires := range unsent {
		s.publishRevocation(ctx, id, expires)
	}
}
