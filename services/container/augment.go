package container

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// submitImage serves an existing image without a build.
func (s *Service) submitImage(ctx context.Context, r request.Resolved) (submission, error) {
	plan, err := s.augmentPlan(ctx, r)
	if err != nil {
		return submission{}, err
	}
	if err := s.keepLayers(ctx, r, plan.GetExpiration().AsTime()); err != nil {
		return submission{}, err
	}
	return submissionOf(plan, r.Record), s.persist(ctx, r.Record, plan)
}

// augmentPlan looks up the image and returns the plan for the registry.
func (s *Service) augmentPlan(ctx context.Context, r request.Resolved) (*containerv1.Plan, error) {
	if token := s.deps.tokenIn(r.Image); token != "" {
		return s.planFromToken(ctx, r, token)
	}
	resolved, access, err := s.currentDigest(ctx, r.Caller, "containerImage", r.Image)
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
		Identity:   r.Caller,
		Expiration: s.expirationOf(r.Included),
		Digests:    []string{resolved.String()},
	}
	if n := s.excess(plan); n > 0 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n)
	}
	if plan.GetConfig() == nil || r.Image.Digest == "" && len(r.Includes) == 0 {
		return plan, nil
	}
	now := r.Image // report too many layers before the image is pulled
	now.Digest = resolved
	d, err := s.sources.AugmentedDigest(ctx, now, access, oci.NewAugmentation(plan.GetConfig()), r.Platform())
	if r.Image.Digest != "" {
		plan.Reference = d.String()
	}
	return plan, err
}

// planFromToken returns the plan for an image name that this service issued, with the
// request's additions applied (gateway/contract/container-service.md#issued-names). The
// token in the name authorizes access, with the login of the original caller and until that
// name expires.
func (s *Service) planFromToken(ctx context.Context, r request.Resolved, token string) (*containerv1.Plan, error) {
	rec, err := s.issued(ctx, r.Caller, "containerImage", r.Image, token)
	if err == nil && r.Added() != nil {
		err = checkImage("containerImage", r.Image, rec.Plan)
	}
	if err != nil {
		return nil, err
	}
	plan := rec.Plan
	if err := setPlatform(r, plan); err != nil {
		return nil, err
	}
	if source := oci.ReferenceOf(plan.GetSource()); plan.GetBuildId() == "" && s.deps.Policy.MustBeSigned(source) {
		if _, _, err := s.currentDigest(ctx, plan.GetIdentity(), "containerImage", source); err != nil {
			return nil, err
		}
	}
	if plan.GetBuildId() != "" {
		b, err := s.locate(ctx, plan.GetBuildId())
		if err != nil {
			return nil, fault.In("containerImage", err)
		}
		plan.Built = b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED
	}
	if err := addConfig(plan, r); err != nil {
		return nil, err
	}
	plan.Token, plan.KeptId = tokens.New(), ""
	if plan.Expiration = s.expirationOf(r.Included); rec.Expires.Before(plan.GetExpiration().AsTime()) {
		plan.Expiration = timestamppb.New(rec.Expires)
	}
	if n := s.excess(plan); n > 0 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n)
	}
	return plan, s.rename(ctx, plan)
}

// addConfig adds a request's additions to those of a plan.
func addConfig(plan *containerv1.Plan, r request.Resolved) error {
	plan.Config = mergeConfig(plan.GetConfig(), r.Added())
	return request.CheckCount("containerConfig.layers: with those of the image", plan.GetConfig().GetLayers())
}

// setPlatform sets the platform that a request names. A built image only has its own
// platforms.
func setPlatform(r request.Resolved, plan *containerv1.Plan) error {
	want := platforms.Format(r.Platform())
	switch there := strings.Split(plan.GetPlatform(), ","); {
	case r.Raw.GetContainerPlatform() == "" || slices.Contains(there, want):
	case plan.GetBuildId() != "":
		return fault.Invalid.Newf("containerPlatform: the image was built for %s, not for %s", plan.GetPlatform(), want)
	case request.Includes(plan.GetConfig()):
		return fault.Invalid.Newf("containerPlatform: the image includes others for %s, not for %s", plan.GetPlatform(), want)
	default:
		plan.Platform = want
	}
	return nil
}

// rename updates the name of an image that was requested by digest: it contains the digest of
// the augmented image.
func (s *Service) rename(ctx context.Context, plan *containerv1.Plan) error {
	image := oci.ReferenceOf(plan.GetSource())
	if image.Digest == "" || plan.GetConfig() == nil {
		return nil
	}
	p, err := oci.ParsePlatform(plan.GetPlatform())
	if err != nil {
		return fmt.Errorf("reading the platform of a stored request: %w", err)
	}
	access, err := s.deps.Keychain.Access(ctx, caller.Of(plan.GetIdentity()), image.Registry, image.Repository)
	if err != nil {
		return err
	}
	d, err := s.sources.AugmentedDigest(ctx, image, access, oci.NewAugmentation(plan.GetConfig()), p)
	plan.Reference = d.String()
	return err
}

// mergeConfig returns the configuration below with above applied on top.
func mergeConfig(below, above *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if below == nil || above == nil {
		if above == nil {
			return below
		}
		return above
	}
	out := proto.CloneOf(below)
	for _, kv := range above.GetEnv() {
		name, _, _ := strings.Cut(kv, "=")
		out.Env = slices.DeleteFunc(out.Env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		out.Env = append(out.Env, kv)
	}
	if len(above.GetEntrypoint()) > 0 {
		out.Entrypoint = above.GetEntrypoint()
	}
	if len(above.GetCmd()) > 0 {
		out.Cmd = above.GetCmd()
	}
	if above.GetWorkingDir() != "" {
		out.WorkingDir = above.GetWorkingDir()
	}
	out.Layers = append(out.Layers, above.GetLayers()...)
	return out
}
