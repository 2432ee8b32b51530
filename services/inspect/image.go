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
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// InspectImage returns one image and, of a multi-platform image, also its index, and what
// refers to them if that is wanted.
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
	l, err := s.lookAt(ctx, who, image)
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

// describe returns what a document is: an index, with an image of it, or an image.
func (s *Service) describe(ctx context.Context, l look, doc oci.Document, platform *ocispec.Platform) (*inspectv1.InspectImageResponse, error) {
	if oci.IsIndex(doc.MediaType) {
		return s.index(ctx, l, doc, platform)
	}
	out, of, err := s.container(ctx, l, doc)
	if err == nil && platform != nil && of.Architecture != "" && !platforms.NewMatcher(*platform).Match(of) {
		err = lacks(*platform, []ocispec.Platform{of})
	}
	return &inspectv1.InspectImageResponse{Container: out}, err
}

// admit lets a caller in, and counts an inspection as a pull: it costs as much, and the
// registry that is asked cannot tell them apart.
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
	client, limit := s.account(ctx, who)
	_, err = s.deps.Limiter.Charge(ctx, "pulls", client, limit, 1)
	return who, err
}

// account is under which name a caller's pulls are counted, and how many there may be.
func (s *Service) account(ctx context.Context, who caller.ID) (client string, limit ratelimit.Limit) {
	if who.IsAnonymous() {
		return rpc.CallFrom(ctx).Client(), s.deps.PullsAnonymous
	}
	return "user:" + who.User(), s.deps.PullsUser
}

// asked is what every call says of the image that it is about.
type asked interface {
	GetImage() *inspectv1.ImageQuery
	GetPlatform() string
}

func parse(req asked) (oci.Reference, *ocispec.Platform, error) {
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
	// image is where they are read, shown the name that was given.
	image, shown oci.Reference
	// made are documents that exist only here, by digest.
	made map[digest.Digest]oci.Document
	// plan is what a name stands for that this service gave out; nil for any other.
	plan *containerv1.Plan
}

// fault says what an error of the registry's means for the caller.
func (l look) fault(err error) error {
	return l.access.Explain(upstream.ControlFault(l.image.Registry, err))
}

func (l look) manifest(ctx context.Context, image oci.Reference) (oci.Document, error) {
	if doc, ok := l.made[image.Digest]; ok {
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

func (l look) config(ctx context.Context, d ocispec.Descriptor) (imageConfig, error) {
	if c, ok, err := l.madeConfig(d); ok {
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
	if err := oci.Decode(raw, &c); err != nil {
		return c, fault.Invalid.New("The config of the image is malformed", err)
	}
	return c, nil
}

// index returns an index, and the image of it that was asked for, or that most ask for.
func (s *Service) index(ctx context.Context, l look, doc oci.Document, platform *ocispec.Platform) (*inspectv1.InspectImageResponse, error) {
	x, err := oci.ParseIndex(doc)
	if err != nil {
		return nil, err
	}
	entry, err := choose(x, platform)
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
		// The index is there, whatever its entries are; but who asks for one wants that.
		if err != nil && (platform != nil || !errors.Is(err, fault.NotFound)) {
			return nil, err
		}
	}
	out.Index = indexOf(doc, x)
	return out, nil
}

// choose picks the entry for a platform; without one that for the default platform, else
// the first; nil for none. fault.NotFound names the platforms that there are.
func choose(x ocispec.Index, platform *ocispec.Platform) (*ocispec.Descriptor, error) {
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
		return nil, lacks(want, there)
	case len(x.Manifests) == 0:
		return nil, nil
	}
	return &x.Manifests[0], nil
}

// lacks says that an image is not available for a platform, and for which it is.
func lacks(want ocispec.Platform, there []ocispec.Platform) error {
	var names []string
	for _, p := range there {
		if name := platforms.Format(p); p.OS != "unknown" && !slices.Contains(names, name) { // attestations are for unknown/unknown
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return fault.NotFound.Newf("The image is not available for %s, and does not say for which platforms it is", platforms.Format(want))
	}
	return fault.NotFound.Newf("The image is not available for %s; it is for %s", platforms.Format(want), strings.Join(names, ", "))
}

// container returns one image, and the platform that it says it is for.
func (s *Service) container(ctx context.Context, l look, doc oci.Document) (*inspectv1.ContainerInspection, ocispec.Platform, error) {
	out := &inspectv1.ContainerInspection{
		Registry:  proto.String(l.shown.Registry),
		HostName:  proto.String(s.deps.Upstream.BaseURL(l.shown.Registry)),
		ImageName: proto.String(l.shown.Repository),
		Reference: proto.String(l.shown.Identifier()),
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
