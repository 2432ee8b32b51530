package container

import (
	"context"

	"github.com/containerd/platforms"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// imagePlan looks the image up and says what the registry will serve.
func (s *Service) imagePlan(ctx context.Context, r request.Request, who *platformv1.Identity) (*containerv1.Plan, error) {
	if token := s.deps.tokenIn(r.Image); token != "" {
		return s.givenPlan(ctx, r, token)
	}
	if s.deps.owns(r.Image.Registry, r.Image.Repository) {
		return nil, sources.NotFound("containerImage", r.Image, nil)
	}
	resolved, access, err := s.sources.Resolve(ctx, caller.Of(who), "containerImage", r.Image)
	if err != nil {
		return nil, err
	}
	plan := &containerv1.Plan{
		Token: tokens.New(),
		Source: &containerv1.Source{
			Registry: r.Image.Registry, Repository: r.Image.Repository, Reference: r.Image.Identifier(),
		},
		Name:       r.Image.Repository,
		Reference:  r.Image.Identifier(),
		Platform:   platforms.Format(r.Platform()),
		Config:     r.Added(),
		Identity:   who,
		Expiration: s.expirationOf(r),
		Digests:    []string{resolved.String()},
	}
	if n := s.excess(plan); n > 0 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n)
	}
	if plan.GetConfig() == nil || r.Image.Digest == "" && len(r.Includes) == 0 {
		return plan, nil
	}
	now := r.Image // what is too much for one image is said before anybody pulls it
	now.Digest = resolved
	d, err := s.sources.AugmentedDigest(ctx, now, access, oci.AdditionOf(plan.GetConfig()), r.Platform())
	if r.Image.Digest != "" {
		plan.Reference = d.String()
	}
	return plan, err
}

// buildPlan says what the registry will serve. What a frozen image or a Singularity
// image holds already is not added again.
func (s *Service) buildPlan(r request.Request, who *platformv1.Identity, t *buildv1.Target) *containerv1.Plan {
	plan := &containerv1.Plan{
		Token: tokens.New(),
		Source: &containerv1.Source{
			Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: t.GetTag(),
		},
		Name:       t.GetRepository(),
		Reference:  t.GetTag(),
		Platform:   oci.Platforms(r.Platforms),
		Identity:   who,
		Expiration: s.expirationOf(r),
		Frozen:     r.Raw.GetFreeze(),
	}
	if r.IsSif() {
		plan.Format = request.FormatSif
	}
	if !plan.Frozen && !r.IsSif() {
		plan.Config = r.Added()
	}
	return plan
}
