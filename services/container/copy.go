package container

import (
	"context"
	"strings"

	"github.com/containerd/platforms"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
)

// submitCopy submits a copy of an existing image to a repository of its caller, with the
// request's additions, or its conversion to a Singularity image.
func (s *Service) submitCopy(ctx context.Context, r request.Resolved) (submission, error) {
	from, err := s.copyPlan(ctx, r)
	if err != nil {
		return submission{}, err
	}
	to, err := s.copyDestination(ctx, r)
	if err != nil {
		return submission{}, err
	}
	return s.submitBuild(ctx, r, r.BuildCopy(from, to, clientIP(ctx)), s.startBuild)
}

// copyPlan returns the image to copy by its current digest, with the additions to it.
func (s *Service) copyPlan(ctx context.Context, r request.Resolved) (*containerv1.Plan, error) {
	if token := s.deps.tokenIn(r.Image); token != "" {
		return s.copyOfIssued(ctx, r, token)
	}
	resolved, _, err := s.currentDigest(ctx, r.Caller, "containerImage", r.Image)
	return &containerv1.Plan{
		Platform: platforms.Format(r.Platform()), Config: r.Added(),
		Source: &containerv1.Source{Registry: r.Image.Registry, Repository: r.Image.Repository, Reference: resolved.String()},
	}, err
}

// copyOfIssued returns the current image of an issued name with the request's additions, for
// one platform. The image must exist and be readable by the caller.
func (s *Service) copyOfIssued(ctx context.Context, r request.Resolved, token string) (*containerv1.Plan, error) {
	rec, err := s.issued(ctx, r.Caller, "containerImage", r.Image, token)
	if err == nil {
		err = checkImage("containerImage", r.Image, rec.Plan)
	}
	if err != nil {
		return nil, err
	}
	plan := rec.Plan
	plan.Identity = r.Caller
	if err := setPlatform(r, plan); err != nil {
		return nil, err
	}
	if _, err := s.reread(ctx, plan); err != nil {
		return nil, notForCaller("containerImage", err)
	}
	if plan.GetBuildId() != "" && !plan.GetBuilt() {
		return nil, stillBuilt("containerImage", r.Image, plan.GetBuildId())
	}
	if err := s.rereadIncluded(ctx, "containerImage", plan.GetConfig().GetLayers(), r.Caller); err != nil {
		return nil, err
	}
	if err := addConfig(plan, r); err != nil {
		return nil, err
	}
	if plan.Platform, _, _ = strings.Cut(plan.GetPlatform(), ","); r.Raw.GetContainerPlatform() != "" {
		plan.Platform = platforms.Format(r.Platform())
	}
	plan.Source.Reference = plan.GetDigests()[0]
	plan.Expiration = s.expiration() // workers may fetch layers until then
	return plan, s.extendLayers(ctx, plan)
}
