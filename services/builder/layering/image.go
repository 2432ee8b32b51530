package layering

import (
	"bytes"
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

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Base is the image that an environment is put on, for one platform. Its layers
// are named, and never read.
type Base struct {
	// Name is as it was asked for, e.g. "docker.io/library/ubuntu:24.04".
	Name string
	// Digest is of what has that name: the index, where it is one.
	Digest   digest.Digest
	Manifest oci.Document
	Config   []byte
}

// Environment is an environment for one platform, and what was made of it.
type Environment struct {
	Base     Base
	Platform ocispec.Platform
	// Title is for people, e.g. "samtools=1.20".
	Title string
	// Specs are what was asked for.
	Specs []string
	// Records are the lock, in topological order; Packages, of Maker.Packages, theirs.
	Records  []conda.Record
	Packages []Package
	// Layers, of Maker.Layers, lowest first.
	Layers []Layer
	// Compression is for the image's own layer; "" is Gzip.
	Compression Compression
}

// Image is an image for one platform.
type Image struct {
	// Manifest and Config are those of an OCI image.
	oci.Image
	Platform ocispec.Platform
	// Base are the layers that the base image has.
	Base []ocispec.Descriptor
	// Layers are those of the packages, lowest first.
	Layers []Layer
	// Own is the image's own layer, and OwnBlob its bytes: what the environment was
	// asked for, and when.
	Own     Layer
	OwnBlob []byte
	// NotRun are the activation scripts that say more than an image can.
	NotRun []string
}

// annotationLock has the digest of the lock that an image was made from.
const annotationLock = "dev.slipway.conda.lock"

// Image puts the environment on its base. The same environment gives the same
// bytes, always and everywhere. fault.Invalid when the base is malformed, or for
// another platform.
func (e Environment) Image() (Image, error) {
	m, err := oci.ParseManifest(e.Base.Manifest)
	if err != nil {
		return Image{}, err
	}
	out := Image{Platform: e.Platform, Layers: e.Layers}
	var blob bytes.Buffer
	if out.Own, err = e.own(&blob); err != nil {
		return Image{}, err
	}
	out.OwnBlob = blob.Bytes()
	for _, l := range m.Layers {
		out.Base = append(out.Base, ocispec.Descriptor{MediaType: ociLayer(l.MediaType), Digest: l.Digest, Size: l.Size, URLs: l.URLs})
	}
	layers := append(slices.Clone(e.Layers), out.Own)
	if len(out.Base)+len(layers) > limits.ImageLayers {
		return Image{}, fault.Invalid.Newf("%.200s has so many layers that nothing can be put on it", e.Base.Name)
	}
	notes, err := e.annotations()
	if err != nil {
		return Image{}, err
	}
	config, notRun, err := e.config(layers, notes)
	if err != nil {
		return Image{}, fault.Invalid.New(fmt.Sprintf("The configuration of %.200s cannot be used: %v", e.Base.Name, err), err)
	}
	out.NotRun, out.Config = notRun, oci.NewDocument(ocispec.MediaTypeImageConfig, config)
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

// ociLayer is what OCI calls a layer of Docker's.
func ociLayer(mediaType string) string {
	if mediaType == oci.TypeDockerLayer {
		return ocispec.MediaTypeImageLayerGzip
	}
	return mediaType
}

// annotations say where an image is from, as manifest annotations and as labels.
func (e Environment) annotations() (map[string]string, error) {
	lock, err := json.Marshal(e.Records)
	if err != nil {
		return nil, err
	}
	out := map[string]string{
		"org.opencontainers.image.title":       e.Title,
		"org.opencontainers.image.created":     e.created().Format(time.RFC3339),
		"org.opencontainers.image.base.name":   e.Base.Name,
		"org.opencontainers.image.base.digest": e.Base.Digest.String(),
		annotationLock:                         digest.FromBytes(lock).String(),
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out, nil
}

// created is when the newest package was made: an image is no older than that, and
// when it was put together must not show.
func (e Environment) created() time.Time {
	newest := time.Unix(0, 0).UTC()
	for _, r := range e.Records {
		if at := made(r); at.After(newest) {
			newest = at
		}
	}
	return newest
}

// Index is one image for several platforms, in their order.
func Index(images []Image) (oci.Document, error) {
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	sorted := slices.Clone(images)
	slices.SortStableFunc(sorted, func(a, b Image) int {
		return strings.Compare(platforms.Format(a.Platform), platforms.Format(b.Platform))
	})
	for _, i := range sorted {
		index.Manifests = append(index.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: i.Manifest.Digest, Size: int64(len(i.Manifest.Bytes)), Platform: &i.Platform,
		})
	}
	raw, err := json.Marshal(index)
	return oci.NewDocument(ocispec.MediaTypeImageIndex, raw), err
}
