package container

import (
	"context"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// charge counts a request, or what a large one costs beside it, against its caller's
// limit. More than the limit allows at once counts as all of it.
func (s *Service) charge(ctx context.Context, who *platformv1.Identity, n int64) error {
	limit, owner := s.deps.RequestsAnonymous, rpc.CallFrom(ctx).Client()
	if id := caller.Of(who); !id.IsAnonymous() {
		limit, owner = s.deps.RequestsUser, "user:"+id.User()
	}
	if s.deps.Limiter == nil || n <= 0 {
		return nil
	}
	for _, r := range limit {
		n = min(n, int64(r.Count))
	}
	_, err := s.deps.Limiter.Charge(ctx, "requests", owner, limit, int(n))
	return err
}

// chargePull counts a download as a pull, which it is instead of.
func (s *Service) chargePull(ctx context.Context, who *platformv1.Identity) error {
	limit, owner := s.deps.PullsAnonymous, rpc.CallFrom(ctx).Client()
	if id := caller.Of(who); !id.IsAnonymous() {
		limit, owner = s.deps.PullsUser, "user:"+id.User()
	}
	if s.deps.Limiter == nil {
		return nil
	}
	_, err := s.deps.Limiter.Charge(ctx, "pulls", owner, limit, 1)
	return err
}

// unpackCost is what uncompressing so many bytes counts.
func unpackCost(n int64) int64 { return n / limits.RequestUnpacked }

// storeCost is what storing so many bytes of a layer counts.
func storeCost(n int) int64 { return int64(n) / limits.RequestStored }

// recordCost is what a long record counts.
func recordCost(n int) int64 { return int64(n) / limits.RequestRecord }

func clientIP(ctx context.Context) string {
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		return ip.String()
	}
	return ""
}
