package inspect

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/mount/environment"
)

// InspectImage returns an image, and for a multi-platform image also its index. If the request
// sets referrers, it also returns the referrers of both.
func (s *Service) InspectImage(ctx context.Context, req *inspectv1.InspectImageRequest) (*inspectv1.InspectImageResponse, error) {
	image, platform, err := parse(req)
	if err != nil {
		return nil, err
	}
	who, err := s.admit(ctx, req.GetImage())
	if err != nil {
		return nil, err
	}
	ctx, done := s.deps.Control.Documents().Hold(ctx)
	defer done()
	l, err := s.openImage(ctx, who, image)
	if err != nil {
		return nil, err
	}
	doc, err := l.manifest(ctx, l.image)
	if err != nil {
		return nil, err
	}
	out, err := s.describe(ctx, l, doc, platform)
	if err == nil && req.GetReferrers() {
		err = l.addReferrers(ctx, out, doc.Digest)
	}
	return out, err
}

// describe returns the contents of a document: an index with one of its images, or an image.
func (s *Service) describe(ctx context.Context, l imageReader, doc oci.Document, platform *ocispec.Platform) (*inspectv1.InspectImageResponse, error) {
	if oci.IsIndex(doc.MediaType) {
		return s.index(ctx, l, doc, platform)
	}
	out, of, err := s.container(ctx, l, doc)
	if err == nil && platform != nil && of.Architecture != "" && !platforms.NewMatcher(*platform).Match(of) {
		err = errPlatform(*platform, []ocispec.Platform{of})
	}
	return &inspectv1.InspectImageResponse{Container: out}, err
}

// admit authenticates the caller and charges a pull. An inspection costs as much as a pull, and
// registries do not distinguish them.
func (s *Service) admit(ctx context.Context, q *inspectv1.ImageQuery) (caller.ID, error) {
	claim, err := caller.ReadClaim(q)
	if err != nil {
		return caller.ID{}, err
	}
	id, err := s.gate().Identify(ctx, claim)
	if err != nil {
		return caller.ID{}, err
	}
	who := caller.Of(id)
	return who, s.charge(ctx, who, 1)
}

// charge charges pulls to a caller.
func (s *Service) charge(ctx context.Context, who caller.ID, pulls int) error {
	_, err := s.deps.Limiter.ChargeCaller(ctx, ratelimit.Pulls, who.Charged(ctx), pulls)
	return err
}

// An imageRequest is a request that names an image and a platform.
type imageRequest interface {
	GetImage() *inspectv1.ImageQuery
	GetPlatform() string
}

// parse returns the image and the platform of a request. The platform is nil if the request has
// none.
func parse(req imageRequest) (oci.Reference, *ocispec.Platform, error) {
	return parseImage("containerImage", req.GetImage().GetContainerImage(), req.GetPlatform())
}

// parseImage is parse for an image that the request names in a field.
func parseImage(field, name, platform string) (oci.Reference, *ocispec.Platform, error) {
	if name == "" {
		return oci.Reference{}, nil, fault.Invalid.Newf("%s is missing", field)
	}
	image, err := oci.ParseReference(name)
	if e, ok := fault.As(err); ok {
		return image, nil, fault.Invalid.New(field+": "+e.Public, e.Cause)
	}
	if platform == "" {
		return image, nil, nil
	}
	p, err := oci.ParsePlatform(platform)
	if e, ok := fault.As(err); ok {
		return image, nil, fault.Invalid.New("platform: "+e.Public, e.Cause)
	}
	return image, &p, nil
}

// An imageReader reads the documents of one image with one login.
type imageReader struct {
	client    *regclient.RegClient
	documents *upstream.Documents
	access    upstream.Access
	// image is read; requested is its name in the request. They differ for an issued name.
	image, requested oci.Reference
	// generated holds the documents of an augmented image, which no registry stores, by digest.
	generated map[digest.Digest]oci.Document
	// sources holds the digests of the upstream manifests of generated ones.
	sources map[string]string
	// plan is the plan of an issued name; nil for any other image.
	plan *containerv1.Plan
}

// fault converts an error of the registry to a fault for the caller. An unreachable registry is
// an error of the request, unless it is the service's own registry.
func (l imageReader) fault(err error) error {
	err = l.access.Explain(upstream.ControlFault(l.image.Registry, err))
	e, ok := fault.As(err)
	if ok && l.access.Scope != caller.BuildScope && upstream.IsRegistry(e) && !errors.Is(e, fault.Exhausted) {
		return fault.Invalid.New("containerImage cannot be read now: "+e.Public, e)
	}
	return err
}

// manifest returns the manifest or index of an image.
func (l imageReader) manifest(ctx context.Context, image oci.Reference) (oci.Document, error) {
	if doc, ok := l.generated[image.Digest]; ok {
		return doc, nil
	}
	r, err := ref.New(image.String())
	if err != nil {
		return oci.Document{}, fault.Invalid.New("containerImage is not a valid image name", err)
	}
	m, err := l.client.ManifestGet(ctx, r)
	if err != nil {
		return oci.Document{}, l.fault(err)
	}
	raw, err := m.RawBody()
	if err != nil {
		return oci.Document{}, l.fault(err)
	}
	d := m.GetDescriptor()
	return oci.Document{MediaType: d.MediaType, Digest: d.Digest, Bytes: raw}, nil
}

