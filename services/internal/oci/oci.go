// Package oci parses image names, platforms and manifests, and augments images (see
// Augment). It does no I/O: documents are fetched through a Source of the caller. It
// implements the OCI image specification v1.1, whose types it uses, and for older images
// Docker's image manifest version 2, schema 2.
package oci

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Media types of Docker manifests and layers. Those of OCI are in image-spec.
const (
	TypeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	TypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	TypeDockerConfig   = "application/vnd.docker.container.image.v1+json"
	TypeDockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	// Layers that are EROFS images, which containerd 2.3 and later mounts.
	TypeErofsLayer     = "application/vnd.erofs.layer.v1"
	TypeErofsLayerZstd = TypeErofsLayer + "+zstd"
	TypeDockerSchema1  = "application/vnd.docker.distribution.manifest.v1+json"
	TypeDockerSigned1  = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

// MetaCode is the key in a fault's Meta of the distribution specification's error code, if
// the kind of the fault does not determine it.
const MetaCode = "oci-code"

// A Document is a manifest, an index or a config. Its digest is that of Bytes.
type Document struct {
	MediaType string
	Digest    digest.Digest
	Bytes     []byte
}

// Decode decodes a document, or another response of a registry, into v. It returns the
// error of Check before it allocates memory.
func Decode(raw []byte, v any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Check returns an error if a document is too large, or its JSON would use too much memory.
// It does not validate the syntax.
func Check(raw []byte) error {
	if len(raw) > limits.Document {
		return fmt.Errorf("it is larger than %d MiB", limits.Document>>20)
	}
	return bounded.Limits{Depth: limits.DocumentDepth, Values: limits.DocumentValues}.Check(raw)
}

// Annotations returns the annotations of a manifest or index, or nil if it has no annotations
// or is malformed.
func Annotations(d Document) map[string]string {
	var m struct {
		Annotations map[string]string `json:"annotations"`
	}
	if Decode(d.Bytes, &m) != nil {
		return nil
	}
	return m.Annotations
}

// NewDocument returns a Document with the digest of raw.
func NewDocument(mediaType string, raw []byte) Document {
	return Document{MediaType: mediaType, Digest: digest.FromBytes(raw), Bytes: raw}
}

// Classify returns the media type of a manifest or index. The document's own member takes
// precedence over header, its Content-Type. If neither is known, the type is derived from
// the content. Classify returns fault.Invalid for Docker schema 1 and for documents of
// other types.
func Classify(header string, raw []byte) (mediaType string, err error) {
	var probe struct {
		MediaType     string              `json:"mediaType"`
		SchemaVersion int                 `json:"schemaVersion"`
		Manifests     json.RawMessage     `json:"manifests"`
		Config        *ocispec.Descriptor `json:"config"`
	}
	if err := Decode(raw, &probe); err != nil {
		return "", fault.Invalid.New("The registry returned a document that is not an image manifest", err)
	}
	mediaType = probe.MediaType
	if mediaType == "" {
		mediaType, _, _ = cutMediaType(header)
	}
	switch {
	case probe.SchemaVersion == 1 || mediaType == TypeDockerSchema1 || mediaType == TypeDockerSigned1:
		e := fault.Invalid.Newf("The image has a Docker schema 1 manifest, which is not supported; push it again with a current engine")
		e.Meta = map[string]string{MetaCode: "UNSUPPORTED"}
		return "", e
	case IsIndex(mediaType) || IsManifest(mediaType):
		return mediaType, nil
	case probe.Manifests != nil:
		return ocispec.MediaTypeImageIndex, nil
	case probe.Config != nil && probe.Config.MediaType == TypeDockerConfig:
		return TypeDockerManifest, nil
	case probe.Config != nil:
		return ocispec.MediaTypeImageManifest, nil
	}
	return "", fault.Invalid.Newf("The registry returned a document of type %q, which is not an image manifest", fault.Quote(mediaType))
}

func cutMediaType(header string) (mediaType, params string, found bool) {
	before, after, found := bytes.Cut([]byte(header), []byte(";"))
	return string(bytes.TrimSpace(before)), string(after), found
}

// IsIndex reports whether a media type is that of an index.
func IsIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == TypeDockerIndex
}

// IsManifest reports whether a media type is that of an image manifest.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == TypeDockerManifest
}

// IsConfig reports whether a media type is that of a container image's config.
func IsConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == TypeDockerConfig
}

// ParseManifest parses an image manifest. Its layers are ordered lowest first. It returns
// fault.Invalid if the manifest is malformed or has too many layers.
func ParseManifest(d Document) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if err := Decode(d.Bytes, &m); err != nil {
		return m, malformed(d, err)
	}
	most := limits.ImageLayers
	if m.ArtifactType != "" { // for example an environment, which has one for each package
		most = limits.ArtifactLayers
	}
	if len(m.Layers) > most {
		return m, fault.Invalid.Newf("The image %s has %d layers; the limit is %d", d.Digest, len(m.Layers), most)
	}
	if err := check(&m.Config); err != nil {
		return m, malformed(d, fmt.Errorf("config: %w", err))
	}
	for i := range m.Layers {
		if err := check(&m.Layers[i]); err != nil {
			return m, malformed(d, fmt.Errorf("layer %d: %w", i, err))
		}
	}
	return m, nil
}

// ParseIndex parses an image index. It returns fault.Invalid if the index is malformed or
// has too many entries.
func ParseIndex(d Document) (ocispec.Index, error) {
	var x ocispec.Index
	if err := Decode(d.Bytes, &x); err != nil {
		return x, malformed(d, err)
	}
	if len(x.Manifests) > limits.IndexEntries {
		return x, fault.Invalid.Newf("The image index %s has %d entries; the limit is %d", d.Digest, len(x.Manifests), limits.IndexEntries)
	}
	for i := range x.Manifests {
		if err := check(&x.Manifests[i]); err != nil {
			return x, malformed(d, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	return x, nil
}

// check validates a descriptor and removes its inline data, which is not used and would be
// cached with the descriptor.
func check(d *ocispec.Descriptor) error {
	d.Data = nil
	if d.Size < 0 {
		return fmt.Errorf("negative size %d", d.Size)
	}
	return d.Digest.Validate()
}

func malformed(d Document, err error) error {
	return fault.Invalid.New(fmt.Sprintf("The manifest %s of the image is malformed", d.Digest), err)
}
