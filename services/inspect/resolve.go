package inspect

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// tokenOf returns the token of an issued image name; "" for any other image.
func (s *Service) tokenOf(image oci.Reference) string {
	name, ok := oci.ParseIssued(image.Repository)
	if !ok || s.deps.Containers == nil || !oci.SameHost(image.Registry, s.deps.Host) {
		return ""
	}
	return name.Token
}

// openImage returns a reader for an image. An ordinary image is read with the caller's login. An
// issued name is resolved, and its image is read with the login of the user who requested the
// name, since the token in the name grants access to the image.
func (s *Service) openImage(ctx context.Context, who caller.ID, image oci.Reference) (imageReader, error) {
	l := imageReader{documents: s.deps.Control.Documents(), image: image, requested: image}
	token := s.tokenOf(image)
	if token == "" {
		err := who.CheckRepository("containerImage", image.Registry, image.Repository)
		if err != nil {
			return l, err
		}
		l.access, err = s.deps.Keychain.Access(ctx, who, image.Registry, image.Repository)
		l.client = s.deps.Control.For(l.access, image.Registry)
		return l, err
	}
	resp, err := s.deps.Containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token})
	if errors.Is(err, fault.NotFound) {
		return l, fault.NotFound.New("The image name was never issued, was revoked, or has expired; `slipway get` prints a valid one", err)
	}
	if err != nil {
		return l, err
	}
	plan := resp.GetPlan()
	if plan.GetFrozen() || image.Repository != (oci.IssuedName{Token: token, Name: plan.GetName()}).String() || image.Tag != "" && image.Tag != plan.GetReference() {
		// A frozen image has a permanent name: the id of its request does not grant access to it.
		return l, fault.NotFound.Newf("This image name was never issued; its token belongs to another name")
	}
	if err := s.deps.Keychain.CheckPlan(who, "containerImage", plan); err != nil {
		return l, err
	}
	if err := s.checkBuilt(ctx, token, plan); err != nil {
		return l, err
	}
	l.plan = plan
	l.image = oci.ReferenceOf(plan.GetSource())
	l.access, err = s.accessOf(ctx, plan, l.image.Registry, l.image.Repository)
	if err != nil {
		return l, err
	}
	l.client = s.deps.Control.For(l.access, l.image.Registry)
	return l, s.augment(ctx, &l, plan)
}

// checkBuilt returns an error if the image of a plan has not been built: fault.Conflict while
// the build is running, fault.NotFound if it failed.
func (s *Service) checkBuilt(ctx context.Context, token string, plan *containerv1.Plan) error {
	if plan.GetBuildId() == "" || plan.GetBuilt() {
		return nil
	}
	now, err := s.deps.Containers.GetContainerStatus(ctx, &containerv1.GetContainerStatusRequest{RequestId: token})
	switch {
	case err != nil:
		return err
	case now.GetSucceeded(), now.GetStatus() == "SCANNING", now.GetReasonCode() == "scan":
		return nil // it can be inspected, though not always pulled
	case now.GetStatus() == "DONE":
		return fault.NotFound.Newf("The build %s failed (%s), so there is no image; repeat the container request to build it again", plan.GetBuildId(), now.GetReasonCode()).WithCode(fault.BuildFailed)
	}
	return fault.Conflict.Newf("The build %s has not finished; inspect the image when `slipway status %s` shows that the build is done", plan.GetBuildId(), plan.GetBuildId()).WithCode(fault.BuildRunning)
}

// An owned image or layer is read with the login of its identity. If it has a build id, that
// build pushed it.
type owned interface {
	GetBuildId() string
	GetIdentity() *platformv1.Identity
}

// accessOf returns the owner's access to a repository.
func (s *Service) accessOf(ctx context.Context, o owned, registry, repository string) (upstream.Access, error) {
	find := s.deps.Keychain.Access
	if o.GetBuildId() != "" {
		find = s.deps.Keychain.BuildAccess
	}
	return find(ctx, caller.Of(o.GetIdentity()), registry, repository)
}

// augment generates the documents of an augmented image, which the registry role serves instead
// of those of the image, and makes l read them.
func (s *Service) augment(ctx context.Context, l *imageReader, plan *containerv1.Plan) error {
	add := oci.NewAugmentation(plan.GetConfig())
	if add.IsZero() {
		return nil
	}
	wanted, err := oci.ParsePlatforms(plan.GetPlatform())
	if err != nil {
		return err
	}
	root, err := l.manifest(ctx, l.image)
	if err != nil {
		return err
	}
	repo := upstream.Repository{Host: l.image.Registry, Name: l.image.Repository}
	out, err := oci.Augment(ctx, s.deps.Upstream.Source(repo, l.access), root, add, wanted...)
	if err != nil {
		return err
	}
	l.generated = map[digest.Digest]oci.Document{out.Root.Digest: out.Root}
	l.sources = map[string]string{}
	for _, img := range out.Images {
		l.sources[img.Manifest.Digest.String()] = img.Source.String()
		l.generated[img.Manifest.Digest], l.generated[img.Config.Digest] = img.Manifest, img.Config
	}
	l.image.Tag, l.image.Digest = "", out.Root.Digest
	return nil
}

// generatedConfig returns the config of an augmented image; ok is false for any other config.
func (l imageReader) generatedConfig(d ocispec.Descriptor) (c imageConfig, ok bool, err error) {
	doc, ok := l.generated[d.Digest]
	if ok {
		err = oci.Decode(doc.Bytes, &c)
	}
	return c, ok, err
}
