// Package environment defines the OCI artifact with which an environment of Conda packages is
// mounted. The artifact refers to the image of the environment (its subject), so that clients find
// it among the image's referrers. Its layers are the index of all files (package erofs), compressed
// with zstd, followed by the blob of each package (package pack).
package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/pack"
)

const (
	// Type is the artifact's type.
	Type = "application/vnd.slipway.environment.v1"
	// TypeConfig is the media type of a Config.
	TypeConfig = "application/vnd.slipway.environment.config.v1+json"
	// TypeIndex is the media type of the compressed index.
	TypeIndex = "application/vnd.slipway.environment.index.v1+zstd"
	// BlobAnnotation is the annotation of a package's blob with the ID of its device, in hexadecimal
	// digits.
	BlobAnnotation = "dev.slipway.blob.id"
)

// A Config describes an environment.
type Config struct {
	// Prefix is the path where the environment has to be mounted, since its files contain it.
	Prefix string `json:"prefix"`
	// Index and Size, in bytes, are those of the index before compression.
	Index digest.Digest `json:"index"`
	Size  int64         `json:"size"`
	// Inodes is the number of files, directories and links.
	Inodes int64 `json:"inodes"`
	// Packages are the packages in the order of the lock, which is that of the index's devices.
	Packages []Package `json:"packages"`
}

// A Package is a package of an environment.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Build   string `json:"build"`
	// Blob is the ID of its device, and Size the length of its blob in bytes.
	Blob string `json:"blob"`
	Size int64  `json:"size"`
}

// An Artifact is the content of a manifest.
type Artifact struct {
	Config, Index ocispec.Descriptor
	// Blobs are the blobs by the IDs of their devices.
	Blobs map[string]ocispec.Descriptor
	// Subject is the digest of the image's manifest.
	Subject digest.Digest
}

var errBroken = errors.New("the manifest is not that of a mountable environment")

// Parse parses the manifest of an artifact.
func Parse(manifest []byte) (Artifact, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return Artifact{}, fmt.Errorf("parsing the manifest of an environment: %w", err)
	}
	if m.ArtifactType != Type || m.Config.MediaType != TypeConfig || m.Config.Size > limits.MountConfig || m.Subject == nil ||
		len(m.Layers) == 0 || len(m.Layers) > limits.MountPackages+1 || m.Layers[0].MediaType != TypeIndex || m.Layers[0].Size > limits.MountIndex {
		return Artifact{}, errBroken
	}
	a := Artifact{Config: m.Config, Index: m.Layers[0], Blobs: map[string]ocispec.Descriptor{}, Subject: m.Subject.Digest}
	for _, d := range append(m.Layers, m.Config, *m.Subject) {
		if err := d.Digest.Validate(); err != nil || d.Digest.Algorithm() != digest.SHA256 || d.Size < 0 {
			return Artifact{}, errBroken
		}
	}
	for _, l := range m.Layers[1:] {
		id := l.Annotations[BlobAnnotation]
		if l.MediaType != pack.MediaType || digest.NewDigestFromEncoded(digest.SHA256, id).Validate() != nil {
			return Artifact{}, errBroken
		}
		a.Blobs[id] = l
	}
	return a, nil
}

// ParseConfig parses the config of an artifact.
func ParseConfig(raw []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("parsing the description of an environment: %w", err)
	}
	if !path.IsAbs(c.Prefix) || path.Clean(c.Prefix) != c.Prefix || c.Prefix == "/" || strings.ContainsAny(c.Prefix, "\x00\n:") ||
		c.Index.Validate() != nil || c.Size < 0 || c.Size > limits.MountIndexRaw {
		return c, errors.New("the description of the environment is malformed")
	}
	return c, nil
}
