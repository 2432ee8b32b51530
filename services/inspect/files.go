package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/inspect/listing"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// ListLayerFiles returns a page of the files that a layer adds and removes. The manifest is read
// from its registry with each call, also if the listing is cached, so that a caller who may no
// longer read the image gets no listing.
func (s *Service) ListLayerFiles(ctx context.Context, req *inspectv1.ListLayerFilesRequest) (*inspectv1.ListLayerFilesResponse, error) {
	image, platform, err := parse(req)
	if err != nil {
		return nil, err
	}
	d, query, err := parseListing(req)
	if err != nil {
		return nil, err
	}
	who, err := s.admit(ctx, req.GetImage())
	if err != nil {
		return nil, err
	}
	l, layer, err := s.findLayer(ctx, who, image, platform, d)
	if err != nil {
		return nil, err
	}
	page, err := s.list(ctx, who, l, layer, query)
	if err != nil {
		return nil, err
	}
	return listResponse(layer, query, page), nil
}

func parseListing(req *inspectv1.ListLayerFilesRequest) (digest.Digest, listing.Query, error) {
	if req.GetLayer() == "" {
		return "", listing.Query{}, fault.Invalid.Newf("layer is missing: it is the digest of one of the image's layers")
	}
	d, err := digest.Parse(req.GetLayer())
	if err != nil {
		return "", listing.Query{}, fault.Invalid.New("layer must be a digest such as sha256:… with 64 hex digits", err)
	}
	query, err := listing.NewQuery(listing.Options{Filter: req.GetFilter(), Sort: req.GetSort(), PageToken: req.GetPageToken(), Max: int(req.GetMax())})
	return d, query, err
}

// findLayer returns the reader of an image and its layer with a digest. It returns fault.NotFound
// if the image has no such layer, and fault.Invalid if its files cannot be listed.
func (s *Service) findLayer(ctx context.Context, who caller.ID, image oci.Reference, platform *ocispec.Platform, d digest.Digest) (imageReader, ocispec.Descriptor, error) {
	ctx, done := s.deps.Control.Documents().Hold(ctx)
	defer done()
	l, err := s.openImage(ctx, who, image)
	if err != nil {
		return l, ocispec.Descriptor{}, err
	}
	layers, err := l.layers(ctx, platform)
	if err != nil {
		return l, ocispec.Descriptor{}, err
	}
	i := slices.IndexFunc(layers, func(layer ocispec.Descriptor) bool { return layer.Digest == d })
	if i < 0 {
		return l, ocispec.Descriptor{}, fault.NotFound.Newf("The image has no layer %s; `slipway inspect` lists those that it has", d)
	}
	return l, layers[i], checkListable(layers[i])
}

// layers returns the layers of the image, or of the image that an index has for a platform.
func (l imageReader) layers(ctx context.Context, platform *ocispec.Platform) ([]ocispec.Descriptor, error) {
	doc, err := l.manifest(ctx, l.image)
	if err == nil && oci.IsIndex(doc.MediaType) {
		doc, err = l.selectManifest(ctx, doc, platform)
	}
	if err != nil {
		return nil, err
	}
	if !oci.IsManifest(doc.MediaType) {
		return nil, fault.Invalid.Newf("%s has the media type %q, but files are only listed for OCI images and Docker images of schema version 2", doc.Digest, fault.Quote(doc.MediaType))
	}
	m, err := oci.ParseManifest(doc)
	return m.Layers, err
}

// selectManifest returns the manifest that an index has for a platform.
func (l imageReader) selectManifest(ctx context.Context, index oci.Document, platform *ocispec.Platform) (oci.Document, error) {
	x, err := oci.ParseIndex(index)
	if err != nil {
		return oci.Document{}, err
	}
	entry, err := selectEntry(x, platform)
	if err == nil && entry == nil {
		err = fault.NotFound.Newf("The image index %s is empty", index.Digest)
	}
	if err != nil {
		return oci.Document{}, err
	}
	child := l.image
	child.Tag, child.Digest = "", entry.Digest
	return l.manifest(ctx, child)
}

// listResponse returns the response for a page.
func listResponse(layer ocispec.Descriptor, q listing.Query, p listing.Page) *inspectv1.ListLayerFilesResponse {
	out := &inspectv1.ListLayerFilesResponse{
		Digest: proto.String(layer.Digest.String()), Size: proto.Float64(float64(layer.Size)),
		Entries: proto.Int32(int32(p.Entries)), Unpacked: proto.Float64(float64(p.Bytes)), NextPageToken: rpc.Optional(p.Next),
	}
	if q.IsFiltered() {
		out.Matching = proto.Int32(int32(p.Matching))
	}
	for _, f := range p.Files {
		file := &inspectv1.LayerFile{Path: proto.String(f.Path), Type: proto.String(f.Kind.String()), LinkTarget: rpc.Optional(f.Link)}
		if f.Kind == listing.Regular {
			file.Size = proto.Float64(float64(f.Size))
		}
		if f.Kind != listing.Removed && f.Kind != listing.Emptied {
			file.Mode = proto.String(fmt.Sprintf("%04o", f.Mode))
		}
		out.Files = append(out.Files, file)
	}
	return out
}
