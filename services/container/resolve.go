package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// ResolveToken returns the plan behind a token: from Redis, else from SQL, which
// then fills Redis again.
func (s *Service) ResolveToken(ctx context.Context, req *containerv1.ResolveTokenRequest) (*containerv1.ResolveTokenResponse, error) {
	token := req.GetToken()
	if !isToken(token) {
		return nil, unknownRequest(nil)
	}
	if !req.GetFresh() {
		plan, err := s.tokens.get(ctx, token)
		if err != nil {
			return nil, unknownRequest(err)
		}
		if plan != nil {
			return &containerv1.ResolveTokenResponse{Plan: plan}, nil
		}
	}
	rec, err := s.live(ctx, token)
	if err != nil {
		return nil, err
	}
	if err := s.tokens.put(ctx, token, rec.plan); err != nil {
		s.deps.Log.WarnContext(ctx, "A token was not written to Redis", "err", err)
	}
	return &containerv1.ResolveTokenResponse{Plan: rec.plan}, nil
}

// live reads a request that is neither expired nor revoked; fault.NotFound
// otherwise.
func (s *Service) live(ctx context.Context, id string) (record, error) {
	if !isToken(id) {
		return record{}, unknownRequest(nil)
	}
	rec, err := s.known(ctx, id)
	if err == nil {
		err = rec.works(s.deps.Now())
	}
	if err != nil {
		return record{}, err
	}
	return rec, nil
}

// works says whether a request's name can be pulled; fault.NotFound when it no longer can.
func (r record) works(now time.Time) error {
	switch {
	case !r.revoked.IsZero():
		return unknownRequest(errRevoked)
	case !now.Before(r.expires):
		return unknownRequest(errors.New("the token has expired"))
	}
	return nil
}

// RecordDigest keeps what a token's reference resolved to.
func (s *Service) RecordDigest(ctx context.Context, req *containerv1.RecordDigestRequest) (*containerv1.RecordDigestResponse, error) {
	if _, err := digest.Parse(req.GetDigest()); err != nil {
		return nil, fault.Invalid.New("The digest is malformed", err)
	}
	rec, err := s.live(ctx, req.GetToken())
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	if err := s.store.addDigest(ctx, rec.key, req.GetDigest(), now); err != nil {
		return nil, s.sqlFault("recording a digest", err)
	}
	if err := s.tokens.putDigest(ctx, req.GetToken(), req.GetDigest(), now, rec.expires); err != nil {
		s.deps.Log.WarnContext(ctx, "A digest was not written to Redis", "err", err)
	}
	return &containerv1.RecordDigestResponse{}, nil
}

// sqlFault says that the database is the one that did not work.
func (s *Service) sqlFault(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.deps.DB.Fault(doing, err)
}
