package oci

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// createdBy names this service in the history of an augmented image; of a layer that
// another image has, includedBy and that image.
const (
	createdBy  = "slipway: added layer"
	includedBy = "slipway: included "
)

// entryChain is the variable in which a replaced entrypoint is kept, so that
// the layer which replaces it can go on to run it. Existing layers read it.
const entryChain = "WAVE_ENTRY_CHAIN"

// Addition is what is put on top of an image. The zero value adds nothing.
type Addition struct {
	// Entrypoint, Cmd and WorkingDir replace the image's own; empty keeps them.
	Entrypoint, Cmd []string
	WorkingDir      string
	// Env is merged by name and wins; each is "NAME=value".
	Env []string
	// Layers go on top in this order.
	Layers []Layer
}

// Layer is a tar to add.
type Layer struct {
	// GzipDigest and Size are of the bytes as they are stored, most often compressed.
	GzipDigest digest.Digest
	Size       int64
	// TarDigest is of the uncompressed tar.
	TarDigest digest.Digest
	// Architecture is the only one that gets the layer; "" is every one.
	Architecture string
	// MediaType is what OCI calls it; "" is a gzip'd tar.
	MediaType string
	// Image is the one that the layer is taken from; "" for none.
	Image string
}

// created is what the history says of the layer.
func (l Layer) created() string {
	if l.Image == "" {
		return createdBy
	}
	return includedBy + l.Image
}

// ArchitectureOf reads from a layer's location for which architecture it is:
// "amd64" from "…-amd64.tar.gz", "arm64" likewise, else "".
func ArchitectureOf(location string) string {
	for _, arch := range []string{"amd64", "arm64"} {
		if strings.HasSuffix(location, "-"+arch+".tar.gz") {
			return arch
		}
	}
	return ""
}

// IsZero says whether there is nothing to add.
func (a Addition) IsZero() bool {
	return len(a.Entrypoint) == 0 && len(a.Cmd) == 0 && a.WorkingDir == "" && len(a.Env) == 0 && len(a.Layers) == 0
}

// Source reads documents of one repository by digest, verified.
type Source interface {
	// Manifest returns a manifest or index.
	Manifest(ctx context.Context, d digest.Digest) (Document, error)
	// Config returns an image config.
	Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error)
}

// Image is an augmented image manifest and its config.
type Image struct {
	Manifest, Config Document
}

// Augmented is what Augment made.
type Augmented struct {
	// Root stands for the document that was augmented.
	Root Document
	// Images are the manifests that were changed: one for a single image, one for
	// each entry of the platform in an index.
	Images []Image
}

// Augment puts a on top of root: of the image itself, or of the entries for the
// platforms in an index, whose other entries stay as they are. The same input
// gives the same bytes, always and everywhere. fault.NotFound when an index has
// no such entry; fault.Invalid when a document is malformed, or there are more of
// them, or larger ones, than the limits allow.
func Augment(ctx context.Context, src Source, root Document, a Addition, wanted ...ocispec.Platform) (Augmented, error) {
	src = &metered{Source: src, left: limits.ImageDocuments - len(root.Bytes)}
	if !IsIndex(root.MediaType) {
		img, err := a.image(ctx, src, root)
		return Augmented{Root: img.Manifest, Images: []Image{img}}, err
	}
	index, err := ParseIndex(root)
	if err != nil {
		return Augmented{}, err
	}
	matching, err := matches(root, index, wanted)
	if err != nil {
		return Augmented{}, err
	}
	out := Augmented{}
	changed := map[int]Document{}
	for _, i := range matching {
		doc, err := src.Manifest(ctx, index.Manifests[i].Digest)
		if err != nil {
			return Augmented{}, err
		}
		img, err := a.image(ctx, src, doc)
		if err != nil {
			return Augmented{}, err
		}
		changed[i] = img.Manifest
		out.Images = append(out.Images, img)
	}
	out.Root, err = replaceEntries(root, changed)
	return out, err
}

