package oci_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// repo is a repository in memory: an oci.Source.
type repo map[digest.Digest]oci.Document

func (r repo) Manifest(_ context.Context, d digest.Digest) (oci.Document, error) {
	doc, ok := r[d]
	if !ok {
		return doc, fault.NotFound.Newf("there is no %s", d)
	}
	return doc, nil
}

func (r repo) Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	doc, err := r.Manifest(ctx, d.Digest)
	return doc.Bytes, err
}

func (r repo) add(mediaType, raw string) oci.Document {
	doc := oci.NewDocument(mediaType, []byte(raw))
	r[doc.Digest] = doc
	return doc
}

// kind is a family of media types.
type kind struct{ index, manifest, config, layer string }

var (
	ociKind    = kind{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageLayerGzip}
	dockerKind = kind{oci.TypeDockerIndex, oci.TypeDockerManifest, oci.TypeDockerConfig, oci.TypeDockerLayer}
)

// layerOf returns the descriptor of a layer.
func (k kind) layerOf(content string, size int64) string {
	return fmt.Sprintf(`{"mediaType":"%s","digest":"%s","size":%d}`, k.layer, digest.FromString(content), size)
}

// text returns a manifest with a config and layers; more is appended to its members.
func (k kind) text(config, layers, more string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s","digest":"%s","size":%d},"layers":[%s]%s}`,
		k.manifest, k.config, digest.FromString(config), len(config), layers, more)
}

// image adds an image of one layer.
func (r repo) image(k kind, config string) oci.Document {
	r.add(k.config, config)
	return r.add(k.manifest, k.text(config, k.layerOf("old", 5), ""))
}

// added returns a layer to add.
func added(name string) oci.Layer {
	return oci.Layer{GzipDigest: digest.FromString(name + ".tar.gz"), Size: 11, TarDigest: digest.FromString(name + ".tar")}
}

var linuxAMD64 = oci.DefaultPlatform

func augment(t testing.TB, r repo, root oci.Document, a oci.Augmentation) oci.AugmentedImage {
	t.Helper()
	out, err := oci.Augment(t.Context(), r, root, a, linuxAMD64)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// describe returns an entry of an index.
func describe(doc oci.Document, members string) string {
	return fmt.Sprintf(`{"mediaType":"%s","digest":"%s","size":%d%s}`, doc.MediaType, doc.Digest, len(doc.Bytes), members)
}

func platform(os, arch, variant string) string {
	if variant != "" {
		variant = `,"variant":"` + variant + `"`
	}
	return fmt.Sprintf(`,"platform":{"architecture":"%s","os":"%s"%s}`, arch, os, variant)
}

// index adds an index of entries.
func (r repo) index(k kind, entries ...string) oci.Document {
	return r.add(k.index, `{"schemaVersion":2,"mediaType":"`+k.index+`","manifests":[`+strings.Join(entries, ",")+`]}`)
}
