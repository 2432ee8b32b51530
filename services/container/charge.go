package container

import (
	"context"
	"math"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// charge counts a request, or the additional cost of a large one, against its caller's
// limits. A cost above a whole limit counts as the whole limit.
func (s *Service) charge(ctx context.Context, who *platformv1.Identity, n int64) error {
	return s.chargeKind(ctx, ratelimit.Requests, who, n)
}

// chargePull counts the download of a Singularity image as a pull.
func (s *Service) chargePull(ctx context.Context, who *platformv1.Identity) error {
	return s.chargeKind(ctx, ratelimit.Pulls, who, 1)
}

func (s *Service) chargeKind(ctx context.Context, kind ratelimit.Kind, who *platformv1.Identity, n int64) error {
	if s.deps.Limiter == nil || n <= 0 {
		return nil
	}
	_, err := s.deps.Limiter.ChargeCaller(ctx, kind, caller.Of(who).Charged(ctx), int(min(n, math.MaxInt32)))
	return err
}

// unpackCost returns the cost of uncompressing n bytes.
func unpackCost(n int64) int64 { return n / limits.RequestUnpacked }

// storeCost returns the cost of storing n bytes of a layer.
func storeCost(n int) int64 { return int64(n) / limits.RequestStored }

// recordCost returns the additional cost of a long record.
func recordCost(n int) int64 { return int64(n) / limits.RequestRecord }

func clientIP(ctx context.Context) string {
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		return ip.String()
	}
	return ""
}
