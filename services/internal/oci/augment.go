package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// createdBy is the history entry of an added layer. includedBy, followed by the image's name,
// is that of a layer that is included from another image.
const (
	createdBy  = "slipway: added layer"
	includedBy = "slipway: included "
)

// entryChain is the variable with the replaced entrypoint, from which the added layer can
// run it. Existing layers depend on its name.
const entryChain = "WAVE_ENTRY_CHAIN"

// An Augmentation is a set of changes to an image. The zero value adds nothing.
type Augmentation struct {
	// Entrypoint, Cmd and WorkingDir replace those of the image unless they are empty.
	Entrypoint, Cmd []string
	WorkingDir      string
	// Env replaces variables of the image with the same name, and adds the others. The
	// elements are "NAME=value".
	Env []string
	// Layers are added on top, in this order.
	Layers []Layer
}

// A Layer is a layer to add.
type Layer struct {
	// GzipDigest and Size are those of the stored layer, which is usually compressed.
	GzipDigest digest.Digest
	Size       int64
	// TarDigest is the digest of the uncompressed tar archive.
	TarDigest digest.Digest
	// Architecture is the only architecture that the layer is added to, or "" for all.
	Architecture string
	// MediaType is the OCI media type. "" means a tar archive with gzip.
	MediaType string
	// Image is the name of the image that the layer is included from, or "".
	Image string
}

// created returns the layer's entry in the history.
func (l Layer) created() string {
	if l.Image == "" {
		return createdBy
	}
	return includedBy + l.Image
}

// ArchitectureOf returns the architecture in the location of a layer: "amd64" for a
// location that ends in "-amd64.tar.gz", "arm64" likewise, and "" for others.
func ArchitectureOf(location string) string {
	for _, arch := range []string{"amd64", "arm64"} {
		if strings.HasSuffix(location, "-"+arch+".tar.gz") {
			return arch
		}
	}
	return ""
}

// IsZero reports whether nothing is added.
func (a Augmentation) IsZero() bool {
	return len(a.Entrypoint) == 0 && len(a.Cmd) == 0 && a.WorkingDir == "" && len(a.Env) == 0 && len(a.Layers) == 0
}

// A Source reads documents of one repository by digest and verifies them.
type Source interface {
	// Manifest returns a manifest or index.
	Manifest(ctx context.Context, d digest.Digest) (Document, error)
	// Config returns an image config.
	Config(ctx context.Context, d ocispec.Descriptor) ([]byte, error)
}

// An Image is an augmented manifest and its config.
type Image struct {
	Manifest, Config Document
	// Source is the digest of the manifest that was augmented. It is that of Manifest if nothing
	// was changed.
	Source digest.Digest
}

// An AugmentedImage is the result of Augment.
type AugmentedImage struct {
	// Root replaces the document that was augmented.
	Root Document
	// Images are the changed manifests: one for a single image, and one for each matching
	// entry of an index.
	Images []Image
}

// Augment applies a to root: to the image itself, or to the entries of an index for the
// wanted platforms. The other entries are not changed. Equal input gives equal bytes.
// Augment returns fault.NotFound if an index has no matching entry, and fault.Invalid if a
// document is malformed or a limit is exceeded.
func Augment(ctx context.Context, src Source, root Document, a Augmentation, wanted ...ocispec.Platform) (AugmentedImage, error) {
	src = &meteredSource{Source: src, left: limits.ImageDocuments - len(root.Bytes)}
	if !IsIndex(root.MediaType) {
		img, err := a.image(ctx, src, root)
		return AugmentedImage{Root: img.Manifest, Images: []Image{img}}, err
	}
	index, err := ParseIndex(root)
	if err != nil {
		return AugmentedImage{}, err
	}
	matching, err := matches(root, index, wanted)
	if err != nil {
		return AugmentedImage{}, err
	}
	out := AugmentedImage{}
	changed := map[int]Document{}
	for _, i := range matching {
		doc, err := src.Manifest(ctx, index.Manifests[i].Digest)
		if err != nil {
			return AugmentedImage{}, err
		}
		img, err := a.image(ctx, src, doc)
		if err != nil {
			return AugmentedImage{}, err
		}
		changed[i] = img.Manifest
		out.Images = append(out.Images, img)
	}
	out.Root, err = replaceEntries(root, changed)
	return out, err
}

