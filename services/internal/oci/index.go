package oci

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A Part is an image or index to include in an index.
type Part struct {
	// Image is a manifest, or an index whose entries are copied.
	Image Document
	// Platform is the platform of a manifest.
	Platform ocispec.Platform
}

// featureErofs is the feature of engines that mount EROFS layers. containerd uses its EROFS snapshotter
// for images that require it, and other engines reject them.
const featureErofs = "erofs"

// addFeatures adds the features that the layers of a manifest require from an engine.
func (p *Part) addFeatures() error {
	var m struct{ Layers []ocispec.Descriptor }
	if err := Decode(p.Image.Bytes, &m); err != nil {
		return malformed(p.Image, err)
	}
	for _, l := range m.Layers {
		if IsErofs(l) {
			p.Platform.OSFeatures = WithErofs(p.Platform.OSFeatures)
		}
	}
	return nil
}

// WithErofs returns features of a platform with that of engines that mount EROFS layers.
func WithErofs(features []string) []string {
	if slices.Contains(features, featureErofs) {
		return features
	}
	return append(slices.Clone(features), featureErofs)
}

// NewIndex returns an index of images in one repository. Equal input gives equal bytes. It
// returns fault.Invalid if a part is malformed.
func NewIndex(parts []Part, annotations map[string]string) (Document, error) {
	x := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Annotations: annotations}
	for _, p := range parts {
		if !IsIndex(p.Image.MediaType) {
			if err := p.addFeatures(); err != nil {
				return Document{}, err
			}
			x.Manifests = append(x.Manifests, ocispec.Descriptor{
				MediaType: p.Image.MediaType, Digest: p.Image.Digest, Size: int64(len(p.Image.Bytes)), Platform: &p.Platform,
			})
			continue
		}
		inner, err := ParseIndex(p.Image)
		if err != nil {
			return Document{}, err
		}
		x.Manifests = append(x.Manifests, inner.Manifests...)
	}
	raw, err := json.Marshal(x)
	if err != nil {
		return Document{}, fmt.Errorf("encoding an index: %w", err)
	}
	return NewDocument(ocispec.MediaTypeImageIndex, raw), nil
}
