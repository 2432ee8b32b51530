// Package soci adds a SOCI index (version 2) to an image, so that engines with soci-snapshotter
// start containers of the image before its layers are downloaded
// (https://github.com/awslabs/soci-snapshotter, docs/soci-index-manifest-v2.md).
//
// The SOCI index lists the zTOCs (package ztoc) of the layers of an image for one platform. An
// annotation of the image's manifest names it, and the image's index lists both. All documents
// are pure functions of the image and of the bytes of its layers, and equal to those of `soci
// convert`, apart from the name of the program. The package does no I/O.
package soci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ztoc"
)

const (
	// TypeIndex is the type of a SOCI index: the media type of its config, and the artifact type
	// of its entry in the image's index.
	TypeIndex = "application/vnd.amazon.soci.index.v2+json"
	// IndexAnnotation is the annotation of an image's manifest with the digest of its SOCI index.
	IndexAnnotation = "com.amazon.soci.index-digest"
	// LayerAnnotation is the annotation of a zTOC in a SOCI index with the digest of its layer.
	LayerAnnotation = "com.amazon.soci.image-layer-digest"

	typeAnnotation = "com.amazon.soci.image-layer-mediaType"
	spanAnnotation = "com.amazon.soci.span-size"
	toolAnnotation = "com.amazon.soci.build-tool-identifier"
)

// Tool names the program in zTOCs and SOCI indexes. It has no version: equal images have equal
// indexes on all servers.
const Tool = "slipway"

// Version is a part of the keys under which zTOCs are stored. It changes if equal input would give
// other bytes.
const Version = "1"

// NoLayer is the reason why an image has no SOCI index.
const NoLayer = "no layer with gzip or without compression has 10 MiB or more"

// A Ztoc describes the zTOC of a layer.
type Ztoc struct {
	// Layer is the layer as the image's manifest lists it.
	Layer  ocispec.Descriptor
	Digest digest.Digest
	Size   int64
}

// HasZtoc reports whether a layer gets a zTOC. Small layers are downloaded as a whole, as those
// are that the format does not support: it supports gzip and plain tar.
func HasZtoc(l ocispec.Descriptor) bool {
	switch l.MediaType {
	case ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayer, oci.TypeDockerLayer:
		return l.Size >= limits.ZtocLayer && len(l.URLs) == 0
	}
	return false
}

// Read reads a layer to its end and returns its encoded zTOC. It returns ztoc.ErrInvalid if the
// layer cannot have one, and errors of in. Content that does not have the layer's digest is another
// error: the layer itself may have a zTOC.
func Read(l ocispec.Descriptor, in io.Reader) ([]byte, error) {
	if err := l.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("the digest of a layer: %w", err)
	}
	sum := l.Digest.Verifier()
	in = io.TeeReader(in, sum)
	read := ztoc.FromGzip
	if l.MediaType == ocispec.MediaTypeImageLayer {
		read = ztoc.FromTar
	}
	toc, invalid := read(in)
	if invalid != nil && !errors.Is(invalid, ztoc.ErrInvalid) {
		return nil, invalid
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(in, l.Size+1)); err != nil {
		return nil, fmt.Errorf("reading the layer %s: %w", l.Digest, err)
	}
	if !sum.Verified() {
		return nil, fmt.Errorf("the content of the layer %s was changed", l.Digest)
	}
	if invalid != nil {
		return nil, invalid
	}
	return toc.Marshal(Tool), nil
}

// An Image is an image with a SOCI index.
type Image struct {
	// Root is the index of the image, which lists Manifest and Index.
	Root oci.Document
	// Manifest is the image's manifest with IndexAnnotation.
	Manifest oci.Document
	// Index is the SOCI index, Config its config, and Ztocs its layers.
	Index, Config oci.Document
	Ztocs         []Ztoc
	// Prefetch are further layers of the SOCI index.
	Prefetch []Artifact
}

// Enable returns an image with a SOCI index of the zTOCs, of which there must be at least one,
// in the order of the layers, and of prefetch artifacts. The root is the image's manifest, or an OCI
// index that lists it. The error is fault.Invalid if a document is malformed.
func Enable(root, manifest oci.Document, platform ocispec.Platform, ztocs []Ztoc, prefetch ...Artifact) (Image, error) {
	out := Image{Config: oci.NewDocument(TypeIndex, []byte("{}")), Ztocs: ztocs, Prefetch: prefetch}
	var err error
	if out.Index, err = index(out.Config, ztocs, prefetch); err != nil {
		return Image{}, err
	}
	if out.Manifest, err = oci.Annotate(manifest, map[string]string{IndexAnnotation: out.Index.Digest.String()}); err != nil {
		return Image{}, err
	}
	out.Root, err = oci.Accompany(root, manifest.Digest, platform, out.Manifest, entry(out.Index.Digest, int64(len(out.Index.Bytes))))
	return out, err
}

// entry returns the entry of a SOCI index in the index of its image.
func entry(index digest.Digest, size int64) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: TypeIndex, Digest: index, Size: size}
}

// IsRoot reports whether root is the index that Enable returns for an image whose annotated manifest
// is the given one. The manifest determines it, apart from the size of the SOCI index.
func IsRoot(root, manifest oci.Document, platform ocispec.Platform) bool {
	x, err := oci.ParseIndex(root)
	if err != nil || len(x.Manifests) != 2 {
		return false
	}
	index := digest.Digest(oci.Annotations(manifest)[IndexAnnotation])
	want, err := oci.Accompany(manifest, manifest.Digest, platform, manifest, entry(index, x.Manifests[1].Size))
	return err == nil && index != "" && want.Digest == root.Digest
}

// index returns the SOCI index of some zTOCs and prefetch artifacts.
func index(config oci.Document, ztocs []Ztoc, prefetch []Artifact) (oci.Document, error) {
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config:      ocispec.Descriptor{MediaType: TypeIndex, Digest: config.Digest, Size: int64(len(config.Bytes))},
		Annotations: map[string]string{toolAnnotation: Tool},
	}
	for _, z := range ztocs {
		m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ztoc.MediaType, Digest: z.Digest, Size: z.Size, Annotations: map[string]string{
			typeAnnotation: z.Layer.MediaType, LayerAnnotation: z.Layer.Digest.String(), spanAnnotation: strconv.Itoa(ztoc.SpanSize),
		}})
	}
	if len(m.Layers) == 0 {
		return oci.Document{}, fault.Invalid.Newf("The image has no layer for a SOCI index")
	}
	for _, a := range prefetch {
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: TypePrefetch, Digest: a.Document.Digest, Size: int64(len(a.Document.Bytes)), Annotations: map[string]string{LayerAnnotation: a.Layer.String()},
		})
	}
	raw, err := json.Marshal(m)
	return oci.NewDocument(ocispec.MediaTypeImageManifest, raw), err
}

// Layers returns the layers of a manifest that get a zTOC, each once, lowest first. It returns
// fault.Invalid if the manifest is malformed.
func Layers(manifest oci.Document) ([]ocispec.Descriptor, error) {
	m, err := oci.ParseManifest(manifest)
	if err != nil {
		return nil, err
	}
	seen := map[digest.Digest]bool{}
	return slices.DeleteFunc(m.Layers, func(l ocispec.Descriptor) bool {
		skip := !HasZtoc(l) || seen[l.Digest]
		seen[l.Digest] = true
		return skip
	}), nil
}
