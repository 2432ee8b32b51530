package bundle

import (
	"encoding/json"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/environment"
)

// Media types of Docker.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// typeSif is the media type of the file of a Singularity image.
const typeSif = "application/vnd.sylabs.sif.layer.v1.sif"

// A manifest is a manifest or an index with what it refers to.
type manifest struct {
	ocispec.Descriptor
	// children are the manifests of an index.
	children []ocispec.Descriptor
	// config is the config of an image; nil for an index.
	config *ocispec.Descriptor
	// blobs are the config and the layers.
	blobs []ocispec.Descriptor
	// subject is the manifest that it refers to; nil for none.
	subject *ocispec.Descriptor
	// height is the length of the longest chain of children.
	height int
}

// parseManifest parses a manifest of an image or of an artifact, or an index. d is its descriptor.
func parseManifest(d ocispec.Descriptor, raw []byte) (manifest, error) {
	var doc struct {
		MediaType    string               `json:"mediaType"`
		ArtifactType string               `json:"artifactType"`
		Config       *ocispec.Descriptor  `json:"config"`
		Layers       []ocispec.Descriptor `json:"layers"`
		Manifests    []ocispec.Descriptor `json:"manifests"`
		Subject      *ocispec.Descriptor  `json:"subject"`
		Annotations  map[string]string    `json:"annotations"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return manifest{}, fmt.Errorf("the manifest %s is not JSON: %w", d.Digest, err)
	}
	if doc.MediaType != "" {
		d.MediaType = doc.MediaType
	}
	out := manifest{Descriptor: d, subject: doc.Subject}
	out.ArtifactType, out.Annotations = doc.ArtifactType, doc.Annotations
	switch d.MediaType {
	case ocispec.MediaTypeImageIndex, dockerList:
		out.children = doc.Manifests
	case ocispec.MediaTypeImageManifest, dockerManifest:
		if doc.Config == nil {
			return manifest{}, fmt.Errorf("the manifest %s has no config", d.Digest)
		}
		if out.ArtifactType == "" {
			out.ArtifactType = doc.Config.MediaType
		}
		out.config, out.blobs = doc.Config, append([]ocispec.Descriptor{*doc.Config}, doc.Layers...)
	default:
		return manifest{}, fmt.Errorf("the manifest %s has the media type %q, which is not supported", d.Digest, d.MediaType)
	}
	return out, out.check()
}

// check checks the descriptors of a manifest.
func (m manifest) check() error {
	most := limits.ImageLayers
	if m.ArtifactType == environment.Type { // it has a layer for each package
		most = limits.ArtifactLayers
	}
	if len(m.children) > limits.IndexEntries || len(m.blobs) > most+1 {
		return fmt.Errorf("the manifest %s has more than %d manifests or %d layers", m.Digest, limits.IndexEntries, most)
	}
	for _, d := range m.children {
		if d.Size < 0 || d.Size > limits.Document {
			return fmt.Errorf("the manifest %s has %d bytes, and the limit is %d", d.Digest, d.Size, limits.Document)
		}
	}
	for _, list := range [][]ocispec.Descriptor{m.children, m.blobs} {
		for _, d := range list {
			if _, err := blobPath(d.Digest); err != nil || d.Size < 0 {
				return fmt.Errorf("the manifest %s refers to a blob with the size %d and the digest %q; only sha256 is supported", m.Digest, d.Size, d.Digest)
			}
		}
	}
	return nil
}

// isSif reports whether it is a Singularity image.
func (m manifest) isSif() bool {
	return slices.ContainsFunc(m.blobs, func(d ocispec.Descriptor) bool { return d.MediaType == typeSif })
}

// isIndex reports whether it is an index.
func (m manifest) isIndex() bool { return m.config == nil }