// matches returns the indexes of the entries for the wanted platforms. It returns an error if
// no entry or more than limits.ImagesChanged entries match.
func matches(root Document, index ocispec.Index, wanted []ocispec.Platform) ([]int, error) {
	out := Matching(index, wanted...)
	switch {
	case len(out) == 0:
		return nil, fault.NotFound.Newf("The image is not available for %s; it has %s", Platforms(wanted), platformsOf(index))
	case len(out) > limits.ImagesChanged:
		return nil, fault.Invalid.Newf("The image index %s has %d images for %s; the limit is %d",
			root.Digest, len(out), Platforms(wanted), limits.ImagesChanged)
	}
	return out, nil
}

// maxListedPlatforms is the number of platforms that a message lists.
const maxListedPlatforms = 20

func platformsOf(x ocispec.Index) string {
	var list []string
	for _, m := range x.Manifests {
		if m.Platform == nil || m.Platform.OS == "unknown" {
			continue
		}
		if len(list) == maxListedPlatforms {
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

// printable returns an untrusted string in a short form for a message.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, fault.Quote(s))
}

func (a Augmentation) image(ctx context.Context, src Source, doc Document) (Image, error) {
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
		return Image{}, fault.Invalid.Newf("The image would have %d layers; the limit is %d", n, limits.ImageLayers)
	}
	out := Image{Source: doc.Digest, Config: NewDocument(m.Config.MediaType, config)}
	manifest, err := appendLayers(doc, out.Config, layers)
	if err != nil {
		return Image{}, malformed(doc, err)
	}
	out.Manifest = NewDocument(doc.MediaType, manifest)
	return out, nil
}

// appendLayers returns the manifest with its config replaced and layers added.
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

// repoint changes a descriptor to refer to doc. It removes inline data, which is that of
// the old document.
func repoint(desc *object, doc Document) error {
	desc.remove("data")
	if err := desc.set("digest", doc.Digest); err != nil {
		return err
	}
	return desc.set("size", len(doc.Bytes))
}

// replaceEntries returns an index in which the entries with the given positions refer to
// other documents, with more entries at the end. Companions follow their images.
func replaceEntries(root Document, changed map[int]Document, more ...ocispec.Descriptor) (Document, error) {
	raw, err := entriesReplaced(root, changed, more)
	if err != nil {
		return Document{}, malformed(root, err)
	}
	return NewDocument(root.MediaType, raw), nil
}

func entriesReplaced(root Document, changed map[int]Document, more []ocispec.Descriptor) ([]byte, error) {
	o, err := parseObject(root.Bytes)
	if err != nil {
		return nil, err
	}
	list, err := elements(o.get("manifests"))
	if err != nil {
		return nil, err
	}
	renamed := map[digest.Digest]digest.Digest{}
	for i, doc := range changed {
		desc, err := parseObject(list[i])
		if err != nil {
			return nil, err
		}
		var old digest.Digest
		if err := json.Unmarshal(desc.get("digest"), &old); err != nil {
			return nil, err
		}
		renamed[old] = doc.Digest
		if err := repoint(desc, doc); err != nil {
			return nil, err
		}
		if list[i], err = desc.MarshalJSON(); err != nil {
			return nil, err
		}
	}
	if err := follow(list, renamed); err != nil {
		return nil, err
	}
	for _, d := range more {
		raw, err := encode(d)
		if err != nil {
			return nil, err
		}
		list = append(list, raw)
	}
	if err := o.set("manifests", array(list)); err != nil {
		return nil, err
	}
	return o.MarshalJSON()
}
