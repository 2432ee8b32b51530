package oci

import (
	"context"
	"fmt"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// layerTypes are the layers that can be taken from one image into another: what OCI
// calls them, and Docker.
var layerTypes = []struct{ oci, docker string }{
	{ocispec.MediaTypeImageLayerGzip, TypeDockerLayer},
	{ocispec.MediaTypeImageLayer, "application/vnd.docker.image.rootfs.diff.tar"},
	{ocispec.MediaTypeImageLayerZstd, "application/vnd.docker.image.rootfs.diff.tar.zstd"},
}

// layerType is what a manifest calls a layer; ofOCI is what OCI calls it, "" for a gzip'd
// tar.
func layerType(ofOCI, manifest string) string {
	if ofOCI == "" {
		ofOCI = ocispec.MediaTypeImageLayerGzip
	}
	for _, t := range layerTypes {
		if t.oci == ofOCI && manifest == TypeDockerManifest {
			return t.docker
		}
	}
	return ofOCI
}

// LayersOf are the layers that an image has for a platform, lowest first, for other
// images to be put on (see Addition): each with its digests and what OCI calls it. Nothing
// else of the image is used. fault.NotFound, with the platforms that there are, when it
// is not for the platform; fault.Invalid when it is no container image, malformed, or has
// a layer that only its own registry, or nobody, can hand on.
func LayersOf(ctx context.Context, src Source, root Document, p ocispec.Platform) ([]Layer, error) {
	src = &metered{Source: src, left: limits.ImageDocuments - len(root.Bytes)}
	doc, err := single(ctx, src, root, p)
	if err != nil {
		return nil, err
	}
	m, err := ParseManifest(doc)
	if err != nil {
		return nil, err
	}
	if t := m.Config.MediaType; !IsConfig(t) {
		return nil, fault.Invalid.Newf("%s is not a container image (its config is of type %q)", doc.Digest, fault.Quote(t))
	}
	raw, err := src.Config(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	var config ocispec.Image
	if err := Decode(raw, &config); err != nil {
		return nil, fault.Invalid.New(fmt.Sprintf("The config %s of the image is malformed", m.Config.Digest), err)
	}
	if !IsIndex(root.MediaType) && !isFor(config.Platform, p) {
		return nil, fault.NotFound.Newf("The image is not available for %s; it has %s", platforms.Format(p), printable(platforms.Format(config.Platform)))
	}
	return pairLayers(m, config.RootFS.DiffIDs)
}

// single is the image's manifest for a platform.
func single(ctx context.Context, src Source, root Document, p ocispec.Platform) (Document, error) {
	if !IsIndex(root.MediaType) {
		return root, nil
	}
	index, err := ParseIndex(root)
	if err != nil {
		return root, err
	}
	matching, err := matches(root, index, []ocispec.Platform{p})
	if err != nil {
		return root, err
	}
	return src.Manifest(ctx, index.Manifests[matching[0]].Digest)
}

// isFor says whether an image that has no index is for a platform. One that does not say
// is for every one.
func isFor(has, wanted ocispec.Platform) bool {
	return has.Architecture == "" || platforms.Any(wanted).Match(has)
}

// pairLayers gives each layer of a manifest the digest that it has uncompressed.
func pairLayers(m ocispec.Manifest, diffIDs []digest.Digest) ([]Layer, error) {
	if len(diffIDs) != len(m.Layers) {
		return nil, fault.Invalid.Newf("The image has %d layers, but its config %s has %d", len(m.Layers), m.Config.Digest, len(diffIDs))
	}
	out := make([]Layer, len(m.Layers))
	for i, l := range m.Layers {
		t := plainType(l)
		if t == "" {
			return nil, fault.Invalid.Newf("The layer %s of the image is of the type %q, which cannot be put on another image", l.Digest, fault.Quote(l.MediaType))
		}
		if err := diffIDs[i].Validate(); err != nil {
			return nil, fault.Invalid.New(fmt.Sprintf("The config %s of the image is malformed", m.Config.Digest), err)
		}
		out[i] = Layer{GzipDigest: l.Digest, Size: l.Size, TarDigest: diffIDs[i], MediaType: t}
	}
	return out, nil
}

// IsLayer says whether a layer is one that every engine can read, and lies with its image.
func IsLayer(l ocispec.Descriptor) bool { return plainType(l) != "" }

// plainType is what OCI calls a layer; "" for one that lies elsewhere, or is nothing that
// every engine can read.
func plainType(l ocispec.Descriptor) string {
	for _, t := range layerTypes {
		if len(l.URLs) == 0 && (l.MediaType == t.oci || l.MediaType == t.docker) {
			return t.oci
		}
	}
	return ""
}
