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

// layerTypes are the media types, of OCI and of Docker, of layers that can be added to
// another image.
var layerTypes = []struct{ oci, docker string }{
	{ocispec.MediaTypeImageLayerGzip, TypeDockerLayer},
	{ocispec.MediaTypeImageLayer, "application/vnd.docker.image.rootfs.diff.tar"},
	{ocispec.MediaTypeImageLayerZstd, "application/vnd.docker.image.rootfs.diff.tar.zstd"},
}

// layerType returns the media type of a layer in a manifest of the given type. ofOCI is the
// layer's OCI media type, or "" for a tar archive with gzip.
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

// LayersOf returns the layers of an image for a platform, lowest first, for use in an
// Augmentation. It returns fault.NotFound, with the available platforms, if the image is
// not available for the platform. It returns fault.Invalid if root is malformed or not a
// container image, or has a layer that must not be distributed or has an unsupported type.
func LayersOf(ctx context.Context, src Source, root Document, p ocispec.Platform) ([]Layer, error) {
	src = &meteredSource{Source: src, left: limits.ImageDocuments - len(root.Bytes)}
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
	if !IsIndex(root.MediaType) && !isForPlatform(config.Platform, p) {
		return nil, fault.NotFound.Newf("The image is not available for %s; it has %s", platforms.Format(p), printable(platforms.Format(config.Platform)))
	}
	return pairLayers(m, config.RootFS.DiffIDs)
}

// single returns the manifest of an image for a platform.
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

// isForPlatform reports whether an image without an index is for a platform. An image
// without an architecture is for all.
func isForPlatform(has, wanted ocispec.Platform) bool {
	has.OSFeatures = nil // features do not matter
	return has.Architecture == "" || platforms.Any(wanted).Match(has)
}

// pairLayers returns the layers of a manifest with the digests of their uncompressed content.
func pairLayers(m ocispec.Manifest, diffIDs []digest.Digest) ([]Layer, error) {
	if len(diffIDs) != len(m.Layers) {
		return nil, fault.Invalid.Newf("The image has %d layers, but its config %s has %d", len(m.Layers), m.Config.Digest, len(diffIDs))
	}
	out := make([]Layer, len(m.Layers))
	for i, l := range m.Layers {
		t := plainType(l)
		if t == "" {
			return nil, fault.Invalid.Newf("The layer %s of the image has the type %q, which cannot be added to another image", l.Digest, fault.Quote(l.MediaType))
		}
		if err := diffIDs[i].Validate(); err != nil {
			return nil, fault.Invalid.New(fmt.Sprintf("The config %s of the image is malformed", m.Config.Digest), err)
		}
		out[i] = Layer{GzipDigest: l.Digest, Size: l.Size, TarDigest: diffIDs[i], MediaType: t}
	}
	return out, nil
}

// IsLayer reports whether a layer has a media type that all engines support, and is stored
// with its image.
func IsLayer(l ocispec.Descriptor) bool { return plainType(l) != "" }

// IsErofs reports whether a layer is an EROFS image that is stored with its image.
func IsErofs(l ocispec.Descriptor) bool {
	return len(l.URLs) == 0 && (l.MediaType == TypeErofsLayer || l.MediaType == TypeErofsLayerZstd)
}

// plainType returns the OCI media type of a layer, or "" if IsLayer is false.
func plainType(l ocispec.Descriptor) string {
	for _, t := range layerTypes {
		if len(l.URLs) == 0 && (l.MediaType == t.oci || l.MediaType == t.docker) {
			return t.oci
		}
	}
	return ""
}
