package container

import (
	"context"
	"errors"
	"fmt"
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
	"slipway.dev/services/internal/upstream"
)

// reread makes sure that the caller of a plan may have its image now. The build is nil
// where nothing was built.
func (s *Service) reread(ctx context.Context, plan *containerv1.Plan) (*buildv1.LocateBuildResponse, error) {
	if plan.GetBuildId() != "" {
		b, err := s.locate(ctx, plan.GetBuildId())
		if err == nil {
			err = mayHave(b, plan.GetIdentity())
		}
		if err != nil {
			return nil, err
		}
		plan.Built = b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED
		return b, s.stillThere(ctx, plan)
	}
	src := plan.GetSource()
	image, err := oci.ParseReference(src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference()))
	if err != nil {
		return nil, fmt.Errorf("reading the image of a stored request: %w", err)
	}
	resolved, _, err := s.sources.Resolve(ctx, caller.Of(plan.GetIdentity()), "containerImage", image)
	plan.Digests = []string{resolved.String()}
	return nil, err
}

// locate finds a build; fault.NotFound for one that has failed, too.
func (s *Service) locate(ctx context.Context, id string) (*buildv1.LocateBuildResponse, error) {
	if s.deps.Build == nil {
		return nil, fault.Unavailable.Newf("Builds cannot be looked up right now; try again").After(time.Second)
	}
	b, err := s.deps.Build.LocateBuild(ctx, &buildv1.LocateBuildRequest{BuildId: id})
	if err != nil {
		return nil, err
	}
	if b.GetState() == buildv1.BuildState_BUILD_STATE_FAILED {
		return nil, fault.NotFound.Newf("The build %s failed (%s) and made no image: make the request again to build it anew", id, b.GetReason())
	}
	return b, nil
}

// mayHave says whether the image of a build is for somebody.
func mayHave(b *buildv1.LocateBuildResponse, who *platformv1.Identity) error {
	if b.GetScope() == "" || b.GetScope() == request.ScopeOf(caller.Of(who)) {
		return nil
	}
	return fault.Denied.Newf("The image of this build is for those alone who may read what it was built from, or push to its repository: " +
		"make the request again as yourself")
}

// stillThere looks at an image that was built: stores do not keep all of them for
// ever.
func (s *Service) stillThere(ctx context.Context, plan *containerv1.Plan) error {
	if !plan.GetBuilt() {
		return nil
	}
	src := plan.GetSource()
	access, err := s.deps.Keychain.Target(ctx, caller.Of(plan.GetIdentity()), src.GetRegistry(), src.GetRepository())
	if err != nil {
		return err
	}
	d, err := s.deps.Upstream.Resolve(ctx, upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()}, src.GetReference(), access)
	if errors.Is(err, fault.NotFound) {
		return fault.NotFound.New("The image is no longer kept; make the request again to build it anew", err)
	}
	plan.Digests = []string{d.String()}
	return err
}

// extendLayers keeps the layers of a plan for as long as its name works.
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
			return fault.NotFound.Newf("The layer %s of the request is no longer kept: make the request again, with the layer", l.GetGzipDigest())
		}
	}
	return nil
}

// accessTo is how somebody reads an image: what a build has made as it is served, any
// other with their own login.
func (s *Service) accessTo(ctx context.Context, who *platformv1.Identity, buildID string, image oci.Reference) (upstream.Access, error) {
	find := s.deps.Keychain.Access
	if buildID != "" {
		find = s.deps.Keychain.Target
	}
	return find(ctx, caller.Of(who), image.Registry, image.Repository)
}

// loginOf is what it takes of an identity to find a login: it is kept with each layer.
func loginOf(who *platformv1.Identity) *platformv1.Identity {
	if who == nil {
		return nil
	}
	return &platformv1.Identity{Endpoint: who.GetEndpoint(), UserId: who.GetUserId(), WorkspaceId: who.GetWorkspaceId()}
}

// rereadIncluded makes sure that somebody may read the images that layers were included
// from, and has them read with that login from now on. fault.Invalid where they may not.
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
			err = mayHave(b, from.GetIdentity())
		}
		if err != nil {
			return fault.In(field, err)
		}
	}
	access, err := s.accessTo(ctx, from.GetIdentity(), from.GetBuildId(), image)
	if err != nil {
		return err
	}
	_, err = s.sources.At(ctx, access, image)
	return sources.Unreadable(field, image, access, err)
}

// notForCaller makes of an image that its caller may not read what it is in any request
// that names one: fault.Invalid (gateway/contract/container-service.md#source-images).
func notForCaller(field string, err error) error {
	if e, ok := fault.As(err); ok && errors.Is(e, fault.Denied) {
		return fault.Invalid.New(field+": "+e.Public, e)
	}
	return fault.In(field, err)
}