// matches are the positions of the entries that are for one of the platforms, at least
// one and at most limits.ImagesChanged.
func matches(root Document, index ocispec.Index, wanted []ocispec.Platform) ([]int, error) {
	out := Matching(index, wanted...)
	switch {
	case len(out) == 0:
		return nil, fault.NotFound.Newf("The image is not available for %s; it has %s", Platforms(wanted), platformsOf(index))
	case len(out) > limits.ImagesChanged:
		return nil, fault.Invalid.Newf("The image index %s has %d images for %s; something can be added to %d at most",
			root.Digest, len(out), Platforms(wanted), limits.ImagesChanged)
	}
	return out, nil
}

// shownPlatforms is how many platforms a message lists.
const shownPlatforms = 20

func platformsOf(x ocispec.Index) string {
	var list []string
	for _, m := range x.Manifests {
		if m.Platform == nil || m.Platform.OS == "unknown" {
			continue
		}
		if len(list) == shownPlatforms {
			list = append(list, "…")
			break
		}
		list = append(list, printable(platforms.Format(*m.Platform)))
	}
	if len(list) == 0 {
		return "no platforms"
	}
	return strings.Join(list, ", ")
}

// printable is a short text from outside, for a message.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, fault.Quote(s))
}

func (a Addition) image(ctx context.Context, src Source, doc Document) (Image, error) {
	m, err := ParseManifest(doc)
	if err != nil {
		return Image{}, err
	}
	if t := m.Config.MediaType; !IsConfig(t) {
		return Image{}, fault.Invalid.Newf("%s is not a container image (its config is of type %q), so nothing can be added to it", doc.Digest, fault.Quote(t))
	}
	raw, err := src.Config(ctx, m.Config)
	if err != nil {
		return Image{}, err
	}
	config, layers, err := a.config(raw)
	if err != nil {
		return Image{}, fault.Invalid.New(fmt.Sprintf("The config %s of the image is malformed", m.Config.Digest), err)
	}
	if n := len(m.Layers) + len(layers); n > limits.ImageLayers {
		return Image{}, fault.Invalid.Newf("The image would have %d layers; at most %d are served", n, limits.ImageLayers)
	}
	out := Image{Config: NewDocument(m.Config.MediaType, config)}
	manifest, err := appendLayers(doc, out.Config, layers)
	if err != nil {
		return Image{}, malformed(doc, err)
	}
	out.Manifest = NewDocument(doc.MediaType, manifest)
	return out, nil
}

// appendLayers is the manifest with another config and layers on top.
func appendLayers(doc Document, config Document, layers []Layer) ([]byte, error) {
	o, err := parseObject(doc.Bytes)
	if err != nil {
		return nil, err
	}
	desc, err := parseObject(o.get("config"))
	if err != nil {
		return nil, err
	}
	if err := repoint(desc, config); err != nil {
		return nil, err
	}
	if err := o.set("config", desc); err != nil {
		return nil, err
	}
	list, err := elements(o.get("layers"))
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		raw, err := encode(ocispec.Descriptor{MediaType: layerType(l.MediaType, doc.MediaType), Digest: l.GzipDigest, Size: l.Size})
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	if err := o.set("layers", array(list)); err != nil {
		return nil, err
	}
	return o.MarshalJSON()
}

// repoint makes a descriptor point at doc. Content that it holds inline would be
// of the old document.
func repoint(desc *object, doc Document) error {
	desc.remove("data")
	if err := desc.set("digest", doc.Digest); err != nil {
		return err
	}
	return desc.set("size", len(doc.Bytes))
}

// replaceEntries is the index with some entries, by position, pointing
// elsewhere.
func replaceEntries(root Document, changed map[int]Document) (Document, error) {
	o, err := parseObject(root.Bytes)
	if err != nil {
		return Document{}, malformed(root, err)
	}
	list, err := elements(o.get("manifests"))
	if err != nil {
		return Document{}, malformed(root, err)
	}
	for i, doc := range changed {
		desc, err := parseObject(list[i])
		if err != nil {
			return Document{}, malformed(root, err)
		}
		if err := repoint(desc, doc); err != nil {
			return Document{}, malformed(root, err)
		}
		if list[i], err = desc.MarshalJSON(); err != nil {
			return Document{}, malformed(root, err)
		}
	}
	if err := o.set("manifests", array(list)); err != nil {
		return Document{}, malformed(root, err)
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return Document{}, malformed(root, err)
	}
	return NewDocument(root.MediaType, raw), nil
}
