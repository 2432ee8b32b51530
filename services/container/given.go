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

// givenPlan serves what a name that this service gave out stands for, with what the
// request adds on top (gateway/contract/container-service.md#names-given-out). The token
// in the name is the right to read it: with the login of whoever asked first, and for as
// long as that name works.
func (s *Service) givenPlan(ctx context.Context, r request.Request, token string) (*containerv1.Plan, error) {
	rec, err := s.given(ctx, "containerImage", r.Image, token)
	if err != nil {
		return nil, err
	}
	plan := rec.Plan
	if err := givenPlatform(r, plan); err != nil {
		return nil, err
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
	plan.Token = tokens.New()
	if plan.Expiration = s.expirationOf(r); rec.Expires.Before(plan.GetExpiration().AsTime()) {
		plan.Expiration = timestamppb.New(rec.Expires)
	}
	if n := s.excess(plan); n > 0 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n)
	}
	return plan, s.rename(ctx, plan)
}

// addConfig puts what a request adds on top of what a plan has.
func addConfig(plan *containerv1.Plan, r request.Request) error {
	plan.Config = onTop(plan.GetConfig(), r.Added())
	return request.CheckCount("containerConfig.layers: with those of the image", plan.GetConfig().GetLayers())
}

// givenPlatform takes the platform that a request names. What was built is there for its
// own platforms alone.
func givenPlatform(r request.Request, plan *containerv1.Plan) error {
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

// rename puts the digest of what is served into the name of an image that was asked for
// by digest.
func (s *Service) rename(ctx context.Context, plan *containerv1.Plan) error {
	src := plan.GetSource()
	image, err := oci.ParseReference(src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference()))
	if err != nil {
		return fmt.Errorf("reading the image of a stored request: %w", err)
	}
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
	d, err := s.sources.AugmentedDigest(ctx, image, access, oci.AdditionOf(plan.GetConfig()), p)
	plan.Reference = d.String()
	return err
}

// onTop is one configuration and then another.
func onTop(below, above *containerv1.ContainerConfig) *containerv1.ContainerConfig {
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
