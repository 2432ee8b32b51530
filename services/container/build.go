package container

import (
	"cmp"
	"context"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// draft checks the images of a plan and returns its build, ready to be submitted.
func (s *Service) draft(ctx context.Context, r request.Resolved, plan request.BuildPlan) (*buildv1.SubmitBuildRequest, error) {
	to, err := s.destination(ctx, r, plan)
	if err != nil {
		return nil, err
	}
	b := r.Build(plan, to, clientIP(ctx))
	if !to.Own && s.deps.owns(to.Registry, b.GetTarget().GetRepository()) {
		return nil, fault.Invalid.Newf("buildRepository: the image's name would belong to this service; use another nameStrategy")
	}
	return b, nil
}

// A starter submits a build to the build service.
type starter func(context.Context, *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error)

func (s *Service) startBuild(ctx context.Context, b *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	return s.deps.Build.SubmitBuild(ctx, b)
}

// submitBuild starts a build and issues a name for the image.
func (s *Service) submitBuild(ctx context.Context, r request.Resolved, b *buildv1.SubmitBuildRequest, start starter) (submission, error) {
	if err := s.checkTargets(r.Caller, b); err != nil {
		return submission{}, err
	}
	if r.Raw.GetKeep() {
		if err := s.mayKeep(ctx, r, b.GetContentId()); err != nil {
			return submission{}, err
		}
	}
	plan := s.buildPlan(r, b.GetContentId(), b.GetTarget())
	if n := s.excess(plan); n > 0 && !plan.GetFrozen() {
		return submission{}, fault.Invalid.Newf("buildRepository: the name of the image is %d characters too long to be served", n)
	}
	// A worker may fetch the layers as soon as the build exists.
	if err := s.keepLayers(ctx, r, plan.GetExpiration().AsTime()); err != nil {
		return submission{}, err
	}
	resp, err := start(ctx, b)
	if err != nil {
		return submission{}, err
	}
	plan.BuildId, plan.Built = resp.GetBuildId(), resp.GetSucceeded()
	if r.Raw.GetKeep() && !b.GetDryRun() {
		if err := s.keep(ctx, r, b, plan); err != nil {
			return submission{}, err
		}
	}
	if b.GetDryRun() {
		resp.BuildId = b.GetContentId() + "_0"
	}
	out := submission{plan: plan, build: resp, record: r.Record}
	if strings.HasSuffix(plan.GetBuildId(), "_0") {
		return out, nil // a dry run of an image that neither exists nor is being built
	}
	return out, s.persist(ctx, r.Record, plan)
}

// buildPlan returns the plan for the registry. The additions of a frozen image or a
// Singularity image are part of the image and not added again.
func (s *Service) buildPlan(r request.Resolved, contentID string, t *buildv1.Target) *containerv1.Plan {
	plan := &containerv1.Plan{
		Token: tokens.New(),
		Source: &containerv1.Source{
			Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: cmp.Or(t.GetTag(), t.GetDigest()),
		},
		Name:       t.GetRepository(),
		Reference:  cmp.Or(t.GetTag(), t.GetDigest()),
		Identity:   r.Caller,
		Expiration: s.expirationOf(r.Included),
		Frozen:     r.Raw.GetFreeze() || r.Raw.GetMirror(),
		Mirror:     r.Raw.GetMirror(),
	}
	plan.Format = request.FormatOf(r.Raw.GetFormat())
	if !plan.GetMirror() { // a mirror has all platforms
		plan.Platform = oci.Platforms(r.Platforms)
	}
	if !r.IsPermanent() {
		plan.Config = r.Added()
	}
	if r.Raw.GetKeep() {
		plan.KeptId, plan.Name, plan.Reference = newKeptID(contentID, keeper(r)), r.KeptAs.Name, r.KeptAs.Tag
	}
	return plan
}
