package container

import (
	"context"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// ResolveToken returns the plan of a token: from Redis, or from SQL, which then refills
// Redis.
func (s *Service) ResolveToken(ctx context.Context, req *containerv1.ResolveTokenRequest) (*containerv1.ResolveTokenResponse, error) {
	token := req.GetToken()
	if !tokens.Is(token) && !oci.IsKeptID(token) {
		return nil, store.Unknown(nil)
	}
	if !req.GetFresh() && tokens.Is(token) {
		plan, err := s.tokens.Get(ctx, token)
		if err != nil {
			return nil, store.Unknown(err)
		}
		if plan != nil {
			return &containerv1.ResolveTokenResponse{Plan: plan}, nil
		}
	}
	if oci.IsKeptID(token) {
		if err := s.reviveKept(ctx, token, req.GetLost()); err != nil {
			return nil, err
		}
	}
	rec, err := s.live(ctx, token)
	if err != nil {
		return nil, err
	}
	if oci.IsKeptID(token) {
		return &containerv1.ResolveTokenResponse{Plan: rec.Plan}, nil
	}
	if err := s.tokens.Put(ctx, token, rec.Plan); err != nil {
		s.deps.Log.WarnContext(ctx, "A token was not written to Redis", "err", err)
	}
	return &containerv1.ResolveTokenResponse{Plan: rec.Plan}, nil
}

// RecordDigest stores a digest that a token's reference resolved to.
func (s *Service) RecordDigest(ctx context.Context, req *containerv1.RecordDigestRequest) (*containerv1.RecordDigestResponse, error) {
	if _, err := digest.Parse(req.GetDigest()); err != nil {
		return nil, fault.Invalid.New("The digest is malformed", err)
	}
	rec, err := s.live(ctx, req.GetToken())
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	if err := s.store.AddDigest(ctx, rec.Key, req.GetDigest(), now); err != nil {
		return nil, s.sqlFault("recording a digest", err)
	}
	if oci.IsKeptID(req.GetToken()) {
		return &containerv1.RecordDigestResponse{}, nil
	}
	if err := s.tokens.PutDigest(ctx, req.GetToken(), req.GetDigest(), now, rec.Expires); err != nil {
		s.deps.Log.WarnContext(ctx, "A digest was not written to Redis", "err", err)
	}
	return &containerv1.RecordDigestResponse{}, nil
}
