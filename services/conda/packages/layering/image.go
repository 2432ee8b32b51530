package layering

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Base is the base image of an environment, for one platform. Its layers are referenced and
// never read.
type Base struct {
	// Name is the requested name, for example "docker.io/library/ubuntu:24.04".
	Name string
	// Digest is the digest that the name resolves to: that of the index, if the image has
	// several platforms.
	Digest   digest.Digest
	Manifest oci.Document
	Config   []byte
}

// Environment is the input of an image: an environment for one platform, and its layers.
type Environment struct {
	Base     Base
	Platform ocispec.Platform
	// Title is a title for users, for example "samtools=1.20".
	Title string
	// Specs are the requested packages.
	Specs []string
	// Records are the lock in topological order, and Packages the results of Builder.Packages
	// for them.
	Records  []spec.Record
	Packages []Package
	// Variables are the environment's own variables by name (`variables:` of an environment
	// file).
	Variables map[string]string
	// Layers are the result of Builder.Layers, lowest first.
	Layers []Layer
	// Compression is the compression of the image's own layer; "" is Gzip.
	Compression Compression
	// Scratch is the folder for temporary files; "" is the system's.
	Scratch string
}

// Image is an image for one platform.
type Image struct {
	// Manifest and Config are those of an OCI image.
	oci.Image
	Platform ocispec.Platform
	// Base are the layers of the base image.
	Base []ocispec.Descriptor
	// Layers are the layers of the packages, lowest first.
	Layers []Layer
	// Own is the image's own layer, with history, state, lock and profile; OwnBlob is its
	// content.
	Own     Layer
	OwnBlob []byte
	// NotRun lists the activation scripts that could not be evaluated, with the reasons.
	NotRun []string
}

// Image returns the image of the environment on its base. The same environment always
// produces the same bytes. A base that is malformed or for another platform is
// fault.Invalid. The error is that of ctx once ctx is done.
func (e Environment) Image(ctx context.Context) (Image, error) {
	m, err := oci.ParseManifest(e.Base.Manifest)
	if err != nil {
		return Image{}, err
	}
	out := Image{Platform: e.Platform, Layers: e.Layers}
	base, err := e.baseEnv()
	if err != nil {
		return Image{}, e.unusable(err)
	}
	env, refused, err := e.activated(ctx, base)
	if err != nil {
		return Image{}, err
	}
	lock, err := json.Marshal(e.Records)
	if err != nil {
		return Image{}, err
	}
	var blob bytes.Buffer
	if out.Own, err = e.own(&blob, lock, base, env); err != nil {
		return Image{}, err
	}
	out.OwnBlob = blob.Bytes()
	for _, l := range m.Layers {
		out.Base = append(out.Base, ocispec.Descriptor{MediaType: ociLayer(l.MediaType), Digest: l.Digest, Size: l.Size, URLs: l.URLs})
	}
	layers := append(slices.Clone(e.Layers), out.Own)
	if len(out.Base)+len(layers) > limits.ImageLayers {
		return Image{}, fault.Invalid.Newf("%.200s has too many layers to add any", e.Base.Name)
	}
	notes := e.annotations(lock)
	config, err := e.config(layers, notes, env, refused)
	if err != nil {
		return Image{}, e.unusable(err)
	}
	for _, r := range refused {
		out.NotRun = append(out.NotRun, r.String())
	}
	out.Config = oci.NewDocument(ocispec.MediaTypeImageConfig, config)
	all := slices.Clone(out.Base)
	for _, l := range layers {
		all = append(all, l.descriptor())
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Annotations: notes, Layers: all,
		Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: out.Config.Digest, Size: int64(len(config))},
	})
	out.Manifest = oci.NewDocument(ocispec.MediaTypeImageManifest, manifest)
	return out, err
}

// unusable returns the fault for a base image with a malformed configuration.
func (e Environment) unusable(err error) error {
	return fault.Invalid.New(fmt.Sprintf("The configuration of %.200s cannot be used: %v", e.Base.Name, err), err)
}

// ociLayer returns the OCI media type of a Docker layer.
func ociLayer(mediaType string) string {
	if mediaType == oci.TypeDockerLayer {
		return ocispec.MediaTypeImageLayerGzip
	}
	return mediaType
}

// annotations returns the image's origin, for manifest annotations and labels.
func (e Environment) annotations(lock []byte) map[string]string {
	out := map[string]string{
		"org.opencontainers.image.title":       e.Title,
		"org.opencontainers.image.created":     e.created().Format(time.RFC3339),
		"org.opencontainers.image.base.name":   e.Base.Name,
		"org.opencontainers.image.base.digest": e.Base.Digest.String(),
		spec.LockLabel:                         digest.FromBytes(lock).String(),
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// created returns when the newest package was built. The time of the image's own build must
// not affect its bytes.
func (e Environment) created() time.Time {
	newest := time.Unix(0, 0).UTC()
	for _, r := range e.Records {
		if at := buildTime(r); at.After(newest) {
			newest = at
		}
	}
	return newest
}

// Index returns the index of the images of several platforms, in their order.
func Index(images []Image) (oci.Document, error) {
	sorted := slices.Clone(images)
	slices.SortStableFunc(sorted, func(a, b Image) int {
		return strings.Compare(platforms.Format(a.Platform), platforms.Format(b.Platform))
	})
	var parts []oci.Part
	for _, i := range sorted {
		parts = append(parts, oci.Part{Image: i.Manifest, Platform: i.Platform})
	}
	return oci.NewIndex(parts, nil)
}
