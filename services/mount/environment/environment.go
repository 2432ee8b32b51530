// Package environment defines the OCI artifact with which an environment of Conda packages is
// mounted. The artifact of an image refers to it (its subject), so that clients find it among the
// image's referrers. An artifact without a subject is the environment itself: there is no image. Its
// layers are the index of all files (package erofs), compressed with zstd, followed by the blob of each
// package (package pack).
package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
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
	// Platform, e.g. "linux/amd64", and Env, a list of NAME=value, are those of an environment without
	// an image: the variables of a shell that activates it. Otherwise the config of the image has them.
	Platform string   `json:"platform,omitempty"`
	Env      []string `json:"env,omitempty"`
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
	// Subject is the digest of the image's manifest; "" if there is no image.
	Subject digest.Digest
}

var errBroken = errors.New("the manifest is not that of a mountable environment")

// Parse parses the manifest of an artifact.
func Parse(manifest []byte) (Artifact, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return Artifact{}, fmt.Errorf("parsing the manifest of an environment: %w", err)
	}
	if m.ArtifactType != Type || m.Config.MediaType != TypeConfig || m.Config.Size > limits.MountConfig ||
		len(m.Layers) == 0 || len(m.Layers) > limits.MountPackages+1 || m.Layers[0].MediaType != TypeIndex || m.Layers[0].Size > limits.MountIndex {
		return Artifact{}, errBroken
	}
	a := Artifact{Config: m.Config, Index: m.Layers[0], Blobs: map[string]ocispec.Descriptor{}}
	all := append(slices.Clone(m.Layers), m.Config)
	if m.Subject != nil {
		a.Subject = m.Subject.Digest
		all = append(all, *m.Subject)
	}
	for _, d := range all {
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

var errBrokenConfig = errors.New("the description of the environment is malformed")

// ParseConfig parses the config of an artifact.
func ParseConfig(raw []byte) (Config, error) {
	var c Config
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("parsing the description of an environment: %w", err)
	}
	if !path.IsAbs(c.Prefix) || path.Clean(c.Prefix) != c.Prefix || c.Prefix == "/" || strings.ContainsAny(c.Prefix, "\x00\n:") ||
		c.Index.Validate() != nil || c.Size < 0 || c.Size > limits.MountIndexRaw {
		return c, errBrokenConfig
	}
	for _, v := range c.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return c, errBrokenConfig
		}
	}
	return c, nil
}
