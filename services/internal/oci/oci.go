// Package oci knows image names, platforms, manifests and how to put something
// on top of an image (see Augment). It is pure: what has to be fetched comes
// through the Source that a caller passes in. The truth is the OCI image
// specification v1.1, whose types are used as they are, and, for images made before it, Docker's image manifest
// version 2, schema 2.
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

// Media types of Docker's manifests and layers; those of OCI are in image-spec.
const (
	TypeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	TypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	TypeDockerConfig   = "application/vnd.docker.container.image.v1+json"
	TypeDockerLayer    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
	TypeDockerSchema1  = "application/vnd.docker.distribution.manifest.v1+json"
	TypeDockerSigned1  = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

// MetaCode is the key under which a fault carries the error code of the
// distribution specification, where its kind alone does not decide it.
const MetaCode = "oci-code"

// Document is a manifest, an index or a config, in the exact bytes that its
// digest is of.
type Document struct {
	MediaType string
	Digest    digest.Digest
	Bytes     []byte
}

// Decode reads a document, or another answer of a registry, into v. One that is
// refused by Check takes no memory.
func Decode(raw []byte, v any) error {
	if err := Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Check refuses a document that is too large, or whose JSON is out of proportion
// to its length. It does not say whether it is JSON at all.
func Check(raw []byte) error {
	if len(raw) > limits.Document {
		return fmt.Errorf("it is larger than %d MiB", limits.Document>>20)
	}
	return bounded.Shape{Depth: limits.DocumentDepth, Values: limits.DocumentValues}.Check(raw)
}

// Annotations are those of a manifest or index; nil where there are none, or it
// cannot be read.
func Annotations(d Document) map[string]string {
	var m struct {
		Annotations map[string]string `json:"annotations"`
	}
	if Decode(d.Bytes, &m) != nil {
		return nil
	}
	return m.Annotations
}

// NewDocument computes the digest of raw.
func NewDocument(mediaType string, raw []byte) Document {
	return Document{MediaType: mediaType, Digest: digest.FromBytes(raw), Bytes: raw}
}

// Classify settles a document's media type. header is the Content-Type that it
// came with; the document's own member wins, and where neither tells, its
// content does. Docker schema 1 and what is no manifest at all are refused as
// fault.Invalid.
func Classify(header string, raw []byte) (mediaType string, err error) {
	var probe struct {
		MediaType     string              `json:"mediaType"`
		SchemaVersion int                 `json:"schemaVersion"`
		Manifests     json.RawMessage     `json:"manifests"`
		Config        *ocispec.Descriptor `json:"config"`
	}
	if err := Decode(raw, &probe); err != nil {
		return "", fault.Invalid.New("The registry answered something that is not an image manifest", err)
	}
	mediaType = probe.MediaType
	if mediaType == "" {
		mediaType, _, _ = cutMediaType(header)
	}
	switch {
	case probe.SchemaVersion == 1 || mediaType == TypeDockerSchema1 || mediaType == TypeDockerSigned1:
		e := fault.Invalid.Newf("The image has a Docker schema 1 manifest, which is no longer served; push it again with a current engine")
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
	return "", fault.Invalid.Newf("The registry answered a document of type %q, which is not an image manifest", fault.Quote(mediaType))
}

func cutMediaType(header string) (mediaType, params string, found bool) {
	before, after, found := bytes.Cut([]byte(header), []byte(";"))
	return string(bytes.TrimSpace(before)), string(after), found
}

// IsIndex says whether a media type is that of a multi-platform index.
func IsIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == TypeDockerIndex
}

// IsManifest says whether a media type is that of an image manifest.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == TypeDockerManifest
}

// IsConfig says whether a media type is that of a container image's config.
func IsConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == TypeDockerConfig
}

// ParseManifest reads an image manifest, its layers lowest first. fault.Invalid when it
// is malformed.
func ParseManifest(d Document) (ocispec.Manifest, error) {
	var m ocispec.Manifest
	if err := Decode(d.Bytes, &m); err != nil {
		return m, malformed(d, err)
	}
	if len(m.Layers) > limits.ImageLayers {
		return m, fault.Invalid.Newf("The image %s has %d layers; at most %d are served", d.Digest, len(m.Layers), limits.ImageLayers)
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

// ParseIndex reads an image index. fault.Invalid when it is malformed.
func ParseIndex(d Document) (ocispec.Index, error) {
	var x ocispec.Index
	if err := Decode(d.Bytes, &x); err != nil {
		return x, malformed(d, err)
	}
	if len(x.Manifests) > limits.IndexEntries {
		return x, fault.Invalid.Newf("The image index %s has %d entries; at most %d are served", d.Digest, len(x.Manifests), limits.IndexEntries)
	}
	for i := range x.Manifests {
		if err := check(&x.Manifests[i]); err != nil {
			return x, malformed(d, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	return x, nil
}

// check drops content that a descriptor holds inline: nobody reads it, and it would be
// remembered with the descriptor.
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
