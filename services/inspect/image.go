package inspect

import (
	"context"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/regclient/regclient"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// InspectImage answers one image, or the entries of a multi-platform index.
func (s *Service) InspectImage(ctx context.Context, req *inspectv1.InspectImageRequest) (*inspectv1.InspectImageResponse, error) {
	image, platform, err := parse(req)
	if err != nil {
		return nil, err
	}
	claim, err := caller.ReadClaim(req.GetImage())
	if err != nil {
		return nil, err
	}
	who, err := s.gate().Identify(ctx, claim)
	if err != nil {
		return nil, err
	}
	access, err := s.deps.Keychain.Access(ctx, caller.Of(who), image.Registry, image.Repository)
	if err != nil {
		return nil, err
	}
	if err := s.charge(ctx, caller.Of(who)); err != nil {
		return nil, err
	}
	ctx, done := s.deps.Control.Documents().Hold(ctx)
	defer done()
	l := look{client: s.deps.Control.For(access, image.Registry), access: access, documents: s.deps.Control.Documents(), image: image}
	doc, err := l.manifest(ctx, image)
	if err != nil {
		return nil, err
	}
	if oci.IsIndex(doc.mediaType) {
		return s.index(ctx, l, doc, platform)
	}
	return s.container(ctx, l, doc)
}

// charge counts an inspection as a pull: it costs as much, and the registry that
// is asked cannot tell them apart.
func (s *Service) charge(ctx context.Context, who caller.ID) error {
	client, limit := rpc.CallFrom(ctx).Client(), s.deps.PullsAnonymous
	if !who.IsAnonymous() {
		client, limit = "user:"+who.User(), s.deps.PullsUser
	}
	_, err := s.deps.Limiter.Charge(ctx, "pulls", client, limit, 1)
	return err
}

func parse(req *inspectv1.InspectImageRequest) (oci.Reference, *oci.Platform, error) {
	name := req.GetImage().GetContainerImage()
	if name == "" {
		return oci.Reference{}, nil, fault.Invalid.Newf("containerImage is missing")
	}
	image, err := oci.ParseReference(name)
	if e, ok := fault.As(err); ok {
		return image, nil, fault.Invalid.New("containerImage: "+e.Public, e.Cause)
	}
	if req.GetPlatform() == "" {
		return image, nil, nil
	}
	p, err := oci.ParsePlatform(req.GetPlatform())
	if e, ok := fault.As(err); ok {
		return image, nil, fault.Invalid.New("platform: "+e.Public, e.Cause)
	}
	return image, &p, nil
}

// look reads one image's documents with one access.
type look struct {
	client    *regclient.RegClient
	documents *upstream.Documents
	access    upstream.Access
	image     oci.Reference
}

// fault says what an error of the registry's means for the caller.
func (l look) fault(err error) error {
	return l.access.Explain(upstream.ControlFault(l.image.Registry, err))
}

// document is a manifest, and the type it was found to have.
type document struct {
	mediaType string
	digest    digest.Digest
	raw       []byte
}

func (l look) manifest(ctx context.Context, image oci.Reference) (document, error) {
	r, err := ref.New(image.String())
	if err != nil {
		return document{}, fault.Invalid.New("containerImage is not a valid image name", err)
	}
	m, err := l.client.ManifestGet(ctx, r)
	if err != nil {
		return document{}, l.fault(err)
	}
	raw, err := m.RawBody()
	if err != nil {
		return document{}, l.fault(err)
	}
	d := m.GetDescriptor()
	return document{d.MediaType, d.Digest, raw}, nil
}

func (l look) config(ctx context.Context, d oci.Descriptor) (imageConfig, error) {
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
	if err := oci.Decode(raw, &c); err != nil {
		return c, fault.Invalid.New("The config of the image is malformed", err)
	}
	return c, nil
}

func (s *Service) index(ctx context.Context, l look, doc document, platform *oci.Platform) (*inspectv1.InspectImageResponse, error) {
	x, err := oci.ParseIndex(oci.Document{Digest: doc.digest, Bytes: doc.raw})
	if err != nil {
		return nil, err
	}
	if platform == nil {
		return &inspectv1.InspectImageResponse{Index: indexOf(doc, x)}, nil
	}
	for _, e := range x.Manifests {
		if e.Platform != nil && platform.Matches(*e.Platform) {
			child := l.image
			child.Tag, child.Digest = "", e.Digest
			entry, err := l.manifest(ctx, child)
			if err != nil {
				return nil, err
			}
			return s.container(ctx, l, entry)
		}
	}
	return nil, fault.NotFound.Newf("The image is not available for %s", platform)
}

func (s *Service) container(ctx context.Context, l look, doc document) (*inspectv1.InspectImageResponse, error) {
	out := &inspectv1.ContainerInspection{
		Registry:  proto.String(l.image.Registry),
		HostName:  proto.String(s.deps.Upstream.BaseURL(l.image.Registry)),
		ImageName: proto.String(l.image.Repository),
		Reference: proto.String(l.image.Identifier()),
		Digest:    proto.String(doc.digest.String()),
		V1:        proto.Bool(false),
		V2:        proto.Bool(doc.mediaType == oci.TypeDockerManifest),
		Oci:       proto.Bool(doc.mediaType == oci.TypeManifest),
	}
	if strings.HasPrefix(doc.mediaType, "application/vnd.docker.distribution.manifest.v1+") {
		out.V1 = proto.Bool(true)
		err := fillSchema1(out, doc)
		return &inspectv1.InspectImageResponse{Container: out}, err
	}
	m, err := oci.ParseManifest(oci.Document{Digest: doc.digest, Bytes: doc.raw})
	if err != nil {
		return nil, err
	}
	c, err := l.config(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	out.Config = c.message()
	out.Manifest = manifestOf(doc, m)
	return &inspectv1.InspectImageResponse{Container: out}, nil
}
