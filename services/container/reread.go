package container

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/upstream"
)

// reread checks that the caller of a plan may currently read its image. It returns the
// build, or nil if the image was not built.
func (s *Service) reread(ctx context.Context, plan *containerv1.Plan) (*buildv1.LocateBuildResponse, error) {
	if err := s.deps.Keychain.CheckPlan(caller.Of(plan.GetIdentity()), "containerImage", plan); err != nil {
		return nil, err
	}
	if err := s.checkIssued(ctx, "containerImage", plan); err != nil {
		return nil, err
	}
	if plan.GetBuildId() != "" {
		b, err := s.locate(ctx, plan.GetBuildId())
		if err == nil {
			err = checkScope(b, plan.GetIdentity())
		}
		if err != nil {
			return nil, err
		}
		plan.Built = b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED
		return b, s.checkExists(ctx, plan)
	}
	image := oci.ReferenceOf(plan.GetSource())
	resolved, _, err := s.currentDigest(ctx, plan.GetIdentity(), "containerImage", image)
	plan.Digests = []string{resolved.String()}
	return nil, err
}

// errNoBuilds is returned for a build that was made before builds were disabled.
func errNoBuilds() error {
	return fault.Unavailable.Newf("Builds cannot be looked up right now; try again").After(time.Second)
}

// stateOf returns the current state of a build.
func (s *Service) stateOf(ctx context.Context, id string) (*buildv1.AwaitBuildResponse, error) {
	if s.deps.Build == nil {
		return nil, errNoBuilds()
	}
	return s.deps.Build.AwaitBuild(ctx, &buildv1.AwaitBuildRequest{BuildId: id, NoWait: true})
}

// locate returns a build. It returns fault.NotFound also for a failed build.
func (s *Service) locate(ctx context.Context, id string) (*buildv1.LocateBuildResponse, error) {
	if s.deps.Build == nil {
		return nil, errNoBuilds()
	}
	b, err := s.deps.Build.LocateBuild(ctx, &buildv1.LocateBuildRequest{BuildId: id})
	if err != nil {
		return nil, err
	}
	if b.GetState() == buildv1.BuildState_BUILD_STATE_FAILED {
		return nil, fault.NotFound.Newf("The build %s failed (%s) and made no image: make the request again to rebuild it", id, b.GetReason()).WithCode(fault.BuildFailed)
	}
	return b, nil
}

// checkScope returns fault.Denied unless a caller may have the image of a build.
func checkScope(b *buildv1.LocateBuildResponse, who *platformv1.Identity) error {
	if b.GetScope() == "" || b.GetScope() == request.ScopeOf(caller.Of(who)) {
		return nil
	}
	return fault.Denied.Newf("The image of this build is only for users who may read what it was built from, or push to its repository: " +
		"make the request again as yourself")
}

// checkExists checks that a built image exists, since stores delete old images.
func (s *Service) checkExists(ctx context.Context, plan *containerv1.Plan) error {
	if !plan.GetBuilt() {
		return nil
	}
	d, err := s.builtDigest(ctx, plan)
	if errors.Is(err, fault.NotFound) {
		return fault.NotFound.New("The image is no longer stored; make the request again to rebuild it", err)
	}
	plan.Digests = []string{d.String()}
	return err
}

// builtDigest returns the current digest of a built image. The lookup marks the image as used
// in the image store.
func (s *Service) builtDigest(ctx context.Context, plan *containerv1.Plan) (digest.Digest, error) {
	src := plan.GetSource()
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(plan.GetIdentity()), src.GetRegistry(), src.GetRepository())
	if err != nil {
		return "", err
	}
	return s.deps.Upstream.Resolve(ctx, upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()}, src.GetReference(), access)
}

// currentDigest returns the current digest of an image for a caller, and the access to it. It
// returns fault.Invalid for an image of the service itself, and fault.Denied for an image without
// the signature that policy_signatures requires.
func (s *Service) currentDigest(ctx context.Context, who *platformv1.Identity, field string, image oci.Reference) (digest.Digest, upstream.Access, error) {
	if s.deps.owns(image.Registry, image.Repository) {
		return "", upstream.Access{}, sources.NotFound(field, image, nil)
	}
	d, access, err := s.sources.Resolve(ctx, caller.Of(who), field, image)
	if err == nil {
		err = s.checkSigned(ctx, who, field, image, d, access)
	}
	return d, access, err
}

