package remote

import (
	"context"
	"io"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A Source is the base image of a build, for one platform.
type Source struct {
	*Repository
	Name string // for messages
	// doc is the image manifest, and Layers are the layers that it lists.
	doc    oci.Document
	Layers []ocispec.Descriptor
}

// Source resolves the recipe's source with the login of the build's owner.
func (d Deps) Source(ctx context.Context, job jobs.Job, l *jobs.Logins) (*Source, error) {
	src := job.Recipe.GetSource()
	repo := upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()}
	from, err := d.Repository(ctx, job, l, repo)
	if err != nil {
		return nil, err
	}
	o := &Source{Repository: from, Name: src.GetRegistry() + "/" + src.GetRepository() + "@" + src.GetReference()}
	platform, err := oci.ParsePlatform(job.Recipe.GetPlatform())
	if err != nil {
		return nil, err
	}
	if o.doc, err = pick(ctx, o.documents, digest.Digest(src.GetReference()), platform); err != nil {
		return nil, o.unreadable(ctx, err)
	}
	m, err := oci.ParseManifest(o.doc)
	o.Layers = m.Layers
	return o, o.unreadable(ctx, err)
}

// Digest returns the digest of the image's manifest for the platform.
func (o *Source) Digest() digest.Digest { return o.doc.Digest }

// pick returns the image manifest for a platform. A single-platform image is returned
// without a check.
func pick(ctx context.Context, src oci.Source, d digest.Digest, p ocispec.Platform) (oci.Document, error) {
	doc, err := src.Manifest(ctx, d)
	if err != nil || !oci.IsIndex(doc.MediaType) {
		return doc, err
	}
	index, err := oci.ParseIndex(doc)
	if err != nil {
		return doc, err
	}
	if fitting := oci.Matching(index, p); len(fitting) > 0 {
		return src.Manifest(ctx, index.Manifests[fitting[0]].Digest)
	}
	return doc, fault.NotFound.Newf("it is not available for %s", platforms.Format(p))
}

// unreadable converts an error of the registry to a failure that names the image. It
// returns other errors unchanged.
func (o *Source) unreadable(ctx context.Context, err error) error {
	if f, ok := fault.As(upstream.ControlFault(o.ref.Registry, err)); ok && ctx.Err() == nil {
		return jobs.Build.Failure("The image "+o.Name+" cannot be read: "+f.Public, err)
	}
	return err
}

// With returns the image with a configuration applied, or the unchanged image if the
// configuration is empty.
func (o *Source) With(ctx context.Context, c *containerv1.ContainerConfig) (oci.Image, error) {
	if a := oci.NewAugmentation(c); !a.IsZero() {
		made, err := oci.Augment(ctx, o.documents, o.doc, a)
		if err != nil {
			return oci.Image{}, o.unreadable(ctx, err)
		}
		return made.Images[0], nil
	}
	m, err := oci.ParseManifest(o.doc)
	if err != nil {
		return oci.Image{}, o.unreadable(ctx, err)
	}
	if t := m.Config.MediaType; !oci.IsConfig(t) {
		return oci.Image{}, jobs.Build.Failure(o.Name+" is not a container image: its config is of the type "+fault.Clip(t, jobs.TextBytes), nil)
	}
	raw, err := o.documents.Config(ctx, m.Config)
	return oci.Image{Manifest: o.doc, Config: oci.NewDocument(m.Config.MediaType, raw)}, o.unreadable(ctx, err)
}

// Open opens one of the image's layers. Reading it fails at the end if its content does not
// have the layer's digest.
func (o *Source) Open(ctx context.Context, l ocispec.Descriptor) (io.ReadCloser, error) {
	r, err := o.client.BlobGet(ctx, o.ref, BlobOf(l))
	return r, o.unreadable(ctx, err)
}

// MayRead returns an error if the registry does not let the build read a layer. It reads nothing of it.
func (o *Source) MayRead(ctx context.Context, l ocispec.Descriptor) error {
	r, err := o.client.BlobHead(ctx, o.ref, BlobOf(l))
	if err != nil {
		return o.unreadable(ctx, err)
	}
	return r.Close()
}

// BlobOf converts a descriptor for the registry client.
func BlobOf(l ocispec.Descriptor) descriptor.Descriptor {
	return descriptor.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}
}

// IsForeign reports whether a layer is permanently stored outside of registries.
func IsForeign(l ocispec.Descriptor) bool {
	return strings.HasPrefix(l.MediaType, "application/vnd.oci.image.layer.nondistributable.") || l.MediaType == "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
}
