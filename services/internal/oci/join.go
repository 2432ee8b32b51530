package oci

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Part is an image that goes into an index.
type Part struct {
	// Image is a manifest, or an index whose entries are taken over.
	Image Document
	// Platform is what a manifest runs on.
	Platform ocispec.Platform
}

// Join makes an index over images of one repository. The same input gives the
// same bytes. fault.Invalid when a part is malformed.
func Join(parts []Part, annotations map[string]string) (Document, error) {
	x := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Annotations: annotations}
	for _, p := range parts {
		if !IsIndex(p.Image.MediaType) {
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
		return Document{}, fmt.Errorf("writing an index: %w", err)
	}
	return NewDocument(ocispec.MediaTypeImageIndex, raw), nil
}