// config returns the config of an image.
func (l imageReader) config(ctx context.Context, d ocispec.Descriptor) (imageConfig, error) {
	if c, ok, err := l.generatedConfig(d); ok {
		return c, err
	}
	var c imageConfig
	r, err := ref.New(l.image.String())
	if err != nil {
		return c, err
	}
	b, err := l.client.BlobGet(ctx, r, descriptor.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size})
	if err != nil {
		return c, l.fault(err)
	}
	defer func() { _ = b.Close() }() // it was only read
	raw, release, err := l.documents.Read(ctx, b, -1)
	if err != nil {
		return c, l.fault(err)
	}
	defer release()
	if d.Digest.Algorithm().FromBytes(raw) != d.Digest {
		return c, fault.Invalid.Newf("The config of the image does not have its digest %s", d.Digest)
	}
	if d.MediaType == environment.TypeConfig {
		return mountedConfig(raw)
	}
	if err := oci.Decode(raw, &c); err != nil {
		return c, fault.Invalid.New("The config of the image is malformed", err)
	}
	return c, nil
}

// index returns an index with its image for a platform; a nil platform means the default.
func (s *Service) index(ctx context.Context, l imageReader, doc oci.Document, platform *ocispec.Platform) (*inspectv1.InspectImageResponse, error) {
	x, err := oci.ParseIndex(doc)
	if err != nil {
		return nil, err
	}
	entry, err := selectEntry(x, platform)
	if err != nil {
		return nil, err
	}
	out := &inspectv1.InspectImageResponse{}
	if entry != nil {
		child := l.image
		child.Tag, child.Digest = "", entry.Digest
		found, err := l.manifest(ctx, child)
		if err == nil && oci.IsManifest(found.MediaType) {
			out.Container, _, err = s.container(ctx, l, found)
		}
		// An index is returned even if its default image is missing. A missing image for a
		// requested platform is an error.
		if err != nil && (platform != nil || !errors.Is(err, fault.NotFound)) {
			return nil, err
		}
	}
	out.Index = indexOf(doc, x)
	return out, nil
}

// selectEntry returns the entry of an index for a platform, or fault.NotFound with the available
// platforms. For a nil platform it returns the entry for the default platform, or else the first
// entry; nil for an empty index.
func selectEntry(x ocispec.Index, platform *ocispec.Platform) (*ocispec.Descriptor, error) {
	want := oci.DefaultPlatform
	if platform != nil {
		want = *platform
	}
	fitting := oci.Matching(x, want)
	switch {
	case len(fitting) > 0:
		return &x.Manifests[fitting[0]], nil
	case platform != nil:
		var there []ocispec.Platform
		for _, e := range x.Manifests {
			if e.Platform != nil {
				there = append(there, *e.Platform)
			}
		}
		return nil, errPlatform(want, there)
	case len(x.Manifests) == 0:
		return nil, nil
	}
	return &x.Manifests[0], nil
}

// errPlatform returns the fault for an image that is not available for a platform.
func errPlatform(want ocispec.Platform, there []ocispec.Platform) error {
	var names []string
	for _, p := range there {
		if name := platforms.Format(p); p.OS != "unknown" && !slices.Contains(names, name) { // attestations are for unknown/unknown
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return fault.NotFound.Newf("The image is not available for %s, and does not state its platforms", platforms.Format(want)).WithCode(fault.ImagePlatform)
	}
	return fault.NotFound.Newf("The image is not available for %s; it is for %s", platforms.Format(want), strings.Join(names, ", ")).WithCode(fault.ImagePlatform)
}

// container returns an image, and the platform in its config.
func (s *Service) container(ctx context.Context, l imageReader, doc oci.Document) (*inspectv1.ContainerInspection, ocispec.Platform, error) {
	out := &inspectv1.ContainerInspection{
		Registry:  proto.String(l.requested.Registry),
		HostName:  proto.String(s.deps.Upstream.BaseURL(l.requested.Registry)),
		ImageName: proto.String(l.requested.Repository),
		Reference: proto.String(l.requested.Identifier()),
		Digest:    proto.String(doc.Digest.String()),
		V1:        proto.Bool(false),
		V2:        proto.Bool(doc.MediaType == oci.TypeDockerManifest),
		Oci:       proto.Bool(doc.MediaType == ocispec.MediaTypeImageManifest),
	}
	if doc.MediaType == oci.TypeDockerSchema1 || doc.MediaType == oci.TypeDockerSigned1 {
		out.V1 = proto.Bool(true)
		err := fillSchema1(out, doc)
		return out, ocispec.Platform{OS: "linux", Architecture: out.GetConfig().GetArchitecture()}, err
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return nil, ocispec.Platform{}, err
	}
	c, err := l.config(ctx, m.Config)
	if err != nil {
		return nil, ocispec.Platform{}, err
	}
	out.Config = c.message()
	out.Manifest = manifestOf(doc, m)
	return out, ocispec.Platform{OS: cmp.Or(c.OS, "linux"), Architecture: c.Architecture, Variant: c.Variant}, nil
}
