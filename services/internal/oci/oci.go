// Package oci knows image names, platforms, manifests and how to put something
// on top of an image (see Augment). It is pure: what has to be fetched comes
// through the Source that a caller passes in. The truth is the OCI image
// specification v1.1 and, for images made before it, Docker's image manifest
// version 2, schema 2.
package oci

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Media types of documents and layers.
const (
	TypeIndex          = "application/vnd.oci.image.index.v1+json"
	TypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	TypeConfig         = "application/vnd.oci.image.config.v1+json"
	TypeLayer          = "application/vnd.oci.image.layer.v1.tar+gzip"
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

// Descriptor points at a document or layer.
type Descriptor struct {
	MediaType   string            `json:"mediaType,omitempty"`
	Digest      digest.Digest     `json:"digest"`
	Size        int64             `json:"size"`
	URLs        []string          `json:"urls,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Platform is nil where the descriptor states none.
	Platform *Platform `json:"platform,omitempty"`
}

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

// Manifest is what we read of an image manifest.
type Manifest struct {
	Config Descriptor
	// Layers, lowest first.
	Layers []Descriptor
	// Subject is the manifest that this one refers to; nil for an image.
	Subject *Descriptor
}

// Index is what we read of an image index.
type Index struct {
	Manifests []Descriptor
}

// Classify settles a document's media type. header is the Content-Type that it
// came with; the document's own member wins, and where neither tells, its
// content does. Docker schema 1 and what is no manifest at all are refused as
// fault.Invalid.
func Classify(header string, raw []byte) (mediaType string, err error) {
	var probe struct {
		MediaType     string          `json:"mediaType"`
		SchemaVersion int             `json:"schemaVersion"`
		Manifests     json.RawMessage `json:"manifests"`
		Config        *Descriptor     `json:"config"`
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
		return TypeIndex, nil
	case probe.Config != nil && probe.Config.MediaType == TypeDockerConfig:
		return TypeDockerManifest, nil
	case probe.Config != nil:
		return TypeManifest, nil
	}
	return "", fault.Invalid.Newf("The registry answered a document of type %q, which is not an image manifest", fault.Quote(mediaType))
}

func cutMediaType(header string) (mediaType, params string, found bool) {
	before, after, found := bytes.Cut([]byte(header), []byte(";"))
	return string(bytes.TrimSpace(before)), string(after), found
}

// IsIndex says whether a media type is that of a multi-platform index.
func IsIndex(mediaType string) bool { return mediaType == TypeIndex || mediaType == TypeDockerIndex }

// IsManifest says whether a media type is that of an image manifest.
func IsManifest(mediaType string) bool {
	return mediaType == TypeManifest || mediaType == TypeDockerManifest
}

// ParseManifest reads an image manifest. fault.Invalid when it is malformed.
func ParseManifest(d Document) (Manifest, error) {
	var m Manifest
	if err := Decode(d.Bytes, &m); err != nil {
		return m, malformed(d, err)
	}
	if err := m.Config.validate(); err != nil {
		return m, malformed(d, fmt.Errorf("config: %w", err))
	}
	if len(m.Layers) > limits.ImageLayers {
		return m, fault.Invalid.Newf("The image %s has %d layers; at most %d are served", d.Digest, len(m.Layers), limits.ImageLayers)
	}
	for i, l := range m.Layers {
		if err := l.validate(); err != nil {
			return m, malformed(d, fmt.Errorf("layer %d: %w", i, err))
		}
	}
	return m, nil
}

// ParseIndex reads an image index. fault.Invalid when it is malformed.
func ParseIndex(d Document) (Index, error) {
	var x Index
	if err := Decode(d.Bytes, &x); err != nil {
		return x, malformed(d, err)
	}
	if len(x.Manifests) > limits.IndexEntries {
		return x, fault.Invalid.Newf("The image index %s has %d entries; at most %d are served", d.Digest, len(x.Manifests), limits.IndexEntries)
	}
	for i, m := range x.Manifests {
		if err := m.validate(); err != nil {
			return x, malformed(d, fmt.Errorf("entry %d: %w", i, err))
		}
	}
	return x, nil
}

func (d Descriptor) validate() error {
	if d.Size < 0 {
		return fmt.Errorf("negative size %d", d.Size)
	}
	return d.Digest.Validate()
}

func malformed(d Document, err error) error {
	return fault.Invalid.New(fmt.Sprintf("The manifest %s of the image is malformed", d.Digest), err)
}