// extendLayers stores the layers of a plan until its name expires.
func (s *Service) extendLayers(ctx context.Context, plan *containerv1.Plan) error {
	for _, l := range plan.GetConfig().GetLayers() {
		if l.GetLocation() != request.DataPrefix {
			continue
		}
		there, err := s.store.ExtendLayer(ctx, l.GetGzipDigest(), plan.GetExpiration().AsTime())
		if err != nil {
			return s.sqlFault("keeping a layer", err)
		}
		if !there {
			return fault.NotFound.Newf("The layer %s of the request is no longer stored: make the request again, with the layer", l.GetGzipDigest())
		}
	}
	return nil
}

// accessTo returns the access to read an image: that of the service for a built image,
// otherwise the caller's login.
func (s *Service) accessTo(ctx context.Context, who *platformv1.Identity, buildID string, image oci.Reference) (upstream.Access, error) {
	find := s.deps.Keychain.Access
	if buildID != "" {
		find = s.deps.Keychain.BuildAccess
	}
	return find(ctx, caller.Of(who), image.Registry, image.Repository)
}

// loginOf returns the part of an identity that is needed to find a login. It is stored with
// each layer. The repository of the layer was checked when it was included, so the repositories of
// the access token are not part of it.
func loginOf(who *platformv1.Identity) *platformv1.Identity {
	if who == nil {
		return nil
	}
	return &platformv1.Identity{
		Endpoint: who.GetEndpoint(), UserId: who.GetUserId(), WorkspaceId: who.GetWorkspaceId(), RobotOrgId: who.GetRobotOrgId(), OrganizationId: who.GetOrganizationId(),
	}
}

// rereadIncluded checks that a user may read the images that layers were included from, and
// sets the user as the identity of these layers. It returns fault.Invalid if the user may not.
func (s *Service) rereadIncluded(ctx context.Context, field string, layers []*containerv1.Layer, who *platformv1.Identity) error {
	seen := map[string]bool{}
	for _, l := range layers {
		from := l.GetIncludedFrom()
		if from == nil {
			continue
		}
		from.Identity = loginOf(who)
		image := oci.Reference{Registry: from.GetRegistry(), Repository: from.GetRepository(), Digest: digest.Digest(from.GetReference())}
		key := from.GetBuildId() + " " + image.String()
		if seen[key] {
			continue
		}
		seen[key] = true
		if err := s.rereadOrigin(ctx, field, image, from); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) rereadOrigin(ctx context.Context, field string, image oci.Reference, from *containerv1.LayerOrigin) error {
	if id := from.GetBuildId(); id != "" {
		b, err := s.locate(ctx, id)
		if err == nil {
			err = checkScope(b, from.GetIdentity())
		}
		if err != nil {
			return fault.In(field, err)
		}
	}
	access, err := s.accessTo(ctx, from.GetIdentity(), from.GetBuildId(), image)
	if err != nil {
		return err
	}
	d, err := s.sources.At(ctx, access, image, from.GetBuildId() != "")
	if err != nil || from.GetBuildId() != "" {
		return sources.Unreadable(field, image, access, err)
	}
	if err := s.deps.Policy.Image(ctx, field, image); err != nil {
		return err
	}
	return s.checkSigned(ctx, from.GetIdentity(), field, image, d, access)
}

// notForCaller converts an error about an unreadable image to the fault for an image in a
// request: fault.Invalid (gateway/contract/container-service.md#source-images).
func notForCaller(field string, err error) error {
	if e, ok := fault.As(err); ok && errors.Is(e, fault.Denied) && !enforce.IsRefusal(err) {
		return fault.Invalid.New(field+": "+e.Public, e)
	}
	if enforce.IsRefusal(err) { // it names the field
		return err
	}
	return fault.In(field, err)
}
