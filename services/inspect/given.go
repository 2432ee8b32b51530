package inspect

import (
	"context"
	"errors"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// tokenIn is the token in a name that this service gave out; "" for any other image.
func (s *Service) tokenIn(image oci.Reference) string {
	rest, ok := strings.CutPrefix(image.Repository, "wt/")
	token, name, _ := strings.Cut(rest, "/")
	if !ok || name == "" || s.deps.Containers == nil || !oci.SameHost(image.Registry, s.deps.Host) {
		return ""
	}
	return token
}

// lookAt finds where an image is read and with which login: an image of one's own
// choice with the caller's, what a name stands for that this service gave out with that
// of whoever asked for the name, since its token is the right to read it.
func (s *Service) lookAt(ctx context.Context, who caller.ID, image oci.Reference) (look, error) {
	l := look{documents: s.deps.Control.Documents(), image: image, shown: image}
	token := s.tokenIn(image)
	if token == "" {
		var err error
		l.access, err = s.deps.Keychain.Access(ctx, who, image.Registry, image.Repository)
		l.client = s.deps.Control.For(l.access, image.Registry)
		return l, err
	}
	resp, err := s.deps.Containers.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token})
	if errors.Is(err, fault.NotFound) {
		return l, fault.NotFound.New("The name was never given out, was revoked, or has expired: `slipway get` prints a fresh one", err)
	}
	if err != nil {
		return l, err
	}
	plan := resp.GetPlan()
	if plan.GetFrozen() || image.Repository != "wt/"+token+"/"+plan.GetName() || image.Tag != "" && image.Tag != plan.GetReference() {
		// A frozen image has a name of its own: the id of its request is no right to read it.
		return l, fault.NotFound.Newf("This name was never given out; the request that its token is of has another")
	}
	l.plan = plan
	src := plan.GetSource()
	l.image = oci.Reference{Registry: src.GetRegistry(), Repository: src.GetRepository()}
	if d, err := digest.Parse(src.GetReference()); err == nil {
		l.image.Digest = d
	} else {
		l.image.Tag = src.GetReference()
	}
	l.access, err = s.accessOf(ctx, plan, src.GetRegistry(), src.GetRepository())
	if err != nil {
		return l, err
	}
	l.client = s.deps.Control.For(l.access, src.GetRegistry())
	return l, s.augment(ctx, &l, plan)
}

// owned is what was read, or is to be, for somebody: what a build pushed when it names one.
type owned interface {
	GetBuildId() string
	GetIdentity() *platformv1.Identity
}

// accessOf is how a repository is read for whom it was read before.
func (s *Service) accessOf(ctx context.Context, o owned, registry, repository string) (upstream.Access, error) {
	find := s.deps.Keychain.Access
	if o.GetBuildId() != "" {
		find = s.deps.Keychain.Target
	}
	return find(ctx, caller.Of(o.GetIdentity()), registry, repository)
}

// augment makes the documents that the registry serves in place of the image's own.
func (s *Service) augment(ctx context.Context, l *look, plan *containerv1.Plan) error {
	add := oci.AdditionOf(plan.GetConfig())
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
	l.made = map[digest.Digest]oci.Document{out.Root.Digest: out.Root}
	for _, img := range out.Images {
		l.made[img.Manifest.Digest], l.made[img.Config.Digest] = img.Manifest, img.Config
	}
	l.image.Tag, l.image.Digest = "", out.Root.Digest
	return nil
}

// madeConfig is a config that exists only here; ok is false for any other.
func (l look) madeConfig(d ocispec.Descriptor) (c imageConfig, ok bool, err error) {
	doc, ok := l.made[d.Digest]
	if ok {
		err = oci.Decode(doc.Bytes, &c)
	}
	return c, ok, err
}
